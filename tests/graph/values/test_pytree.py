"""Structures of arguments and results: tuples, lists, dicts and dataclasses, and modified arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import pytest

import numod
from numod.graph import compile
from numod.graph.values import pytree

X = numod.tensor([[1.0, -2.0, 3.0]])


@dataclass
class Output:
    """Like the outputs of model libraries."""

    logits: numod.Tensor
    loss: numod.Tensor | None = None
    parts: list = field(default_factory=list)


@dataclass(frozen=True)
class Batch:
    """A frozen dataclass."""

    x: numod.Tensor
    scale: float = 2.0


def test_leaves_are_replaced_in_copies() -> None:
    output = Output(1, 2, [3, (4, {"k": Batch(5, 6.0)})])
    assert pytree.replace(output, lambda leaf: leaf * 10) == Output(10, 20, [30, (40, {"k": Batch(50, 60.0)})])
    assert output.parts[1][1]["k"].x == 5


def test_changed_returns_the_kind_of_the_changed_container() -> None:
    structures = (Output(X), [X], {"a": X})
    before = pytree.contents(structures)
    assert pytree.changed(before) is None
    structures[2]["b"] = X
    assert pytree.changed(before) == "dict"


@pytest.mark.parametrize("linked", [False, None])
def test_data_classes_come_and_go(linked: bool | None) -> None:
    def function(batch: Batch, state: Output) -> Output:
        y = batch.x * batch.scale + state.logits
        return Output(y, None, [y.sum(), Batch(y * 2, 1.0)])

    compiled = compile(function, options={"linked": linked})
    for k, scale in enumerate((2.0, 2.0, 2.0, 3.0)):
        arguments = Batch(X + k, scale), Output(X * k)
        actual, expected = compiled(*arguments), function(*arguments)
        assert type(actual) is Output and actual.loss is None and type(actual.parts[1]) is Batch
        assert (
            numod.equal(actual.logits, expected.logits)
            and numod.equal(actual.parts[1].x, expected.parts[1].x)
            and actual.parts[1].scale == 1.0
        )
        assert numod.allclose(actual.parts[0], expected.parts[0])
    assert compiled.recorded == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda d, x: d.update(y=x),
        lambda d, x: d.pop("z", None),
        lambda d, x: d["l"].append(x),
        lambda d, x: d["l"].__setitem__(0, x),
        lambda d, x: setattr(d["o"], "loss", x),
    ],
)
def test_writes_into_container_arguments_are_refused(change: object) -> None:
    compiled = compile(lambda d: (change(d, d["x"] * 2), d["x"] + 1)[1], fullgraph=True)
    with pytest.raises(RuntimeError, match="the contents of an argument, a (dict|list|Output), change"):
        for k in range(3):
            compiled({"x": X + k, "z": X, "l": [X], "o": Output(X)})


SHIFT = [1.0]


class Shifted(Output):
    """A dataclass with an attribute that is not a field, and a method that reads a global."""

    def shifted(self) -> numod.Tensor:
        return self.logits * getattr(self, "rate", 1.0) + SHIFT[0]


@pytest.mark.parametrize("linked", [False, None])
def test_attributes_of_a_data_class_besides_its_fields(linked: bool | None) -> None:
    compiled = compile(lambda batch: batch.shifted(), options={"linked": linked})
    for k in range(8):
        batch, SHIFT[0] = Shifted(X + k), 1.0 + k // 6
        if k // 2 in (1, 3):
            batch.rate = float(k // 2)
        assert numod.equal(compiled(batch), batch.shifted())


@pytest.mark.parametrize("linked", [False, None])
@pytest.mark.parametrize("learns", [False, True])
def test_containers_that_are_given_are_returned_themselves(linked: bool | None, learns: bool) -> None:
    weight = numod.ones(3, requires_grad=learns)
    compiled = compile(
        lambda items, kwargs, *, made: (items, [kwargs["inner"]], made, items[0] * weight), options={"linked": linked}
    )
    for k in range(4):
        items, keywords, made = [X + k, 1], {"inner": {"x": X}}, Output(X)
        first, [inner], last, result = compiled(items, keywords, made=made)
        assert (
            first is items
            and inner is keywords["inner"]
            and last is made
            and numod.equal(result, X + k)
            and result.requires_grad is learns
        )


def test_slices_are_arguments() -> None:
    compiled = compile(lambda x, part: x[:, part])
    for part in (slice(0, 2), slice(1, None), slice(0, 2), slice(None, None, 2)):
        assert numod.equal(compiled(X, part), X[:, part])
    assert compiled.recorded == 3


def test_functions_modules_and_classes_that_a_run_makes_are_refused() -> None:
    def module(x: numod.Tensor) -> numod.nn.Module:
        module = numod.nn.Module()
        module.weight = x * 2
        return module

    makes = [
        lambda x: lambda: x + 1,
        module,
        lambda x: type("Made", (), {"x": x * 2}),
        lambda x: partial(numod.add, x),
        lambda x: (x * 2).add,
    ]
    for function in makes:
        with pytest.raises(RuntimeError, match="may hold values of this run"):
            compile(function, fullgraph=True)(X)
        with pytest.warns(UserWarning, match="runs eagerly"):
            compile(function)(X)


def test_functions_modules_and_classes_that_existed_before_are_returned() -> None:
    layer, scale = numod.nn.Linear(3, 3), lambda x: x * 2
    layer.act = scale
    compiled = compile(
        lambda x, argument: (x * 2, layer, layer.act, layer.forward, scale, numod.relu, len, Output, argument),
        fullgraph=True,
    )
    for argument in (scale, scale, numod.nn.ReLU()):
        for _ in range(2):
            doubled, *others = compiled(X, argument)
            assert numod.equal(doubled, X * 2)
            assert others == [layer, scale, layer.forward, scale, numod.relu, len, Output, argument]


def test_a_list_that_is_returned_twice_is_refused() -> None:
    def twice(x: numod.Tensor) -> tuple[list, list]:
        result = [x * 2]
        return result, result

    with pytest.raises(RuntimeError, match="returns the same list twice"):
        compile(twice, fullgraph=True)(X)
