"""Python state that a compiled function changes: replaced tensors are stored, any other change raises at its line."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable

import numpy as np
import pytest
from pairs import compile, equal

import numod
from numod import nn


LAST = None


class Slotted:
    __slots__ = ("count", "held")

    def __init__(self) -> None:
        self.count, self.held = 0, numod.zeros(2)


class Classwide:
    count = 0
    memory = None


def a_dict() -> tuple:
    memory = {"a": numod.zeros(2), 1: None}

    def function(x: numod.Tensor) -> numod.Tensor:
        memory["a"], memory[1] = memory["a"] * 0.5 + x, x * 3
        return x + 1

    return function, lambda: [*memory.values()]


def a_list_and_a_deque() -> tuple:
    memory, last = [numod.zeros(2), numod.zeros(2)], deque([numod.zeros(2)] * 3, maxlen=3)

    def function(x: numod.Tensor) -> numod.Tensor:
        memory[0], memory[1] = memory[1], memory[0] + x
        last.append(x * 2)
        return x + last[0]

    return function, lambda: [*memory, *last]


def a_closure() -> tuple:
    memory, last = numod.zeros(2), None

    def function(x: numod.Tensor) -> numod.Tensor:
        nonlocal memory, last
        memory, last = numod.tanh(memory + x), x * 2
        return memory

    return function, lambda: [memory, last]


def a_global() -> tuple:
    def function(x: numod.Tensor) -> numod.Tensor:
        global LAST
        LAST = x * 3
        return x * 2

    return function, lambda: [LAST]


def an_object() -> tuple:
    class Agent:
        def __init__(self) -> None:
            self.hidden, self.slotted = numod.zeros(2), Slotted()

        def act(self, x: numod.Tensor) -> numod.Tensor:
            self.hidden = numod.tanh(self.hidden + x)
            self.slotted.held = self.hidden * 2
            return self.hidden + 1

    agent = Agent()
    return agent.act, lambda: [agent.hidden, agent.slotted.held]


def tuples_and_lists_made_anew() -> tuple:
    class Agent:
        def __init__(self) -> None:
            self.state, self.layers = None, [numod.zeros(2)]

        def act(self, x: numod.Tensor) -> numod.Tensor:
            first, second = self.state or (numod.zeros(2), numod.ones(2))
            self.state, self.layers = (second + x, first), [layer + x for layer in self.layers]
            return first * 2

    agent = Agent()
    return agent.act, lambda: [*agent.state, *agent.layers]


@pytest.mark.parametrize(
    "make", [a_dict, tuples_and_lists_made_anew, a_list_and_a_deque, a_closure, a_global, an_object]
)
def test_tensors_put_in_the_place_of_others_are_kept(make: Callable) -> None:
    eager, seen = make()
    expected = [(eager(numod.ones(2) * k), seen()) for k in range(6)]
    function, seen = make()
    compiled = compile(function)
    results = [(compiled(numod.ones(2) * k), seen()) for k in range(6)]
    assert equal(expected, results) and compiled.recorded <= 2


def test_a_dictionary_that_is_cleared_before_every_call() -> None:
    seen: dict[str, numod.Tensor] = {}

    def function(x: numod.Tensor) -> numod.Tensor:
        seen["first" if "first" not in seen else "second"] = x * 2
        return x + len(seen)

    compiled = compile(function)
    for k in range(12):
        if k % 3 == 0:
            seen.clear()
        assert (
            compiled(numod.ones(2)).tolist() == [2.0 + min(k % 3, 1)] * 2
            and list(seen) == ["first", "second"][: k % 3 + 1]
        )
    assert compiled.recorded <= 7


def test_entries_with_new_names_at_every_call_are_refused() -> None:
    seen: dict[int, numod.Tensor] = {}

    def function(x: numod.Tensor) -> numod.Tensor:
        seen[len(seen)] = x * 2
        return x

    compiled = compile(function)
    with pytest.raises(RuntimeError, match=r"len\(seen\) was"):
        for k in range(40):
            compiled(numod.ones(2))
            assert list(seen) == list(range(k + 1))


def test_a_compiled_method_serves_several_objects() -> None:
    class Agent:
        def __init__(self, scale: float) -> None:
            self.scale, self.total = scale, numod.zeros(2)

        @compile
        def act(self, x: numod.Tensor) -> numod.Tensor:
            self.total = self.total + x * self.scale
            return self.total * 2

    agents = [Agent(1.0), Agent(3.0)]
    for k in range(6):
        for agent in agents:
            assert agent.act(numod.ones(2)).tolist() == [2 * (k + 1) * agent.scale] * 2


def test_modes_that_are_left_changed_are_refused() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        numod.set_grad_enabled(False)
        return x * 2

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="the grad mode"):
        for _ in range(3):
            with numod.enable_grad():
                compiled(numod.ones(2))


def counting_in(container: object, change: Callable) -> Callable:
    def function(x: numod.Tensor) -> numod.Tensor:
        change(container)
        return x * 2

    return function


def item(container: object) -> None:
    container[0] += 1


def classwide(_: object) -> None:
    Classwide.count += 1


def classwide_tensor(_: object) -> None:
    Classwide.memory = numod.zeros(2)


def on_the_function(_: object) -> None:
    on_the_function.calls = getattr(on_the_function, "calls", 0) + 1


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (list, lambda container: container.append(1)),
        (dict, lambda container: container.update({len(container): 1})),
        (set, lambda container: container.add(len(container))),
        (deque, lambda container: container.append(1)),
        (lambda: np.zeros(2), item),
        (lambda: array("i", [0]), item),
        (lambda: bytearray(2), item),
        (object, classwide),
        (object, classwide_tensor),
        (object, on_the_function),
    ],
)
def test_unsupported_state_is_refused(make: Callable, change: Callable) -> None:
    compiled = compile(counting_in(make(), change))
    with pytest.raises(RuntimeError, match="cannot repeat"):
        for _ in range(20):
            compiled(numod.ones(2))


def test_a_refusal_tells_the_line() -> None:
    count = {"calls": "a"}

    def function(x: numod.Tensor) -> numod.Tensor:
        y = x * 2
        count["calls"] += "a"
        return y

    line = function.__code__.co_firstlineno + 2
    compiled = compile(function)
    with pytest.raises(
        RuntimeError,
        match=rf"count\['calls'\] was 'aa', is 'aaa' in function, test_python_state.py:{line}, whenever it runs",
    ):
        for _ in range(3):
            compiled(numod.ones(2))


def test_defaults_of_names_are_looked_at() -> None:
    settings = {"scale": 1.0}

    def function(x: numod.Tensor, *, settings_: dict = settings) -> numod.Tensor:
        return x * settings_["scale"]

    compiled = compile(function)
    for k in range(5):
        settings["scale"] = k % 2
        assert compiled(numod.ones(2)).tolist() == [k % 2] * 2


def test_a_deque_that_turns_outside() -> None:
    history = deque([1.0, 2.0])
    compiled = compile(lambda x: x * history[0])
    for k in range(5):
        assert compiled(numod.ones(1)).tolist() == [1.0 + k % 2]
        history.rotate(1)


def test_a_cache_that_is_filled_size_by_size() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cache: dict[int, numod.Tensor] = {}

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            if len(x) not in self.cache:
                self.cache[len(x)] = numod.arange(len(x)).float()
            return x + self.cache[len(x)]

    compiled = compile(Positions())
    for n in (2, 3, 4, 3, 2, 2, 5, 5):
        assert compiled(numod.ones(n)).tolist() == [1.0 + k for k in range(n)]


def test_a_setting_of_an_argument_is_refused() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        x.requires_grad_()
        x.square().sum().backward()
        return x.grad

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="requires_grad is set"):
        for _ in range(3):
            compiled(numod.ones(2))


def test_a_lazy_module_is_initialised_by_the_first_call() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    compiled, x = compile(model), numod.ones(2, 4)
    assert all(equal(compiled(x), model(x)) for _ in range(3)) and model[0].weight.shape == (3, 4)


def test_containers_that_a_function_reaches_are_returned_themselves() -> None:
    settings_ = {"scale": numod.ones(2), "names": ["a"]}
    compiled, x = compile(lambda x: (x * settings_["scale"], settings_, [settings_["names"]])), numod.ones(2)
    for k in range(4):
        result, whole, [names] = compiled(x)
        assert whole is settings_ and names is settings_["names"] and equal(result, x * settings_["scale"])
        if k == 2:
            whole["scale"] = numod.full((2,), 3.0)


def test_a_container_whose_items_change_at_every_call_is_returned_itself() -> None:
    class Counting(nn.Module):
        """Keeps a tensor and a number in one dict."""

        def __init__(self) -> None:
            super().__init__()
            self.totals = {"sum": numod.zeros(2), "calls": 0}

        def forward(self, x: numod.Tensor) -> dict:
            self.totals["sum"] = self.totals["sum"] + x
            self.totals["calls"] += 1
            return self.totals

    model = compile(Counting())
    for k in range(1, 7):
        output = model(numod.ones(2))
        assert output is model.totals and output["calls"] == k and equal(output["sum"], numod.full((2,), float(k)))
