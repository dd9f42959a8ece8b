"""Random programs: eager and compiled results agree over several calls, as one native function or as separate kernels."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

import numpy as np
import pytest
from selection import every
import programs
from programs import MODES, check, for_all_sizes, in_turn

import numod
from numod.graph import compile
from numod.graph.backend import section
from numod.graph import trace
from numod.graph import verify
from numod.graph.values.source_location import CannotRepeat
from numod.graph.passes.pipeline import optimise


@pytest.mark.filterwarnings("ignore:compile")  # a check that changes with every input ends eagerly
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", [0, pytest.param(10, marks=pytest.mark.fuzz)])
def test_kernels_in_turn(mode: str, first: int) -> None:
    for seed in range(first, first + 10):
        check(seed, mode, in_turn)


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("mode", MODES)
def test_one_native_function(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "LINKED_WORK", 1 << 40)
    for seed in range(100, 102):
        check(seed, mode, compile)


class Replayed:
    """A function that runs eagerly at first, is recorded at the second call, and replayed op by op from then on, as far
    as its checks hold.
    """

    def __init__(self, function: Callable) -> None:
        self.function, self.calls, self.program = function, 0, None

    def __call__(self, *inputs: numod.Tensor) -> tuple:
        self.calls += 1
        if self.calls == 1:
            return self.function(*inputs)
        if self.calls > 2:
            try:
                return self.program(*inputs)
            except RuntimeError as error:
                raise _refused(error) from error
        results = []

        def recorded(*inputs: numod.Tensor) -> tuple:
            results.extend(self.function(*inputs))
            return tuple(results)

        try:
            self.program = verify(trace(recorded, *inputs))
        except RuntimeError as error:
            raise _refused(error) from error
        return tuple(results)


def _refused(error: RuntimeError) -> RuntimeError:
    """The error by which `difference` knows a program that cannot be recorded, or replayed with these values; others
    stay errors.
    """
    return (
        RuntimeError(f"compile: {error}") if isinstance(error, CannotRepeat) or "a check found" in str(error) else error
    )


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("first, last", [(0, 15), pytest.param(15, 40, marks=pytest.mark.fuzz)])
def test_replayed_op_by_op(mode: str, first: int, last: int) -> None:
    for seed in range(first, last):
        check(30_000 + seed, mode, Replayed)


@pytest.mark.parametrize("seed", every(3, range(200, 230), others=pytest.mark.fuzz))
def test_interpreted_and_verified(seed: int) -> None:
    program = programs.generate(seed, "forward")
    world, again = programs.World(program), programs.World(program)
    with numod.no_grad():
        recorded = verify(trace(world.function, *world.inputs(0)))
        recorded = verify(optimise(recorded)[0]) if seed % 2 else recorded
        for turn in (0, 1):
            x, y = world.inputs(turn), again.inputs(turn)
            numod.manual_seed(turn)
            try:
                result = recorded(*x)
            except RuntimeError as error:
                assert "a check found" in str(error)
                continue
            numod.manual_seed(turn)
            for a, b in zip((*result, *x), (*again.function(*y), *y), strict=True):
                assert np.array_equal(programs.values(a), programs.values(b), equal_nan=a.dtype.is_floating_point)


WRAPPED = {"in turn": in_turn, "native": compile, "sizes": for_all_sizes}


def search(kind: str, mode: str, seeds: range) -> None:
    """Check many programs in two processes: compiled code is never freed, and a process that is done gives its memory
    back.
    """
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_search, args=(kind, mode, seeds[start::2], queue)) for start in (0, 1)]
    for worker in workers:
        worker.start()
    outcomes = [queue.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    if any(outcomes):
        pytest.fail("\n\n".join(filter(None, outcomes)))


def _search(kind: str, mode: str, seeds: range, queue: object) -> None:
    section.LINKED_WORK = 1 << 40 if kind == "native" else section.LINKED_WORK
    outcome = None
    try:
        for seed in seeds:
            check(seed, mode, WRAPPED[kind])
    except BaseException as failure:  # whatever it is, the parent shall say it
        outcome = f"{type(failure).__name__}: {failure}"
    queue.put(outcome)


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore:compile", "ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first, last", [(20, 50), *[(first, first + 100) for first in range(1000, 1700, 100)]])
def test_many_kernels_in_turn(mode: str, first: int, last: int) -> None:
    search("in turn", mode, range(first, last))


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore:compile", "ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", MODES)
def test_many_native_functions(mode: str) -> None:
    search("native", mode, range(2000, 2040))


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore:compile", "ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", MODES)
def test_many_sizes(mode: str) -> None:
    search("sizes", mode, range(3000, 3060))


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore:compile", "ignore::DeprecationWarning")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["in turn", "sizes"])
def test_many_ops_with_kernels_of_their_own(kind: str, mode: str) -> None:
    search(kind, mode, range(programs.STRUCTURED_FROM, programs.STRUCTURED_FROM + 60))
