"""Guards on classes: changed methods, bases and metaclasses, and objects whose class changes."""

from __future__ import annotations

import abc
import collections.abc
import functools

import pytest
from pairs import X, compile, equal

import numod
from numod import nn
from numod.graph import compile as compiled_natively


LATE: dict[str, float] = {"factor": 2.0}


class _Half:
    factor = 0.5


def test_a_module_that_is_made_one_of_another_class_is_noticed() -> None:
    layers = nn.Sequential(nn.ReLU())
    compiled = compile(lambda x: layers(x))
    for kind in (nn.ReLU, nn.Tanh, nn.ReLU):
        layers[0].__class__ = kind
        assert numod.allclose(compiled(X), layers(X))


def test_an_object_that_is_made_one_of_another_class_is_noticed() -> None:
    class Twice:
        """Scales."""

        def scaled(self, x: numod.Tensor) -> numod.Tensor:
            return x * 2

    class Thrice(Twice):
        """Scales otherwise."""

        def scaled(self, x: numod.Tensor) -> numod.Tensor:
            return x * 3

    scale = Twice()
    compiled = compile(lambda x: scale.scaled(x))
    for kind in (Twice, Thrice, Twice, Thrice):
        scale.__class__ = kind
        assert equal(compiled(X), scale.scaled(X))


class Given:
    def scaled(self, x: numod.Tensor) -> numod.Tensor:
        return x * 2


def test_a_class_that_comes_to_have_a_method_it_had_from_another() -> None:
    class Own(Given):
        pass

    class Rectified(nn.ReLU):
        pass

    rectified, layer = Own(), Rectified()
    for holder, name, compiled in (
        (Own, "scaled", compile(lambda x: rectified.scaled(x))),
        (Rectified, "forward", compile(lambda x: layer(x))),
    ):
        before = compiled(X)
        setattr(holder, name, lambda self, x: x * 9)
        assert equal(compiled(X), X * 9)
        delattr(holder, name)
        assert equal(compiled(X), before)


def test_methods_that_super_finds_and_what_they_reach() -> None:
    class Base(nn.Module):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return x * LATE["factor"]

    class Derived(Base):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return super().forward(x) + 1

    compiled = compile(Derived())
    for LATE["factor"] in (2.0, 3.0):
        assert equal(compiled(X), X * LATE["factor"] + 1)
    Base.forward = lambda self, x: x - 4
    assert equal(compiled(X), X - 3)


def test_bases_that_are_replaced() -> None:
    class Derived(_Half):
        pass

    thing = Derived()
    compiled = compile(lambda x: x * thing.factor)
    assert equal([compiled(X), compiled(X)], [X * 0.5, X * 0.5])
    Derived.__bases__ = (type("Other", (_Half,), {"factor": 5.0}),)
    assert equal(compiled(X), X * 5.0)


def test_calls_that_a_class_of_modules_comes_to_take() -> None:
    class Doubling(nn.Module):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return x * 2

    compiled = compile(nn.Sequential(Doubling()))
    assert equal([compiled(X), compiled(X)], [X * 2, X * 2])
    Doubling.__call__ = lambda self, x: x * 11
    assert equal(compiled(X), X * 11)


@pytest.mark.parametrize("match", [False, True])
@pytest.mark.parametrize("kind", [None, collections.abc.Sized])
def test_classes_that_are_registered_with_an_abstract_one(kind: type | None, match: bool) -> None:
    class Kind:
        """One that comes to be registered."""

    base, instance = kind or abc.ABCMeta("Base", (), {}), Kind()

    def matching(x: numod.Tensor) -> numod.Tensor:
        match instance:
            case base():
                return x * 2
        return x * 3

    def asking(x: numod.Tensor) -> numod.Tensor:
        return x * 2 if isinstance(instance, base) else x * 3

    compiled = compile(matching if match else asking)
    assert equal(compiled(X), X * 3) and equal(compiled(X), X * 3)
    base.register(Kind)
    assert equal(compiled(X), X * 2) and equal(compiled(X), X * 2)


def test_methods_and_attributes_of_a_metaclass() -> None:
    class Meta(type):
        rate, known = 2.0, False

        def __instancecheck__(cls, instance: object) -> bool:
            return cls.known

    class Kind(metaclass=Meta):
        """One of its classes."""

    use = lambda x: x * Kind.rate if isinstance(x, Kind) else x * -Kind.rate  # noqa: E731
    compiled = compile(use)
    for name, value in (
        ("known", False),
        ("known", True),
        ("rate", 5.0),
        ("__instancecheck__", lambda cls, instance: False),
    ):
        setattr(Meta, name, value)
        assert equal(compiled(X), use(X)) and equal(compiled(X), use(X))


class Doubled(nn.Module):
    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return x * 2


class Tripled(nn.Module):
    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return x * 3


@pytest.mark.parametrize("linked", [None, False])
@pytest.mark.parametrize("changed_class", ["itself", "inside", "given"])
def test_modules_that_are_given_another_class(changed_class: str, linked: bool | None) -> None:
    module = Doubled()
    use = {"itself": module, "inside": nn.Sequential(module), "given": lambda x: module(x)}[changed_class]
    compiled = compiled_natively(use, options={"linked": linked}, fullgraph=True)
    for kind in (Doubled, Doubled, Tripled, Tripled, Doubled):
        module.__class__ = kind
        assert equal(compiled(X), X * (2 if kind is Doubled else 3))
    object.__setattr__(module, "__class__", Tripled)
    assert equal(compiled(X), X * 3) and equal(compiled(X), X * 3)


@pytest.mark.parametrize("linked", [None, False])
@pytest.mark.parametrize("name", ["inner", "weight", "scaled"])
def test_attributes_that_hide_what_a_module_has(name: str, linked: bool | None) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.weight = Doubled(), nn.Parameter(numod.ones(1))

        def scaled(self, x: numod.Tensor) -> numod.Tensor:
            return x * 1

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return self.scaled(self.inner(x) * self.weight)

    module = Outer().requires_grad_(False)
    compiled = compiled_natively(module, options={"linked": linked}, fullgraph=True)
    hiding = {"inner": Tripled(), "weight": numod.full((1,), 1.5), "scaled": lambda x: x * 1.5}[name]
    for _ in range(2):
        assert equal(compiled(X), X * 2) and equal(compiled(X), X * 2)
        module.__dict__[name] = hiding
        assert equal(compiled(X), X * 3) and equal(compiled(X), X * 3)
        del module.__dict__[name]
    assert equal(compiled(X), X * 2)


def test_a_class_with_other_bases() -> None:
    class First:
        k = 2.0

    class Second:
        k = 3.0

    class Child(First):
        pass

    child = Child()
    child.factor = 1.0
    compiled = compile(lambda x: x * child.k * child.factor)
    assert equal(compiled(X), X * 2) and equal(compiled(X), X * 2)
    Child.__bases__ = (Second,)
    assert equal(compiled(X), X * 3) and equal(compiled(X), X * 3)
    child.factor = 4.0
    assert equal(compiled(X), X * 12)


def test_attributes_of_a_partial_function() -> None:
    class Partial(functools.partial):
        pass

    compiled = compile(lambda x, function: x * function.scale)
    for scale in (1.0, 1.0, 2.0, 3.0):
        function = Partial(abs)
        function.scale = scale
        assert equal(compiled(X, function), X * scale)


class Weight(nn.Parameter):
    scale = 2.0

    def applied(self, x: numod.Tensor) -> numod.Tensor:
        return x * self * self.scale


class LargeWeight(Weight):
    scale = 4.0


@pytest.mark.parametrize("is_argument", [False, True])
def test_attributes_of_a_subclass_of_parameter(monkeypatch: pytest.MonkeyPatch, is_argument: bool) -> None:
    held = [Weight(numod.ones(3)), LargeWeight(numod.ones(3))]
    functions = [(lambda x, p=p: p.applied(x) + p.scale) for p in held]
    compiled = compile(lambda p, x: p.applied(x) + p.scale) if is_argument else [*map(compile, functions)]

    def outcomes() -> list[numod.Tensor]:
        return [compiled(held[k], X) if is_argument else compiled[k](X) for k in (0, 1, 0, 1)]

    assert equal(outcomes(), [functions[k](X) for k in (0, 1, 0, 1)])
    for kind, name, value in [
        (Weight, "scale", 3.0), (LargeWeight, "scale", 5.0), (Weight, "applied", lambda parameter, x: x - parameter.scale),
        (LargeWeight, "applied", lambda parameter, x: x - 1),
    ]:  # fmt: skip
        monkeypatch.setattr(kind, name, value)
        assert equal(outcomes(), [functions[k](X) for k in (0, 1, 0, 1)])
