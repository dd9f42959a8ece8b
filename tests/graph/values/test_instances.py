"""Plain objects with tensors that a function stores in attributes: every call creates a new one, as in eager."""

from __future__ import annotations

import dataclasses
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import numod
from numod import nn
from numod.distributions import Categorical, Normal
from numod.graph.values.instances import is_instance


@dataclasses.dataclass(frozen=True)
class Output:
    loss: numod.Tensor
    logits: numod.Tensor | None = None
    name: str = "loss"


class Pair(NamedTuple):
    loss: numod.Tensor
    logits: numod.Tensor


class Plain:
    def __init__(self, x: numod.Tensor) -> None:
        self.x, self.inner, self.parts, self.scale = x, Output(x.sum(), x * 2), [x + 1, {"y": (x, None)}], 0.5


class Slotted:
    __slots__ = ("text", "x")

    def __init__(self, x: numod.Tensor) -> None:
        self.x, self.text = x * 3, "a"


MAKE = {
    "dataclass": lambda h: Output(h.square().mean(), h), "named tuple": lambda h: Pair(h.sum(), h),
    "namespace": lambda h: types.SimpleNamespace(x=h * 2),
    "plain": Plain, "slots": Slotted,
    "normal": lambda h: Normal(h, h.exp()), "categorical": lambda h: Categorical(logits=h),
    "a list of objects": lambda h: [Plain(h), Output(h)],
    "a pair of objects": lambda h: (Output(h), Slotted(h)),
}  # fmt: skip


class Keeping(nn.Module):
    def __init__(self, make: Callable) -> None:
        super().__init__()
        self.layer, self.make, self.last = nn.Linear(3, 4), make, None

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        h = self.layer(x)
        self.last = self.make(h)
        return h.tanh()


def tensors(value: Any) -> list[numod.Tensor]:
    if isinstance(value, numod.Tensor):
        return [value]
    attributes = [getattr(value, key) for key in getattr(value, "__slots__", ()) or getattr(value, "__dict__", ())]
    children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else attributes
    return [tensor for child in children if not isinstance(child, (str, numod.Size)) for tensor in tensors(child)]


def pair_of(make: Callable, kind: type = Keeping) -> tuple[nn.Module, nn.Module, nn.Module]:
    numod.manual_seed(0)
    eager, other = kind(make), kind(make)
    other.load_state_dict(eager.state_dict())
    return eager, other, numod.compile(other, fullgraph=True)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("gradients", [False, True])
def test_a_new_object_lies_there_after_every_call(make: Callable, gradients: bool) -> None:
    eager, other, compiled = pair_of(make)
    former, before = [], compiled.compiled.recorded
    for k in range(6):
        x = numod.arange(6.0).reshape(2, 3) * 0.1 * k
        with numod.set_grad_enabled(gradients):
            expected, actual = eager(x), compiled(x)
        eager_tensors, compiled_tensors = tensors(eager.last), tensors(other.last)
        assert (
            type(other.last) is type(eager.last)
            and all(other.last is not previous for previous in former)
            and len(eager_tensors) == len(compiled_tensors) > 0
        )
        numod.testing.assert_close([actual, *compiled_tensors], [expected, *eager_tensors])
        former.append(other.last)
        if gradients:
            for net, result, parts in ((eager, expected, eager_tensors), (other, actual, compiled_tensors)):
                net.zero_grad()
                (result.sum() + sum(part.sin().sum() for part in parts)).backward()
            numod.testing.assert_close(other.layer.weight.grad, eager.layer.weight.grad)
    assert before < compiled.compiled.recorded <= 3


def test_objects_kept_are_read_by_the_next_call() -> None:
    class Reading(Keeping):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            h = self.layer(x) if self.last is None else self.layer(x) + self.last.loss * self.last.inner.logits
            self.last = types.SimpleNamespace(loss=h.mean().detach(), inner=Output(h.sum(), h.detach()))
            return h * 2

    eager, other, compiled = pair_of(None, Reading)
    for k in range(8):
        x = numod.ones(2, 3) * 0.1 * k
        if k == 6:
            eager.last.loss, other.last.loss = numod.tensor(2.0), numod.tensor(2.0)
        numod.testing.assert_close(compiled(x), eager(x))
        numod.testing.assert_close(other.last.inner.logits, eager.last.inner.logits)


def test_an_object_that_is_also_returned_is_the_same() -> None:
    class Returning(Keeping):
        def forward(self, x: numod.Tensor) -> tuple:
            self.last = Output(self.layer(x).sum())
            return self.last, self.last.loss

    eager, other, compiled = pair_of(None, Returning)
    for k in range(6):
        last, loss = compiled(numod.ones(2, 3) * k)
        assert (k < 2 or last is other.last) and loss is other.last.loss
        numod.testing.assert_close(loss, eager(numod.ones(2, 3) * k)[1])


def test_methods_of_stored_distributions() -> None:
    class Policy(Keeping):
        def forward(self, x: numod.Tensor) -> tuple:
            self.last = Normal(self.layer(x), numod.ones(4))
            action = self.last.rsample()
            return action, self.last.log_prob(action)

    eager, other, compiled = pair_of(None, Policy)
    for k in range(6):
        numod.manual_seed(k)
        expected = eager(numod.ones(2, 3) * k)
        numod.manual_seed(k)
        numod.testing.assert_close(compiled(numod.ones(2, 3) * k), expected)
        numod.testing.assert_close(other.last.entropy(), eager.last.entropy())


def in_two_places(net: nn.Module, h: numod.Tensor) -> None:
    net.last = net.other = Output(h)


def the_former_moves(net: nn.Module, h: numod.Tensor) -> None:
    net.other, net.last = net.last, types.SimpleNamespace(x=h)


def with_a_list_from_outside(net: nn.Module, h: numod.Tensor) -> None:
    net.last = types.SimpleNamespace(x=h, held=net.held)


def the_former_is_written_to(net: nn.Module, h: numod.Tensor) -> None:
    former = net.last
    net.last = types.SimpleNamespace(x=h)
    if former is not None:
        former.x = h * 5


def a_reference(net: nn.Module, h: numod.Tensor) -> None:
    net.last = Plain(h)
    net.seen[0] = weakref.ref(net.last)


def a_number_of_a_tensor(net: nn.Module, h: numod.Tensor) -> None:
    net.last = types.SimpleNamespace(x=h, loss=h.sum().item())


@pytest.mark.parametrize(
    "keep",
    [
        in_two_places,
        the_former_moves,
        with_a_list_from_outside,
        the_former_is_written_to,
        a_reference,
        a_number_of_a_tensor,
    ],
)
def test_visible_side_effects_run_eagerly(keep: Callable) -> None:
    class Net(Keeping):
        def __init__(self, make: Callable) -> None:
            super().__init__(make)
            self.other, self.held, self.seen = None, [numod.ones(2)], [None]

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            h = self.layer(x)
            keep(self, h)
            return h + 1

    eager, other, _ = pair_of(None, Net)
    compiled = numod.compile(other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(8):
            x, formers = numod.ones(2, 3) * k, (eager.last, other.last)
            numod.testing.assert_close(compiled(x), eager(x))
            numod.testing.assert_close(tensors(vars(other.last)), tensors(vars(eager.last)))
            assert (other.other is other.last) == (eager.other is eager.last) and (other.other is formers[1]) == (
                eager.other is formers[0]
            )
            assert (getattr(other.last, "held", None) is other.held) == (
                getattr(eager.last, "held", None) is eager.held
            )
            assert other.seen[0] is None or other.seen[0]() is other.last
            if formers[1] is not None:
                numod.testing.assert_close(tensors(vars(formers[1])), tensors(vars(formers[0])))
            assert type(getattr(other.last, "loss", None)) is type(getattr(eager.last, "loss", None))


def test_modules_of_python_are_not_looked_into() -> None:
    """A module in an attribute (`self.np = numpy`) leads to everything that is imported, including Cython classes."""
    library = types.ModuleType("library")
    library.kind = type("Meta", (type,), {"__module__": property(lambda kind: "library")})("Kind", (), {})
    net = nn.Linear(3, 2)
    net.holder = types.SimpleNamespace(library=library, meta=type(library.kind))
    compiled = numod.compile(net)
    x = numod.ones(2, 3)
    for _ in range(3):
        numod.testing.assert_close(compiled(x), net(x))
    assert not is_instance(net.holder)
