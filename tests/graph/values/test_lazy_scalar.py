"""Numbers that a compiled function reads from tensors and returns are computed by each run.

Using such a number in any other way during recording raises an error that names the line.
"""

from __future__ import annotations

import copy
import json
import math
import statistics
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from pairs import Pair, batch, compile, equal, gradients_of, net, step_of

import numod
from numod import nn
from numod.core.listeners import listeners
from numod.graph.capture.recorder import Recorder
from numod.graph.values.lazy_scalar import LazyScalar, ScalarExpression
from numod.graph import compile as compiled_natively
from numod.nn import functional as F


class Result(NamedTuple):
    loss: float
    correct: int


def make(model: nn.Module, optimizer: numod.optim.Optimizer) -> Callable:
    plain = step_of(model, optimizer)

    def step(x: numod.Tensor, y: numod.Tensor) -> tuple:
        loss = plain(x, y)
        correct = (model(x).argmax(-1) == y).sum()
        some = [
            loss.item() * len(x),
            round(1 - correct.item() / 7, 3),
            model[0].weight[0].tolist(),
            bool,
            (x > 9).any().item(),
        ]
        return (
            Result(loss.item(), correct.item()),
            some,
            {"half": x.bfloat16().sum().item(), "sum": sum([loss.item(), 2])},
        )

    return step


def test_values_that_are_returned() -> None:
    pair = Pair(make=make)
    pair.run(1, 2, 3)
    assert pair.compiled.recorded == 1
    result, *_ = pair.compiled(*batch(4))
    assert type(result) is Result and [*map(type, result)] == [float, int]
    assert "return ({'item': %" not in pair.compiled.explain() and "item" in pair.compiled.explain()


@pytest.mark.parametrize("linked", [True, False])
def test_values_are_of_the_moment_and_arrays_share_memory(linked: bool) -> None:
    tensor = numod.zeros(2)

    def function(x: numod.Tensor) -> tuple:
        total = x.sum()
        before = total.item(), tensor.tolist(), tensor.numpy(), total
        total.add_(1)
        tensor.add_(x)
        return *before, total.item()

    compiled = numod.compile(function, options={"linked": linked})
    for k in range(4):
        before, first, array, total, after = compiled(numod.full((2,), float(k)))
        assert (
            (before, after, total.item()) == (2 * k, 2 * k + 1, 2 * k + 1)
            and first == [sum(range(k))] * 2
            and array.tolist() == tensor.tolist()
        )
    tensor.zero_()
    assert array.tolist() == [0, 0]


def test_beside_results_that_require_gradients() -> None:
    models = net(), net()
    compiled = compile(lambda x, y: (F.cross_entropy(models[1](x), y), models[1](x).mean().item()))
    for k in range(3):
        x, y = batch(k)
        loss, mean = compiled(x, y)
        F.cross_entropy(models[0](x), y).backward()
        loss.backward()
        assert math.isclose(mean, models[0](x).mean().item(), rel_tol=1e-5) and equal(
            gradients_of(models[0]), gradients_of(models[1])
        )


def test_failed_check_of_a_scalar() -> None:
    compiled = compile(lambda x, mask: x[mask].sum().item())
    for mask in ([True, False], [True, True], [False, True], [False, False]):
        assert compiled(numod.tensor([1.0, 2.0]), numod.tensor(mask)) == sum(
            k + 1 for k, selected in enumerate(mask) if selected
        )


LOOKS = {
    "compared": lambda v, x: v > 1,
    "equal": lambda v, x: v == 1,
    "truth": lambda v, x: v or 1,
    "text": lambda v, x: f"{v:.2f}",
    "percent": lambda v, x: "%.1f" % v,  # noqa: UP031
    "math": lambda v, x: math.log(v),
    "isinstance": lambda v, x: isinstance(v, float),
    "complex": lambda v, x: complex(v),
    "max": lambda v, x: max(v, 1),
    "float": lambda v, x: float(v),
    "array": lambda v, x: np.array([v, 1.0]),
    "ufunc": lambda v, x: np.exp(v),
    "tensor": lambda v, x: numod.tensor(v),
    "tensors": lambda v, x: numod.tensor([1.0, v]),
    "half": lambda v, x: v - x.half(),
    "full": lambda v, x: numod.full((2,), v),
    "view": lambda v, x: x.view(v),
    "index": lambda v, x: x[v],
    "zeros": lambda v, x: numod.zeros([v]),
    "range": lambda v, x: [*range(v)],
    "key": lambda v, x: {v: 1},
    "set": lambda v, x: {v},
    "closure": lambda v, x: lambda: v,
    "generator": lambda v, x: (item for item in [v]),
    "joined": lambda v, x: v + "a",
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_value_that_is_looked_at_or_kept_is_refused_at_its_line(name: str) -> None:
    line = test_a_value_that_is_looked_at_or_kept_is_refused_at_its_line.__code__.co_firstlineno + 3
    compiled = compile(lambda x: LOOKS[name](x.sum().item(), x))
    with pytest.raises(RuntimeError, match=rf"item\(\) at test_lazy_scalar.py:{line} reads a tensor's value in Python"):
        compiled(numod.ones(2))


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_a_value_that_is_looked_at_makes_the_call_go_on_eagerly(name: str) -> None:
    def run(function, x):
        return result() if callable(result := function(x)) else list(result) if name == "generator" else result

    function = lambda x: LOOKS[name](x.sum().item(), x)  # noqa: E731
    compiled = compile(function, fullgraph=False)
    for k in range(3):
        try:
            expected = run(function, numod.ones(2) * (k + 1))
        except (TypeError, IndexError):
            with pytest.raises((TypeError, IndexError)):
                compiled(numod.ones(2) * (k + 1))
            continue
        with nullcontext() if k else pytest.warns(UserWarning, match="lambda runs eagerly from here"):
            actual = run(compiled, numod.ones(2) * (k + 1))
        assert np.array_equal(actual, expected) if name == "array" else equal(actual, expected)


KINDS: dict[str, Callable] = {
    "written": lambda v: json.dumps({"loss": v, "all": [v, 1]}),
    "type": lambda v: "float" if type(v) is float else "integer" if type(v) is int else "?",
    "types": lambda v: type(v) in (int, float),
    "keys": lambda v: ({v: v, "last": (v, 2)}, {(1, v): "a"}, {1, v}, Counter([v, v])),
    "exact": lambda v: Decimal(v),
    "mean": lambda v: statistics.mean([v, 2.0]),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("source", ["read", "argument", "count"])
@pytest.mark.filterwarnings("ignore:compile")
def test_a_value_whose_type_is_asked_for_is_a_number(name: str, source: str) -> None:
    use, counters = KINDS[name], {"steps": 0}

    def function(x: numod.Tensor, value: float | None) -> tuple:
        counters["steps"] += 1
        return x * 2, use({"read": x.sum().item(), "argument": value, "count": counters["steps"]}[source])

    compiled = compile(function, fullgraph=False)
    for k in range(6):
        _, actual = compiled(numod.arange(3.0) * k, k / 4)
        expected = use({"read": 3.0 * k, "argument": k / 4, "count": counters["steps"]}[source])
        assert actual == expected and repr(actual) == repr(expected) and counters == {"steps": k + 1}


SIZES: dict[str, Callable] = {
    "slice": lambda x, n: x[:n],
    "index": lambda x, n: x[n],
    "view": lambda x, n: x.view(n, -1),
    "split": lambda x, n: x.split(n),
    "narrow": lambda x, n: x.narrow(0, n - 2, n),
    "zeros": lambda x, n: numod.zeros(n, 2),
    "range": lambda x, n: [x * k for k in range(n)],
    "sum": lambda x, n: x.sum(n - 2),
    "pad": lambda x, n: F.pad(x, (n, 0)),
    "between": lambda x, n: x[n - 1 : n + 1],
    "fill": lambda x, n: x.masked_fill(x > 1, n),
    "both": lambda x, n: x * n if n - 1 < n <= 2.0 else x,
    "repeat": lambda x, n: x.repeat(n),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_value_that_is_a_size_is_one_of_the_call(name: str) -> None:
    function = lambda x, n: SIZES[name](x, n.item())  # noqa: E731
    compiled, x = compile(function, fullgraph=False), numod.arange(4.0, requires_grad=True)
    with pytest.warns(UserWarning, match=r"item\(\) at test_lazy_scalar.py:\d+ reads") as warnings:
        for _ in range(3):
            actual, expected = compiled(x, numod.tensor(2)), function(x, numod.tensor(2))
            assert equal(actual, expected) and repr(actual) == repr(expected)
    assert len(warnings) == 1


ARITHMETIC: dict[str, Callable] = {
    "mul": lambda v, x: x * v + v * x,
    "sub": lambda v, x: (x - v) - (2 - v),
    "div": lambda v, x: x / v + (v - 0.5) / (x + 9),
    "pow": lambda v, x: (x + 9) ** v + v**x,
    "double": lambda v, x: x.double() * v,
    "compared": lambda v, x: (x > v) * x,
    "in place": lambda v, x: (x * 2).mul_(v).add_(v),
    "negative": lambda v, x: x * (-v * 2) + abs(v - 3) * x,
    "divided": lambda v, x: x * (1 / v) + x * (v / (v - 9)),
    "without dimensions": lambda v, x: x[0] * v,
    "whole": lambda v, x: x.long() * v + x,
}


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("source", ["read", "argument"])
def test_floats_in_arithmetic_with_tensors_are_those_of_each_call(name: str, source: str) -> None:
    use = ARITHMETIC[name]
    function = {"read": lambda x, *, value: use((value * 1).item(), x), "argument": lambda x, *, value: use(value, x)}[
        source
    ]
    compiled, scale = compile(function), numod.arange(3.0).requires_grad_()
    for k in range(6):
        x, value = numod.arange(3.0) + k, 0.25 + k
        value = numod.full((1,), value) if source == "read" else value
        results = [variant(x * scale, value=value) for variant in (function, compiled)]
        slopes = [numod.autograd.grad(result.sum(), scale)[0] for result in results]
        assert equal(*results) and results[0].dtype is results[1].dtype and equal(*slopes)
    assert compiled.recorded == 1 and (source == "read" or compiled.variants[0].numbers is not None)


FUNCTIONS: dict[str, Callable] = {
    "methods": lambda n, x: x.mul(n).sub(n, alpha=n).add(x, alpha=n),
    "limits": lambda n, x: x.clamp(max=n) + x.clamp(-n, n) + F.hardtanh(x, -n, n),
    "chosen": lambda n, x: numod.where(x > n, n, x),
    "powers": lambda n, x: x.pow(n) + x * n**2 + x * 2**n,
    "filled": lambda n, x: numod.full_like(x, n) + x.clone().fill_(n) + x.masked_fill(x > n, n),
    "softened": lambda n, x: F.leaky_relu(x - 5, n * 0.1),
    "losses": lambda n, x: F.huber_loss(x, x * 2, delta=n) + F.smooth_l1_loss(x, x * 3, beta=n),
    "dropped": lambda n, x: F.dropout(x, 0.05 * n),
    "products": lambda n, x: numod.addmm(x, x, x, beta=n, alpha=n),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("start", [5, 5.5])
def test_numbers_given_to_functions_are_those_of_each_call(name: str, start: float) -> None:
    use, x = FUNCTIONS[name], numod.arange(9.0).reshape(3, 3)
    compiled = compile(lambda x, n: use(n, x))
    for k in range(6):
        numod.manual_seed(k)
        expected = use(start + k, x)
        numod.manual_seed(k)
        assert numod.allclose(compiled(x, start + k), expected)
    assert compiled.recorded <= 4


def test_a_divisor_that_becomes_zero_raises_as_in_eager() -> None:
    compiled = compile(lambda x, y: x * (x.sum().item() / y.item()))
    for value in (2.0, 4.0, 0.0, 5.0):
        if value:
            assert equal(compiled(numod.ones(2), numod.tensor(value)), numod.ones(2) * (2 / value))
        else:
            with pytest.raises(ZeroDivisionError):
                compiled(numod.ones(2), numod.tensor(value))


def test_floats_of_modules_and_globals_that_change_outside() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.scale, self.shift, self.calls = nn.Linear(3, 3), 1.0, {"by": 0.5}, 0

        def forward(self, x: numod.Tensor, more: float) -> numod.Tensor:
            self.calls += 1
            return self.layer(x) * more / self.scale + self.shift["by"] * (1 - self.scale)

    model = Model()
    other, x = copy.deepcopy(model), numod.randn(2, 3)
    compiled = numod.compile(model)
    for k in range(12):
        for module in (model, other):
            module.scale, module.shift["by"] = 1 + k / 8, 0.5 - k // 2
        assert equal(compiled(x, k / 4), other(x, k / 4)) and (model.scale, model.calls) == (1 + k / 8, k + 1)
    assert type(compiled).compiled.recorded <= 3


def test_a_float_argument_that_changed_may_be_left_out_while_others_change() -> None:
    settings = {"scale": 1.0}

    def function(x: numod.Tensor, more: float = 2.0) -> numod.Tensor:
        return x * settings["scale"] + more

    compiled, x = numod.compile(function), numod.randn(3)
    for more in (0.5, 1.5, 2.5, 3.5):
        assert equal(compiled(x, more), function(x, more))
    for scale in (1.5, 2.5, 3.5):
        settings["scale"] = scale
        assert (
            equal(compiled(x), function(x))
            and equal(compiled(x, 3), function(x, 3))
            and equal(compiled(x, scale), function(x, scale))
        )


def test_floats_of_objects_that_take_nothing_else_are_their_values() -> None:
    class Strict:
        def __setattr__(self, name: str, value: float) -> None:
            if type(value) is not float:
                raise TypeError(f"{name} is a {type(value)}")
            object.__setattr__(self, name, value)

    settings, strict, x = {"shift": 0.5}, Strict(), numod.randn(3)
    compiled = numod.compile(lambda x: x * strict.scale + settings["shift"])
    for value in (1.0, 2.0, 3.0, 4.0):
        strict.scale = settings["shift"] = value
        assert equal(compiled(x), x * value + value) and type(settings["shift"]) is type(strict.scale) is float


def test_floats_that_change_inside_and_outside_or_are_looked_at() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.bound = 1.0, 0.5

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            self.scale = self.scale * 2
            return x * self.scale if self.bound > 3 else -x * self.scale

    models, x = [Model(), Model()], numod.randn(2)
    compiled = numod.compile(models[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(10):
            for model in models:
                model.scale, model.bound = model.scale + k, k / 1.0
            assert equal(compiled(x), models[1](x)) and models[0].scale == models[1].scale


@pytest.mark.parametrize("name", sorted(LOOKS.keys() - {"array", "closure", "generator", "set"}))
@pytest.mark.filterwarnings("ignore:compile")
def test_a_float_argument_that_is_looked_at_is_its_value(name: str) -> None:
    def run(function: Callable, x: numod.Tensor, value: float) -> object:
        try:
            result = function(x, value)
            return result() if callable(result) else result
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            return type(error) if str(error).startswith("trace") else TypeError

    eager = lambda x, value: LOOKS[name](value, x)  # noqa: E731
    compiled = compile(eager)
    for k in range(6):
        expected, actual = (run(variant, numod.ones(2) * k, 0.25 + k / 2) for variant in (eager, compiled))
        assert equal(expected, actual)
    assert not numod.core.listeners.listeners


def test_a_float_argument_beside_counts_kept_tensors_and_checks() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.last = 0, numod.zeros(1)

        def forward(self, x: numod.Tensor, mask: numod.Tensor, scale: float) -> numod.Tensor:
            self.calls += 1
            self.last = x[mask].sum() * scale + self.last
            return self.last

    eager, model = Model(), Model()
    compiled = numod.compile(model)
    for k in range(9):
        arguments = numod.arange(3.0), numod.tensor([True, k % 4 == 3, True]), k / 7
        assert equal(eager(*arguments), compiled(*arguments)) and eager.calls == compiled.calls


def test_an_array_read_inside_may_become_a_tensor_again() -> None:
    compiled = numod.compile(lambda x: numod.from_numpy(x.numpy()) * 2)
    with pytest.warns(UserWarning, match="reads a tensor's value in Python"):
        result = compiled(numod.ones(2))
    assert numod.equal(result, numod.full((2,), 2.0))


def test_numpy_takes_lists_of_values() -> None:
    compiled = numod.compile(lambda x: (np.array(x.tolist()), np.asarray(x.sum().item())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(3):
            values, total = compiled(numod.ones(2) * k)
            assert values.tolist() == [k, k] and total == 2 * k


def test_divisions_by_what_may_be_zero() -> None:
    """If a run divides by zero, the function raises or handles the error before later writes."""
    weight, count = nn.Parameter(numod.ones(2)), numod.ones(2)
    optimizer = numod.optim.SGD([weight], lr=0.1)

    @compile
    def mean(total: numod.Tensor, n: numod.Tensor) -> float:
        try:
            return total.sum().item() / n.sum().item()
        except ZeroDivisionError:
            return 0.0

    @compile
    def step(x: numod.Tensor, n: numod.Tensor) -> float:
        optimizer.zero_grad()
        loss = (weight * x).sum()
        loss.backward()
        part = 1 % n.sum().item() + loss.item() // n.sum().item()
        optimizer.step()
        count.mul_(2)
        return part

    x = numod.ones(2)
    assert [mean(x, x * k) for k in (1, 2, 4, 0, 2, 0)] == [1.0, 0.5, 0.25, 0.0, 0.5, 0.0]
    for k in (1, 1, 1, 1):
        step(x, x * k)
    before = weight.detach().clone(), count.clone()
    with pytest.raises(ZeroDivisionError):
        step(x, x * 0)
    assert equal(before, (weight.detach().clone(), count.clone()))


def test_values_kept_by_ways_that_are_not_followed() -> None:
    rows: list[dict] = []

    class Log:
        def add(self, **row: float) -> None:
            rows.append(row)

    log = Log()
    compiled = numod.compile(lambda x: log.add(loss=x.sum().item()))
    with pytest.warns(UserWarning, match="reads a tensor's value in Python"):
        for k in range(4):
            compiled(numod.ones(2) * k)
    assert json.dumps([row["loss"] for row in rows]) == "[0.0, 2.0, 4.0, 6.0]"


class Own:
    """A number class with its own operators."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __add__(self, other: object) -> tuple:
        return type(other), self.value + other

    def __radd__(self, other: object) -> tuple:
        return type(other), other + self.value

    def __rmatmul__(self, other: object) -> tuple:
        return "matmul", self.value * other

    def __lt__(self, other: object) -> bool:
        return self.value < other

    def __gt__(self, other: object) -> bool:
        return self.value > other

    def __eq__(self, other: object) -> bool:
        return self.value == other


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool", "complex64", "object"])
@pytest.mark.parametrize("source_dtype", [numod.float32, numod.int64])
def test_numbers_are_written_into_arrays(dtype: str, source_dtype: numod.dtype) -> None:
    arrays = []
    for wrap in (lambda function: function, lambda function: compiled_natively(function, options={"linked": False})):
        array = np.zeros(3, dtype)

        def function(x: numod.Tensor, array: np.ndarray = array) -> numod.Tensor:
            array[0] = x.sum().item()
            array[1:] = x.max().item()
            return x

        function = wrap(function)
        for k in range(4):
            function(numod.tensor([k * 1.5, 1.0]).to(source_dtype))
            arrays.append(array.tolist())
    assert arrays[:4] == arrays[4:]


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("use", [
    lambda n: (n + Own(1.0))[1], lambda n: (Own(1.0) + n)[1], lambda n: n @ Own(2.0), lambda n: (n < Own(3.0), Own(3.0) < n, n == Own(2.0)),
    lambda n: repr(np.float32(2) * n), lambda n: repr(n + np.int64(3)), lambda n: repr(np.arange(3) * n), lambda n: repr(np.add(n, [1, 2])),
    lambda n: str(n + Fraction(1, 2)), lambda n: divmod(n, 2.0), lambda n: repr(np.power(np.float32(2), n)),
])  # fmt: skip
def test_numbers_are_given_to_operators_of_others(use: Callable) -> None:
    function = lambda x: use(x.sum().item())  # noqa: E731
    compiled = compiled_natively(function, options={"linked": False})
    for k in range(4):
        assert compiled(numod.ones(2) * k) == function(numod.ones(2) * k)


def test_a_number_of_another_threads_recording_discards_this_recording() -> None:
    class Recording:
        may_succeed_later = False

        def __call__(self, *call: object) -> None:
            """An op was called."""

    made: list = []
    expression = ScalarExpression("item", (numod.tensor(3.0),))
    thread = threading.Thread(target=lambda: made.append(LazyScalar(expression, lambda *flag: None, [])))
    thread.start()
    thread.join()
    listeners.append(recording := Recording())
    try:
        assert made[0] + 1 == 4.0
    finally:
        listeners.remove(recording)
    assert recording.may_succeed_later and isinstance(Recorder.may_succeed_later, property)
