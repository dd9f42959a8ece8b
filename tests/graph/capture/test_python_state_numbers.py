"""Python counters in a compiled function: they are updated, and no computed value may depend on them."""

from __future__ import annotations

import copy
import gc
import math
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import sqrt as root
from typing import NamedTuple

import numpy as np
import pytest
from pairs import compile, equal
from selection import every

import numod
from numod import nn


COUNT = 0


class Slotted:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


def slot(slotted: Slotted) -> None:
    slotted.count += 1


def globally() -> None:
    global COUNT
    COUNT += 1


class Counting(nn.Module):
    """Numbers in all places that are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.mean, self.average, self.slotted, self.counts = 0, 0.0, None, Slotted(), Counter()

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        y = x.sum()
        self.calls += 1
        self.mean = self.mean + (y.item() - self.mean) / self.calls
        self.average = 0.9 * self.average + 0.1 * y.item() if self.average is not None else y.item()
        self.last = self.slotted.count - 2 * self.calls
        self.counts["seen"] += len(x)
        slot(self.slotted)
        globally()
        return x * 2

    def seen(self) -> list:
        return [
            self.calls,
            self.mean,
            self.average,
            self.last,
            self.slotted.count,
            dict(self.counts),
            COUNT,
            type(self.calls),
            type(self.mean),
        ]


@pytest.mark.parametrize("linked", [True, False])
def test_numbers_that_are_counted_on_are_kept(linked: bool) -> None:
    def run(wrap: Callable) -> list:
        global COUNT
        COUNT, module, results = 0, Counting(), []
        compiled = wrap(module.forward)
        for k in range(7):
            if k == 5:
                module.calls, module.mean = 40, 2.5
            results.append([compiled(numod.arange(3.0) * k), *module.seen()])
        return results, compiled

    expected, _ = run(lambda function: function)
    run_results, compiled = run(lambda function: numod.compile(function, options={"linked": linked}))
    assert equal(expected, run_results) and compiled.recorded <= 2


def test_numbers_in_a_dictionary_that_is_returned() -> None:
    seen, totals = {}, []

    def function(x: numod.Tensor) -> dict:
        seen["total"] = x.sum().item()
        seen["calls"] = seen.get("calls", 0) + 1
        return seen

    compiled = compile(function)
    for k in range(7):
        totals.append(dict(compiled(numod.ones(2) * k)))
        assert seen == totals[-1] == {"total": 2 * k, "calls": k + 1}
    assert compiled.recorded <= 2


def test_counts_after_a_call_that_raises_are_those_of_eager() -> None:
    count = {"calls": 0}

    def function(x: numod.Tensor, fails: bool) -> numod.Tensor:
        count["calls"] += 1
        if fails:
            raise ValueError("half-way")
        count["calls"] += 1
        return x * 2

    compiled = compile(function)
    for k, fails in enumerate([False] * 4 + [True, False]):
        try:
            compiled(numod.ones(2), fails)
        except ValueError:
            assert fails
        assert count["calls"] == 2 * (k + 1) - (k >= 4)


@pytest.mark.filterwarnings("ignore:compile")
def test_a_list_that_only_the_function_can_find_gets_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that the program has frozen."""
    log = []
    monkeypatch.setitem(sys.modules, "numod_test_log", types.SimpleNamespace(log=log))

    def step(x: numod.Tensor) -> numod.Tensor:
        sys.modules["numod_test_log"].log.append(x.sum().item())
        return x * 2

    gc.freeze()
    compiled = numod.compile(step)
    for _ in range(3):
        compiled(numod.ones(3))
    assert [*map(type, log)] == [float] * 3 and log == [3.0] * 3


def test_lists_that_numbers_are_appended_to_are_refused() -> None:
    seen = []
    compiled = compile(lambda x: seen.append(x.sum().item()))
    with pytest.raises(RuntimeError, match=r"len\(seen\) was 1, is 2"):
        for k in range(3):
            compiled(numod.ones(2) * k)
    assert seen == [0, 2]


@pytest.mark.parametrize(
    "use",
    [
        lambda count, x: [x, -x][count % 2],
        lambda count, x: x + numod.tensor([count]),
        lambda count, x: x[:count],
        lambda count, x: numod.full((2,), float(count)),
    ],
)
def test_a_count_that_matters_is_refused_at_its_line(use: Callable) -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        count["calls"] += 1
        return use(count["calls"], x)

    count, compiled = {"calls": 0}, compile(function)
    with pytest.raises(
        RuntimeError,
        match=r"compile: calls changes whenever the function runs, and test_python_state_numbers.py:\d+ depends on its value",
    ):
        for _ in range(4):
            compiled(numod.ones(2))
    assert count == {"calls": 3}


INTEGERS: dict[str, Callable] = {
    "product": lambda n, x: x * n + n * x,
    "rate": lambda n, x: x * (0.1 * 0.9**n),
    "corrected": lambda n, x: x / (1 - 0.9 ** (n + 1)),
    "turn": lambda n, x: x * (n % 3 + n // 2),
    "inverse": lambda n, x: x * (2 / (n + 1)) + x * 2.0**-n,
    "whole": lambda n, x: (x.long() * n + (7 - n)) / (n + 1),
    "compared": lambda n, x: (x > n) * x,
    "squared": lambda n, x: x * (n * n),
    "taken off": lambda n, x: x.clone().sub_(n),
}


@pytest.mark.parametrize("name", every(2, INTEGERS, others=pytest.mark.fuzz))
def test_integers_in_arithmetic_are_those_of_each_call(name: str) -> None:
    state, use = {"step": 0}, INTEGERS[name]

    def remembering(x: numod.Tensor) -> numod.Tensor:
        state["step"] += 1
        return use(state["step"], x)

    argument = compile(lambda x, n: use(n, x))
    by_key = compile(lambda x: use(state["step"], x))
    count = compile(remembering)
    read = compile(lambda x, n: use(n.item(), x))
    for k in [*range(7), 1 << 20, (1 << 40) * (name != "squared")]:
        x = numod.arange(3.0) + k % 5
        state["step"] = k
        expected = use(k, x)
        if k < 1 << 20 or "**" not in name:
            assert (
                equal(argument(x, k), expected)
                and equal(by_key(x), expected)
                and equal(read(x, numod.tensor(k, dtype=numod.int32 if name == "squared" else None)), expected)
            )
        assert equal(count(x), use(k + 1, x)) and state == {"step": k + 1}
    assert max(value.recorded for value in (argument, by_key, count, read)) <= 3


class Pair(NamedTuple):
    scale: float
    shift: float


@dataclass
class Settings:
    scale: float
    shift: float


STRUCTURES: dict[str, tuple[Callable, Callable]] = {
    "tuple": (lambda x, c: x * c[0] + c[1], lambda a, b: (a, b)),
    "list": (lambda x, c: x * c[0] + c[1], lambda a, b: [a, b]),
    "dictionary": (lambda x, c: x * c["a"] + c["b"], lambda a, b: {"a": a, "b": b}),
    "named tuple": (lambda x, c: x * c.scale + c.shift, Pair),
    "dataclass": (lambda x, c: x * c.scale + c.shift, Settings),
    "nested": (lambda x, c: x * c["a"][0].scale + c["b"][0], lambda a, b: {"a": (Settings(a, 0.0),), "b": [b]}),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_numbers_in_structures_are_those_of_each_call(name: str) -> None:
    use, make = STRUCTURES[name]
    compiled, x = compile(lambda x, c: (use(x, c), c)), numod.randn(3)
    for k in range(8):
        argument = make(k + 0.5, 3 * k)
        result, returned = compiled(x, argument)
        assert equal(result, use(x, make(k + 0.5, 3 * k))) and returned == argument == make(k + 0.5, 3 * k)
    assert compiled.recorded == 1


def test_structures_with_numbers_are_as_the_function_leaves_them() -> None:
    """Also where it raises, writes to them once there is a program, or what it writes elsewhere are numbers among those
    that change.
    """

    state = types.SimpleNamespace(last=0.0)

    def function(x: numod.Tensor, c: dict) -> numod.Tensor:
        if c["n"] > 6:
            c["n"] = 100.0
        if c["fails"]:
            raise ValueError("half-way")
        return x * c["n"]

    def store(x: numod.Tensor, n: float) -> numod.Tensor:
        state.last = n
        return x * n

    compiled, storing, x = numod.compile(function), numod.compile(store, recompile_limit=100), numod.randn(3)
    for k in range(12):
        compiled_state, reference_state = ({"n": k + 0.5, "fails": k == 5} for _ in range(2))
        results = [None, None]
        for number, (called, argument) in enumerate([(compiled, compiled_state), (function, reference_state)]):
            with suppress(ValueError):
                results[number] = called(x, argument)
        assert equal(*results) and compiled_state == reference_state and type(compiled_state["n"]) is float
        store(x, k + 0.5)
        assert equal(storing(x, k + 0.5), x * (k + 0.5)) and object.__repr__(state.last)[:6] == "<float"


def test_integers_that_steer_beside_numbers_that_do_not() -> None:
    compiled, x = compile(lambda x, rate, turn, n: sum([x * k for k in range(turn)], x * rate) * n), numod.randn(3)
    for k in range(12):
        assert equal(compiled(x, k / 4, k % 4, k), sum([x * value for value in range(k % 4)], x * (k / 4)) * k)
    numbers = compiled.changing_numbers
    assert numbers.specialised_on == {(2,)} and all(len(values) <= 3 for values in numbers.values.values())
    assert compiled.recorded == 4 and compiled(x, 0.5, True, 1 << 62).shape == x.shape


@pytest.mark.filterwarnings("ignore:compile")
def test_bits_of_integers_are_looked_at() -> None:
    compiled = compile(lambda x, n: (x * (n & 6 | 1 << n % 4) + (~n ^ 3), 6 & n, 255 >> n), fullgraph=False)
    for n in range(6):
        assert equal(compiled(numod.ones(2), n), (numod.ones(2) * (n & 6 | 1 << n % 4) + (~n ^ 3), 6 & n, 255 >> n))


CONDITIONS: dict[str, Callable] = {
    "from": lambda n, x: x * 2 if n > 6 else -x,
    "every": lambda n, x: x * n if n % 3 == 0 else -x,
    "warm up": lambda n, x: x * min(1.0, (n + 1) / 5),
    "truth": lambda n, x: x * n if n % 2 else x,
    "between": lambda n, x: x * n if 2 < n <= 7 else x + n,
    "among": lambda n, x: -x if n in (3, 5) else x,
    "decay": lambda n, x: x * max(0.1, 0.8**n),
    "tensor": lambda n, x: x * (n > x),
    "below infinity": lambda n, x: x * n if n / 2 < math.inf else x,
}


MATHEMATICS: dict[str, Callable] = {
    "schedule": lambda n, x: x * (0.5 * (1 + math.cos(math.pi * n / 50))),
    "bias": lambda n, x: x / math.sqrt(1 - 0.9 ** (n + 1)),
    "rounded": lambda n, x: x * math.floor(n / 3),
    "imported": lambda n, x: x + root(n),
    "power": lambda n, x: x * math.pow(2, n),
    "returned": lambda n, x: (x, math.log1p(n)),
    "base": lambda n, x: x * math.log(n + 1, 2) + math.log(7, n + 2),
}


@pytest.mark.parametrize("name", MATHEMATICS)
def test_functions_of_the_math_module_take_numbers_that_change(name: str) -> None:
    use = MATHEMATICS[name]
    compiled, x = compile(lambda n, x: use(n, x), fullgraph=False), numod.arange(3.0).double()
    assert all(equal(compiled(n, x), use(n, x)) for n in range(12)) and compiled.recorded <= 3
    assert math.cos(0) == 1.0 and isinstance(math.cos, types.BuiltinFunctionType)


def clipped(clip: Callable, bound: float, x: numod.Tensor) -> numod.Tensor:
    weight = numod.ones(3, requires_grad=True)
    (weight * x).sum().backward()
    clip([weight], bound)
    return weight.grad


def test_numbers_that_change_are_bounds_of_gradients_and_scales_of_attention() -> None:
    uses = [
        lambda n, x, clip=clip: clipped(clip, n, x) for clip in (nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_)
    ]
    uses += [
        lambda n, x: nn.functional.scaled_dot_product_attention(
            x.view(1, 3, 1), x.view(1, 3, 1), x.view(1, 3, 1), scale=n
        )
    ]
    for use in uses:
        compiled, x = compile(use, fullgraph=False), numod.arange(3.0)
        assert all(equal(compiled(n / 4, x), use(n / 4, x)) for n in range(1, 10)) and compiled.recorded <= 3


def test_functions_of_the_math_module_raise_what_they_raise() -> None:
    compiled = compile(lambda n, x: x * math.sqrt(n) + math.exp(n), fullgraph=False)
    for n in (0.5, 1.0, 2.0, 3.0, 4.0):
        compiled(n, numod.ones(2))
    for n, kind in ((-1.0, ValueError), (1e4, OverflowError)):
        with pytest.raises(kind):
            compiled(n, numod.ones(2))


PLACES: dict[str, Callable] = {
    "read": lambda n, x: x[n] * x[:2, n % 2],
    "written": lambda n, x: (x.clone().mul_(x[n - 1].sum()), x[n].add_(1) * 1),
    "made": lambda n, x: x + numod.full((2,), n) + numod.tensor(n / 4),
    "put": lambda n, x: x.__setitem__((n, 0), n),
    "added": lambda n, x: x[n].__iadd__(n).sum(),
    "returned": lambda n, x: x[n].add_(0),
    "out of range": lambda n, x: x[n + 4].sum(),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.filterwarnings("ignore:compile")
def test_numbers_that_are_places_and_values(name: str) -> None:
    def run(function: Callable, *arguments: object) -> list:
        x = numod.arange(12.0).reshape(6, 2)
        try:
            result = function(x, *arguments)
            if name.startswith("returned"):
                result.mul_(2)
        except IndexError as error:
            result = type(error)
        return [result, x, x.dtype]

    use = PLACES[name]
    compiled = compile(lambda x, n: use(n, x), fullgraph=False)
    for k in (1, 2, 3, 4, 0, -1, 2):
        assert equal(run(compiled, k), run(lambda x, n: use(n, x), k))
    assert compiled.recorded <= 3 or name.startswith("returned")


@pytest.mark.parametrize("name", every(2, CONDITIONS, others=pytest.mark.fuzz))
def test_operands_of_comparisons_are_guarded(name: str) -> None:
    state, use = {"step": 0}, CONDITIONS[name]

    def branching(x: numod.Tensor) -> numod.Tensor:
        state["step"] += 1
        return use(state["step"], x)

    argument, count = compile(lambda x, n: use(n, x)), compile(branching)
    for k in range(14):
        x = numod.arange(3.0) + k % 5
        state["step"] = k
        half = k / 2 if name not in ("every", "truth") else k  # remainders of floats are looked at
        assert (
            equal(argument(x, k), use(k, x))
            and equal(argument(x, half), use(half, x))
            and equal(count(x), use(k + 1, x))
            and state == {"step": k + 1}
        )
    assert argument.recorded <= 6 and count.recorded <= 3


@pytest.mark.parametrize("kind", [numod.optim.SGD, numod.optim.AdamW])
def test_steps_and_copies_every_so_many_calls(kind: type) -> None:
    def make(wrap: Callable) -> tuple[nn.Module, nn.Module, Callable]:
        model, calls = nn.Linear(3, 2), {"count": 0}
        numod.nn.init.constant_(model.weight, 0.5)
        numod.nn.init.constant_(model.bias, 0.1)
        target, optimizer = copy.deepcopy(model), kind(model.parameters(), lr=0.1)

        def step(x: numod.Tensor) -> float:
            calls["count"] += 1
            loss = (model(x) - target(x) - 1).square().mean() / 2
            loss.backward()
            if calls["count"] % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
            if calls["count"] % 6 == 0:
                target.load_state_dict(model.state_dict())
            return loss.item()

        return model, target, wrap(step)

    (eager, first, plain), (model, second, compiled) = make(lambda step: step), make(compile)
    for k in range(26):
        x = numod.arange(6.0).reshape(2, 3) / (k + 3)
        assert math.isclose(plain(x), compiled(x), rel_tol=1e-5)
        assert equal(dict(eager.state_dict()), dict(model.state_dict())) and equal(
            dict(first.state_dict()), dict(second.state_dict())
        )
    assert compiled.recorded <= 5


@pytest.mark.parametrize(
    "use", [lambda n, m, x: x * (n / m), lambda n, m, x: x * (n % m), lambda n, m, x: x * (n // m)]
)
def test_a_divisor_that_becomes_zero_raises(use: Callable) -> None:
    compiled, x = compile(lambda x, n, m: use(n, m, x)), numod.ones(2)
    for m in (3, 2, -1, 0, 5, -7):
        if m:
            assert equal(compiled(x, 9 - m, m), use(9 - m, m, x))
        else:
            with pytest.raises(ZeroDivisionError):
                compiled(x, 9 - m, m)


def test_nan_is_one_value() -> None:
    compiled = compile(lambda x, scale: x * scale)
    for _ in range(4):
        assert np.isnan(compiled(numod.ones(1), float("nan")).numpy()).all()
        assert compiled(numod.ones(1), np.float32(2)).item() == 2
    assert compiled.recorded == 2


def test_integers_that_are_sizes_compile_for_all_of_them() -> None:
    """Where each makes the same steps on other sizes: not those that choose what is computed, which are recorded up to
    the limit.
    """
    x, tensors = numod.randn(40, requires_grad=True), [numod.randn(40) for _ in range(12)]
    sized = compile(lambda x, n, c: numod.cat([x[:n] * 2, numod.zeros(c["n"])]).exp())
    choosing = compile(lambda x, n: x * tensors[n])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the limit
        for n in [*range(1, 13)] * 3:
            expected, actual = numod.cat([x[:n] * 2, numod.zeros(n)]).exp(), sized(x, n, {"n": n})
            assert numod.allclose(actual, expected, rtol=1e-6)
            assert equal(*(numod.autograd.grad(tensor.sum(), x)[0].shape for tensor in (expected, actual)))
            assert equal(choosing(x, n - 1), x * tensors[n - 1])
    assert sized.recorded == 12 and choosing.recorded == 8
    texts = [
        version.executable.section.kernel.key
        for versions in sized.versions.values()
        for version in versions
        if version.executable.section.linked
    ]
    assert len(set(texts)) <= 4


def test_numbers_for_functions_in_c() -> None:
    functions = [
        lambda x, n: x * pow(n, 2, 7), lambda x, n: x * math.ldexp(1.0, n), lambda x, n: x * math.gcd(n, 12), lambda x,
        n: x * math.factorial(n),
        lambda x, n: x * math.floor(n * 0.5) + math.ceil(n / 3),
    ]  # fmt: skip
    x = numod.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function in functions:
            compiled = numod.compile(function)
            for n in (1, 2, 3, 4, 5, 6, 7):
                assert equal(compiled(x, n), function(x, n))
        floors = numod.compile(lambda x, n: x * math.floor(n))
        for n in (0.5, 1.5, 2.5, 3.5, 1e17, 1e19):
            assert equal(floors(x, n), x * math.floor(n))


def test_a_number_that_becomes_a_container() -> None:
    x = numod.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for wrap in (lambda n: (n, n), lambda n: [n], lambda n: ((n,),), lambda n: {"a": n}):
            compiled = numod.compile(lambda x, n: x * (n if isinstance(n, int) else 2))
            for n in (1, 2, 3, wrap(1), wrap(2), wrap(3), wrap(4), 4, wrap(5), 5, 6, 7):
                assert equal(compiled(x, n), x * (n if isinstance(n, int) else 2))
