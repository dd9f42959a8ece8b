"""Random scenes: functions that read and write Python state in several ways, and changes of that state between calls:
for tests that compare eager and compiled calls.

A `Part` is one piece of state with functions that read or write it and changes that happen outside; a `Scene` puts some
together in one function. Both are made of a seed, as often as they are needed. Classes whose own code matters are in
`classes`.
"""

from __future__ import annotations

import abc
import collections
import contextvars
import dataclasses
import enum
import functools
import itertools
import operator
import random
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from classes import shown

import numod
from numod import nn

CALLS = 7


@dataclasses.dataclass
class Part:
    """`uses`: functions of x that give a number or a tensor.

    `changes`: functions of a number, called between calls. `seen`: what is compared after a call.
    """

    uses: list[Callable]
    changes: list[Callable] = dataclasses.field(default_factory=list)
    seen: Callable = lambda: None


PARTS: dict[str, Callable[[], Part]] = {}


def part(make: Callable[[], Part]) -> Callable[[], Part]:
    """Enter a part in the table."""
    PARTS[make.__name__] = make
    return make


# ---- buffers, views and references
# -------------------------------------------------------------------------------------


@part
def array_subclass() -> Part:
    kind = type("Array", (np.ndarray,), {"rate": 2.0})
    array = np.array([2.0, 3.0]).view(kind)
    array.scale = 1.5
    return Part(
        [
            lambda x: x * array.scale,
            lambda x: x * float(array[0]),
            lambda x: x * array.rate,
            lambda x: x + float(array.sum()),
            lambda x: x * array.shape[0],
        ],
        [
            lambda n: setattr(array, "scale", n),
            lambda n: array.__setitem__(0, n),
            lambda n: setattr(kind, "rate", n),
            lambda n: array.fill(n),
        ],
    )


@part
def memory_view() -> Part:
    content = bytearray(b"\x02\x03\x04")
    view = memoryview(content)[1:]
    return Part([lambda x: x * view[0], lambda x: x * len(view), lambda x: x * sum(view),
        lambda x: x + view.tolist()[1]],
                [lambda n: content.__setitem__(1, int(n)), lambda n: content.__setitem__(2, int(n) + 1)])  # fmt: skip


@part
def dictionary_views() -> Part:
    content = {"a": 2.0, "b": 3.0}
    values, keys, items, proxy = content.values(), content.keys(), content.items(), types.MappingProxyType(content)
    return Part(
        [
            lambda x: x * sum(values),
            lambda x: x * len(keys),
            lambda x: x + sum(v for _, v in items),
            lambda x: x * proxy["a"],
            lambda x: x * ("c" in keys),
        ],
        [
            lambda n: content.update(a=n),
            lambda n: content.update(c=n),
            lambda n: content.pop("c", None),
            lambda n: content.update(b=content.pop("b")),
        ],
    )


@part
def weak_references() -> Part:
    class Kind:
        """One that can be referred to."""

    instances = [Kind()]
    instances[0].scale = 2.0
    state = {"ref": weakref.ref(instances[0])}
    names: Any = weakref.WeakValueDictionary(a=instances[0])

    def replace(n: float) -> None:
        instances[0] = Kind()
        instances[0].scale = n
        state["ref"] = weakref.ref(instances[0])
        names["a"] = instances[0]

    return Part(
        [
            lambda x: x * (state["ref"]().scale if state["ref"]() is not None else 9.0),
            lambda x: x * len(names),
            lambda x: x * (names["a"].scale if "a" in names else 5.0),
        ],
        [
            lambda n: setattr(instances[0], "scale", n) if instances else None,
            lambda n: instances.clear(),
            lambda n: replace(n) if instances else instances.append(Kind()) or replace(n),
        ],
    )


# ---- classes of Python's library
# ---------------------------------------------------------------------------------------


@part
def named_tuple_with_attributes() -> Part:
    kind = type("Named", (collections.namedtuple("Base", "a b"),), {})
    state = {"it": kind(2.0, numod.tensor([1.0, 2.0]))}
    state["it"].extra = 3.0

    def replaced(n: float) -> None:
        extra = state["it"].extra
        state["it"] = state["it"]._replace(a=n)
        state["it"].extra = extra

    return Part([lambda x: x * state["it"].a, lambda x: x + state["it"].b, lambda x: x * state["it"].extra,
        lambda x: state["it"]._replace(a=x)],
                [replaced, lambda n: setattr(state["it"], "extra", n)], lambda: shown(state["it"]))  # fmt: skip


@part
def dataclasses_of_all_sorts() -> Part:
    @dataclasses.dataclass
    class Output(collections.OrderedDict):
        loss: Any = None
        rate: float = 2.0

    @dataclasses.dataclass(slots=True)
    class Slotted:
        rate: float = 2.0
        items: list = dataclasses.field(default_factory=lambda: [1.0])

    @dataclasses.dataclass(frozen=True)
    class Frozen:
        rate: float = 2.0

    output, slotted, state = Output(), Slotted(), {"frozen": Frozen()}

    def put(x: numod.Tensor) -> numod.Tensor:
        output["loss"] = x * 2
        output.loss = x * 3
        return output["loss"]

    return Part(
        [lambda x: x * output.rate, lambda x: x * slotted.rate, lambda x: x * slotted.items[0],
        lambda x: x * state["frozen"].rate, put, lambda x: x * len(output),
         lambda x: x * dataclasses.replace(state["frozen"], rate=4.0).rate,
         lambda x: x * sum(getattr(slotted, f.name) for f in dataclasses.fields(slotted)[:1])],
        [lambda n: setattr(output, "rate", n), lambda n: setattr(slotted, "rate", n),
        lambda n: slotted.items.__setitem__(0, n), lambda n: state.update(frozen=Frozen(n)),
         lambda n: output.update(more=n)],
        lambda: shown(dict(output)),
    )  # fmt: skip


@part
def enumerations() -> Part:
    class Mode(enum.Enum):
        LOW, HIGH = 2.0, 3.0

    class Flags(enum.IntFlag):
        A, B = 1, 2

    state: dict[str, Any] = {"mode": Mode.LOW, "flags": Flags.A}
    Mode.LOW.extra = 1.5  # members can be given attributes
    return Part([lambda x: x * state["mode"].value, lambda x: x * (2 if state["mode"] is Mode.LOW else 3),
        lambda x: x * Mode.LOW.extra, lambda x: x * (Flags.B in state["flags"]),
                 lambda x: x * int(state["flags"])],
                [lambda n: state.update(mode=Mode.HIGH if n % 2 else Mode.LOW), lambda n: setattr(Mode.LOW, "extra", n),
                 lambda n: state.update(flags=Flags.A | Flags.B if n % 2 else Flags.A)])  # fmt: skip


@part
def partial_functions() -> Part:
    def scaled(x: numod.Tensor, by: float, *, plus: float = 0.0) -> numod.Tensor:
        return x * by + plus

    state: dict[str, Any] = {"call": functools.partial(scaled, by=2.0)}

    class Kind:
        rate = 2.0
        half = functools.partialmethod(lambda self, x, n: x * n * self.rate, n=0.5)

    instance = Kind()
    return Part([lambda x: state["call"](x), lambda x: state["call"](x, plus=1.0), lambda x: instance.half(x)],
                [lambda n: state.update(call=functools.partial(scaled, by=n)),
                lambda n: state["call"].keywords.update(by=n), lambda n: setattr(scaled, "__kwdefaults__", {"plus": n}),
                 lambda n: setattr(instance, "rate", n)])  # fmt: skip


@part
def cached_values() -> Part:
    class Kind:
        rate, count = 2.0, 0

        @functools.cached_property
        def value(self) -> float:
            Kind.count += 1
            return self.rate * 2

    @functools.lru_cache
    def twice(n: float) -> float:
        Kind.count += 1
        return n * 2

    instance = Kind()
    return Part([lambda x: x * instance.value, lambda x: x * twice(instance.rate)],
                [lambda n: setattr(instance, "rate", n), lambda n: instance.__dict__.pop("value", None),
                lambda n: instance.__dict__.update(value=n), lambda n: twice.cache_clear()],
                lambda: Kind.count)  # fmt: skip


@part
def context_variables() -> Part:
    rate = contextvars.ContextVar("rate", default=2.0)

    def inside(x: numod.Tensor) -> numod.Tensor:
        token = rate.set(5.0)
        try:
            return x * rate.get()
        finally:
            rate.reset(token)

    return Part([lambda x: x * rate.get(), inside], [rate.set])


# ---- iterators that live from call to call
# -----------------------------------------------------------------------------


@part
def generators() -> Part:
    def counted() -> Iterator[float]:
        for k in itertools.count(1):
            yield float(k)

    state: dict[str, Any] = {"it": counted()}
    return Part(
        [lambda x: x * next(state["it"])],
        [lambda n: next(state["it"]), lambda n: state.update(it=counted())],
        lambda: None,
    )


@part
def iterators() -> Part:
    state: dict[str, Any] = {
        "list": iter([1.0, 2.0, 3.0] * 9),
        "count": itertools.count(1),
        "cycle": itertools.cycle([2.0, 3.0]),
        "zip": zip([1.0] * 30, range(30)),
    }
    return Part([lambda x: x * next(state["list"]), lambda x: x * next(state["count"]),
        lambda x: x * next(state["cycle"]), lambda x: x * next(state["zip"])[1]],
                [lambda n: next(state["count"]), lambda n: next(state["cycle"]),
                lambda n: state.update(list=iter([n] * 20))])  # fmt: skip


# ---- names
# -------------------------------------------------------------------------------------------------------------


@part
def cells() -> Part:
    rate, count = 2.0, 0

    def use(x: numod.Tensor) -> numod.Tensor:
        return x * rate

    def step(x: numod.Tensor) -> numod.Tensor:
        nonlocal count
        count += 1
        return x + 1

    def change(n: float) -> None:
        nonlocal rate
        rate = n

    def drop(n: float) -> None:
        use.__closure__[0].cell_contents = n

    return Part([use, step], [change, drop], lambda: (rate, count))


@part
def names_of_a_module() -> Part:
    module = types.ModuleType("scene")
    exec("rate = 2.0\ndef use(x): return x * rate\ndef ask(x): return x * (rate2 if 'rate2' in globals() else 7.0)\ndef safe(x):\n  try: return x * other\n  except NameError: return x * 3.0",
         module.__dict__)  # fmt: skip
    module.__getattr__ = lambda name: 4.0 if name == "lazy" else (_ for _ in ()).throw(AttributeError(name))
    return Part(
        [module.use, module.ask, module.safe, lambda x: x * module.lazy, lambda x: x * getattr(module, "absent", 6.0)],
        [lambda n: setattr(module, "rate", n), lambda n: setattr(module, "rate2", n),
        lambda n: module.__dict__.pop("rate2", None), lambda n: setattr(module, "other", n),
         lambda n: module.__dict__.pop("other", None), lambda n: setattr(module, "lazy", n),
         lambda n: module.__dict__.pop("lazy", None), lambda n: setattr(module, "absent", n)],
    )  # fmt: skip


# ---- classes and methods
# -----------------------------------------------------------------------------------------------


class _Named:
    """A descriptor that knows its name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return getattr(instance, self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance, self.name, value)


@part
def attributes_of_bases() -> Part:
    class Slotted:
        __slots__ = ("__weakref__", "slotted")
        least = 0.5

    class Base(Slotted):
        rate, other = 2.0, 1.5
        described = _Named()

        def method(self, x: numod.Tensor) -> numod.Tensor:
            return x * self.rate

        @classmethod
        def of_class(cls, x: numod.Tensor) -> numod.Tensor:
            return x * cls.other

        def __call__(self, x: numod.Tensor) -> numod.Tensor:
            return x * 1.25

    class Derived(Base):
        def method(self, x: numod.Tensor) -> numod.Tensor:
            return super().method(x) + 1

    instance = Derived()
    instance.slotted, instance.described = 2.0, 3.0

    def renamed(x: numod.Tensor) -> numod.Tensor:
        instance.described = x * 2
        return instance.described

    return Part(
        [instance.method, lambda x: instance.method(x), lambda x: instance.of_class(x), lambda x: x * instance.rate, lambda x: instance(x),
        lambda x: x * instance.slotted, lambda x: x * instance.described, renamed, lambda x: x * instance.least],
        [lambda n: setattr(Base, "rate", n), lambda n: setattr(Base, "other", n), lambda n: setattr(instance, "rate", n),
        lambda n: vars(instance).pop("rate", None), lambda n: setattr(instance, "slotted", n),
         lambda n: setattr(Base, "method", lambda self, x: x * n),
         lambda n: setattr(Derived, "__call__", lambda self, x: x + n),
         lambda n: setattr(instance, "method", lambda x: x - n),
         lambda n: setattr(instance, "described", n), lambda n: setattr(Slotted, "least", n),
         lambda n: setattr(Derived, "rate", n)],
        lambda: shown(instance.described),
    )  # fmt: skip


@part
def abstract_classes() -> Part:
    class Shape(abc.ABC):  # noqa: B024
        """One that others are registered with."""

    class Kind:
        rate = 2.0

        def __eq__(self, other: object) -> bool:
            return self.rate == getattr(other, "rate", None)

        __hash__ = None

    instance, other = Kind(), Kind()
    match = operator.attrgetter("rate")
    return Part([lambda x: x * (2 if isinstance(instance, Shape) else 3), lambda x: x * (2 if instance == other else 3),
        lambda x: x * match(instance)],
                [lambda n: Shape.register(Kind), lambda n: setattr(other, "rate", n),
                lambda n: setattr(instance, "rate", n)])  # fmt: skip


# ---- modules and tensors
# -----------------------------------------------------------------------------------------------


def _double(module: nn.Module, inputs: tuple, result: numod.Tensor) -> numod.Tensor:
    return result * 2


@part
def modules() -> Part:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(2, 2), nn.BatchNorm1d(2)
            self.register_buffer("seen", numod.zeros(2))
            self.scale = 2.0
            for parameter in self.linear.parameters():
                parameter.data = numod.ones_like(parameter) * 0.5

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return (
                self.norm(self.linear(x.reshape(1, 2).expand(3, 2) * numod.tensor([[1.0], [2.0], [0.5]])))[0]
                * self.scale
                + self.seen
            )

        def remember(self, x: numod.Tensor) -> numod.Tensor:
            self.seen = self.seen + x.detach()
            return self.linear(x)

    net = Net()

    def toggled(n: float) -> None:
        net.linear.weight.requires_grad_(not net.linear.weight.requires_grad)

    def in_the_middle(x: numod.Tensor) -> numod.Tensor:
        was = net.training
        net.eval()
        y = net(x)
        net.train(was)
        return y + net(x)

    def trained(x: numod.Tensor) -> numod.Tensor:
        y = net.linear(x).sum()
        grads = numod.autograd.grad(y, [p for p in net.linear.parameters() if p.requires_grad])
        return sum(grad.sum() for grad in grads) + x

    def whether(x: numod.Tensor) -> numod.Tensor:
        return x * (2.0 if net(x).requires_grad else 3.0)

    return Part(
        [lambda x: net(x), net.remember, in_the_middle, trained, whether,
        lambda x: net.linear(x) * len(net._forward_hooks), lambda x: x * sum(1 for _ in net.named_buffers())],
        [lambda n: net.train(), lambda n: net.eval(), lambda n: net.norm.eval(), toggled,
        lambda n: net.linear.register_forward_hook(_double),
         lambda n: net.register_forward_pre_hook(lambda module, inputs: (inputs[0] + n,)),
         lambda n: setattr(net, "seen", numod.full((2,), n)), lambda n: net.seen.fill_(n),
         lambda n: setattr(net.norm.weight, "data", numod.full((2,), n)),
         lambda n: setattr(net.linear, "bias", None if net.linear.bias is not None else nn.Parameter(numod.ones(2))),
         lambda n: setattr(net, "scale", n), lambda n: setattr(net, "forward", lambda x: x * n),
         lambda n: vars(net).pop("forward", None), lambda n: setattr(net, "linear", nn.Identity()) if n > 7 else None,
         lambda n: net.register_buffer("more", numod.ones(1)), lambda n: setattr(net.norm, "momentum", 1.0 / n),
         lambda n: net.linear._forward_hooks.clear()],
        lambda: (shown(net.seen), shown(net.norm.running_mean), net.training),
    )  # fmt: skip


@part
def tensors() -> Part:
    state = {"w": numod.tensor([1.0, 2.0], requires_grad=True), "b": numod.tensor([1.0, 1.0])}
    state["w"].rate = 2.0

    def learnt(x: numod.Tensor) -> numod.Tensor:
        y = state["w"] * x
        return numod.autograd.grad(y.sum(), state["w"])[0] if y.requires_grad else x * 9

    def added(x: numod.Tensor) -> numod.Tensor:
        state["b"].add_(x.detach())
        return state["b"] * 1

    return Part(
        [learnt, added, lambda x: x * state["b"], lambda x: x * state["w"].detach(), lambda x: x * state["w"].rate,
        lambda x: x * (2.0 if state["w"].grad is None else 3.0),
         lambda x: x * (2.0 if state["w"].requires_grad else 3.0), lambda x: x * state["b"].shape[0]],
        [lambda n: state["w"].requires_grad_(not state["w"].requires_grad), lambda n: state["b"].fill_(n),
        lambda n: state.update(b=numod.full((2,), n)), lambda n: setattr(state["w"], "rate", n),
         lambda n: setattr(state["w"], "data", numod.full((2,), n)),
         lambda n: setattr(state["w"], "grad", numod.ones(2)), lambda n: setattr(state["w"], "grad", None),
         lambda n: state["b"].data.mul_(2),
         lambda n: state.update(w=numod.full((2,), n, requires_grad=True)) or setattr(state["w"], "rate", n)],
        lambda: (shown(state["b"]), shown(state["w"])),
    )  # fmt: skip


class Scene:
    """A function of x, and changes before some of the calls."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(f"scene {seed}")
        self.names = self.pick.sample(sorted(PARTS), self.pick.choice((1, 1, 2, 3)))
        numod.manual_seed(seed)
        self.parts = [PARTS[name]() for name in self.names]
        self.places = [
            (k, use)
            for k, part in enumerate(self.parts)
            for use in self.pick.sample(range(len(part.uses)), min(len(part.uses), self.pick.choice((1, 1, 2))))
        ]
        changes = [(k, change) for k, part in enumerate(self.parts) for change in range(len(part.changes))]
        self.plan = {
            call: self.pick.choices(changes, k=self.pick.choice((1, 1, 2)))
            for call in range(1, CALLS)
            if self.pick.random() < 0.6
        }
        self.method = self.pick.choice(("function", "method", "module"))

    def function(self) -> Callable:
        """What is compiled."""
        uses = [self.parts[k].uses[use] for k, use in self.places]

        def function(x: numod.Tensor) -> list:
            return [use(x) for use in uses]

        if self.method == "method":
            return type("Holder", (), {"run": lambda self, x: function(x)})().run
        if self.method == "module":
            return type("Module", (nn.Module,), {"forward": lambda self, x: function(x)})()
        return function

    def change(self, call: int) -> None:
        """What happens before a call."""
        for k, change in self.plan.get(call, ()):
            self.parts[k].changes[change](float(call + 2))


def run(scene: Scene, wrap: Callable) -> list:
    """What can be seen after each call."""
    function, seen = wrap(scene.function()), []
    for call in range(CALLS):
        scene.change(call)
        try:
            shown_result = shown(function(numod.tensor([1.0, 2.0]) + call))
        except (
            AttributeError,
            TypeError,
            KeyError,
            IndexError,
            ValueError,
            NameError,
            StopIteration,
            RuntimeError,
        ) as error:
            shown_result = type(error).__name__
        seen.append((shown_result, [part.seen() for part in scene.parts]))
    return seen
