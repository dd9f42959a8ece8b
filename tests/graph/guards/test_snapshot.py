"""Modules, parameters and functions that change between the calls of a compiled function."""

from __future__ import annotations

import copy
import warnings
from decimal import Decimal

import pytest
from pairs import Pair, batch, compile, equal, forward_pair

import numod
from numod import nn
from numod.graph import compile as compiled_natively
from numod.nn import functional as F


def test_dropout_draws_what_eager_draws_and_eval_does_not() -> None:
    pair = Pair(nn.Dropout(0.5))
    pair.run(1, 2, 3)
    pair.both(lambda model, _: model.eval())
    pair.run(4, 5)
    pair.both(lambda model, _: model.train())
    pair.both(lambda model, _: setattr(model[2], "p", 0.1))
    pair.run(6, 7)


def test_parameters_replaced_converted_or_swapped() -> None:
    pair = Pair(optimizer=lambda p: numod.optim.SGD(p, lr=0.1))
    pair.run(1, 2)
    pair.both(lambda model, _: setattr(model[0].weight, "data", numod.ones(3, 4)))
    pair.run(3, 4)
    pair.both(lambda model, _: setattr(model[0].weight, "requires_grad", False))
    pair.run(5, 6)
    pair.both(lambda model, _: setattr(model[0], "bias", nn.Parameter(numod.ones(3))))
    pair.run(7, 8)
    eager, compiled = forward_pair()
    x = batch(1)[0]
    compiled(x), compiled(x)
    assert equal(compiled.to(numod.float64)(x.double()), eager.to(numod.float64)(x.double()))
    assert equal(compiled.to(numod.float32)(x), eager.to(numod.float32)(x))


def test_attributes_given_to_arguments_inside_are_not_missed() -> None:
    def mark(x: numod.Tensor) -> numod.Tensor:
        x.seen = True
        return x * 2

    compiled, tensors = compiled_natively(mark), [numod.ones(2) for _ in range(3)]
    with warnings.catch_warnings(action="ignore"):
        assert all(compiled(value).sum() == 4 and value.seen for value in tensors)


def test_functions_that_others_are_put_in_the_place_of() -> None:
    class Plain:
        def use(self, x: numod.Tensor) -> numod.Tensor:
            return x + 1

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act, self.inner = F.relu, nn.Tanh()

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return self.act(self.inner(x)) + act(x) + plain.use(x)

    plain, module, act = Plain(), Inner(), numod.neg
    compiled, x = numod.compile(module, options={"linked": False}), numod.tensor([-1.0, 2.0])
    for k in range(6):
        if k == 1:
            module.act = F.silu
        if k == 2:
            module.act = lambda x: x * 2
        if k == 3:
            module.inner.forward = lambda x: x * 3
        if k == 4:
            act = numod.abs
        if k == 5:
            plain.use = lambda x: x * 5
        assert numod.allclose(compiled(x), module(x)), k


def test_methods_written_in_c_are_bound_anew_at_each_use() -> None:
    class Number(Decimal):
        is_bad = Decimal.is_nan

    number = Number(2)

    @compile
    def weighed(x: numod.Tensor) -> numod.Tensor:
        return x * (3 if number.is_bad() else 2)

    assert [weighed(numod.ones(1)).item() for _ in range(3)] == [2, 2, 2] and weighed.recorded == 1
    Number.is_bad = lambda self: True
    assert weighed(numod.ones(1)).item() == 3


class _ActNorm(nn.Module):
    """Takes its scale from the first batch, as Glow's layers do."""

    def __init__(self, flag: numod.Tensor) -> None:
        super().__init__()
        self.register_buffer("initialized", flag)
        self.scale = nn.Parameter(numod.ones(4))

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        if self.initialized.dtype is numod.int64:
            known = self.initialized.item() != 0
        else:
            known = self.initialized if self.initialized.dtype is numod.bool else self.initialized > 0.5
        if not known:
            with numod.no_grad():
                self.scale.copy_(1 / x.std(0))
                self.initialized.fill_(1)
        return x * self.scale


@pytest.mark.parametrize("flag", [False, 0.0, 0])
def test_a_flag_in_a_buffer_is_a_guard(flag: float) -> None:
    eager = _ActNorm(numod.tensor(flag))
    other = copy.deepcopy(eager)
    compiled = compile(other.forward)
    for k in range(7):
        if k in (3, 5):
            eager.initialized.fill_(0), other.initialized.fill_(0)
        assert equal(eager(batch(k)[0]), compiled(batch(k)[0]))
    assert compiled.recorded == 2


def test_written_passed_and_counted_values_are_not_flags() -> None:
    count, weight = numod.zeros(()), numod.ones(2)

    def written(x: numod.Tensor) -> numod.Tensor:
        count.add_(1)
        return x if count > 3 else -x

    def hooked_given(x: numod.Tensor) -> numod.Tensor:
        return x if (x * weight).sum() > 3 else -x

    def counted(x: numod.Tensor) -> numod.Tensor:
        return x * int(count + 2)

    def read(x: numod.Tensor) -> numod.Tensor:
        count.add_(1)
        return x if count.item() > 3 else -x

    def at_a_place(x: numod.Tensor) -> numod.Tensor:  # a guard would read there before anything has checked the place
        return x if weight[index] == 1 else -x

    index = numod.tensor(1)
    for function in (written, hooked_given, counted, read, at_a_place):
        with pytest.raises(RuntimeError, match="reads a tensor's value in Python"):
            compile(function)(numod.ones(2))


def test_the_default_device() -> None:
    compiled = compile(lambda n: numod.zeros(2) + numod.arange(n))
    for _ in range(3):
        assert compiled(2).device.type == "cpu"
    with numod.device("meta"):
        assert compiled(2).device.type == "meta"
    numod.set_default_device("meta")
    try:
        assert compiled(2).device.type == "meta"
    finally:
        numod.set_default_device(None)
    assert compiled(2).device.type == "cpu"


def test_checkpoints_begin_between_calls(capsys: pytest.CaptureFixture) -> None:
    """Inside, the function itself runs, whose nodes a checkpoint drops."""

    def function(x: numod.Tensor) -> numod.Tensor:
        print("ran")
        return (weight * x).exp()

    weight, x = nn.Parameter(numod.ones(2)), numod.ones(2)
    compiled = compile(function)
    for _ in range(3):
        compiled(x)
    assert capsys.readouterr().out == "ran\n"
    numod.utils.checkpoint.checkpoint(compiled, x, use_reentrant=False).sum().backward()
    assert capsys.readouterr().out == "ran\n" * 2 and weight.grad[0] > 2
    compiled(x)
    assert capsys.readouterr().out == ""


def test_a_place_that_becomes_a_property() -> None:
    def train(wrap: object) -> list[float]:
        numod.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        forward, results = wrap(model), []

        def some(optimizer: numod.optim.Optimizer) -> None:
            for _ in range(3):
                y = forward(numod.ones(5, 4))
                optimizer.zero_grad()
                (y**2).mean().backward()
                optimizer.step()
                results.append(y.sum().item())

        optimizer = numod.optim.SGD(model.parameters(), lr=0.05)
        some(optimizer)
        nn.utils.prune.l1_unstructured(model[0], "weight", 0.5)
        some(optimizer)
        nn.utils.prune.remove(model[0], "weight")
        some(optimizer)
        nn.utils.parametrizations.weight_norm(model[0])
        some(numod.optim.SGD(model.parameters(), lr=0.1))
        return results

    assert train(lambda model: model) == pytest.approx(
        train(lambda model: numod.compile(model, options={"linked": False})), rel=1e-5
    )
