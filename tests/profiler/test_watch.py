"""The profiler on and off: results and errors are the same while it is on, and nothing is left of it afterwards."""

from __future__ import annotations

import pytest
from profiled import find, training_step

import numod
from numod import nn
from numod.autograd import engine
from numod.core import apply as dispatch, updates
from numod.core.extensions import extensions
from numod.kernel import bind
from numod.ops.op import Op
from numod.profiler import profile, record_function


def test_off_is_as_if_it_had_never_been_on() -> None:
    before = (
        dispatch.apply.__code__, dispatch.apply_into.__code__, updates.apply_updates.__code__, engine._start_pass,
        nn.Module.__call__, bind._built, numod.Tensor.item.__code__, Op.plan.__code__, extensions.record,
    )  # fmt: skip
    step = training_step()
    # plans in place have none
    runs = lambda: [plan.run for plan in numod.ops.table.relu.cached_plans() if getattr(plan, "run", None) is not None]  # noqa: E731
    kernels = {id(cell.cell_contents) for run in runs() for cell in run.__closure__ or ()}
    with profile(with_jit=True):
        assert dispatch.apply.__code__ is not before[0]
        step()
    assert (
        dispatch.apply.__code__,
        dispatch.apply_into.__code__,
        updates.apply_updates.__code__,
        engine._start_pass,
        nn.Module.__call__,
        bind._built,
        numod.Tensor.item.__code__,
        Op.plan.__code__,
        extensions.record,
    ) == before
    assert kernels <= {id(cell.cell_contents) for run in runs() for cell in run.__closure__ or ()}
    step()


def test_results_are_the_same() -> None:
    x = numod.randn(5, 6, requires_grad=True)

    def compute() -> tuple[numod.Tensor, numod.Tensor]:
        out = (x.sort(1)[0].softmax(1) @ x.t()).sum()
        return out, numod.autograd.grad(out, x)[0]

    expected = compute()
    with profile(with_jit=True, profile_memory=True, with_flops=True, with_stack=True):
        actual = compute()
    assert all(numod.equal(a, b) for a, b in zip(expected, actual))


def test_an_error_passes_through() -> None:
    with profile() as prof:
        with pytest.raises(RuntimeError, match="inner sizes differ"):
            nn.Linear(3, 4)(numod.ones(2, 5))
        numod.ones(2).exp()
    assert len(find(prof, "numod::exp")) == 1


def test_two_at_once_are_refused() -> None:
    with profile(), pytest.raises(RuntimeError, match="another profiler is active"):
        profile().start()
    with profile():
        pass


def test_record_function_without_a_profiler_does_nothing() -> None:
    @record_function("twice")
    def twice(x: float) -> float:
        return 2 * x

    assert twice(2.0) == 4.0
    with profile() as prof:
        assert twice(3.0) == 6.0
    assert len(find(prof, "twice")) == 1 and find(prof, "twice")[0].is_user_annotation
