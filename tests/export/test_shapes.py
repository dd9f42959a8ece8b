"""`dynamic_shapes` by tensor and from further inputs, dimensions that must be equal, and what errors suggest."""

from __future__ import annotations

import re
from typing import Any

import pytest

import numod as torch
from numod.export import AdditionalInputs, Dim, ShapesCollection, export


def _sum(x: Any, y: Any) -> Any:
    return x + y


def _apart(x: Any, y: Any) -> Any:
    return x + 1, y * 2


def _nested(d: dict, l: list) -> Any:
    return d["a"] + l[0], d["b"]


def _sizes(program: Any) -> list[str]:
    return [*program.range_constraints]


def test_shapes_are_collected_by_tensor() -> None:
    x, y, z = torch.ones(4, 2), torch.ones(6, 2), torch.ones(4, 2)
    shapes = ShapesCollection()
    shapes[x] = {0: Dim("n")}
    shapes[z] = (Dim("n"), None)
    assert len(shapes) == 2 and shapes[z] == (shapes[z][0], None)
    program = export(_nested, ({"a": x, "b": y}, [z]), dynamic_shapes=shapes)
    first, _ = program.module()({"a": torch.ones(7, 2), "b": y}, [torch.ones(7, 2)])
    assert first.shape == (7, 2) and _sizes(program) == ["n"]
    assert shapes.dynamic_shapes(_nested, ({"a": x, "b": y}, [z]))["d"] == {"a": {0: shapes[x][0]}, "b": None}
    with pytest.raises(ValueError, match="were not found in args. Maybe such tensors were copied"):
        export(_nested, ({"a": x.clone(), "b": y}, [z]), dynamic_shapes=shapes)
    with pytest.raises(AssertionError, match="Shapes assigned to input do not match"):
        shapes[x] = {1: Dim("n")}
    with pytest.raises(AssertionError, match="Cannot assign shape to non-tensor"):
        shapes["x"] = {0: Dim("n")}


def test_sizes_that_differ_in_further_inputs_are_dynamic() -> None:
    x, y = torch.ones(4, 2), torch.ones(6, 2)
    additional = AdditionalInputs()
    additional.add((torch.ones(5, 2), y))
    additional.add((), {"x": torch.ones(7, 2), "y": y})
    assert additional.dynamic_shapes(_apart, (x, y)) == {"x": (Dim.DYNAMIC, None), "y": (None, None)}
    further = AdditionalInputs()
    further.add((torch.ones(5, 2), y))
    program = export(_apart, (x, y), dynamic_shapes=further)
    assert program.module()(torch.ones(9, 2), y)[0].shape == (9, 2)
    with pytest.raises(RuntimeError, match="If you meant for this dimension to be dynamic, please re-export"):
        further.verify(export(_apart, (x, y)))
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        further.add((x,))
        further.dynamic_shapes(_apart, (x, y))
    with pytest.raises(AssertionError, match="must be a tuple"):
        further.add([x])
    numbers = AdditionalInputs()
    numbers.add((x, 5))
    with pytest.raises(ValueError, match="differing values"):
        numbers.dynamic_shapes(lambda x, n: x * n, (x, 3))
    with pytest.raises(ValueError, match="differing types"):
        numbers.dynamic_shapes(lambda x, n: x * n, (x, 3.0))


def test_unnamed_dimensions_are_equal_where_the_function_needs_it() -> None:
    x, dynamic = torch.ones(4, 2), {0: Dim.DYNAMIC}
    program = export(lambda x, y, z: (x + y, z), (x, x + 1, x + 2), dynamic_shapes=(dynamic, dynamic, dynamic))
    assert len(program.range_constraints) == 2
    total, other = program.module()(torch.ones(5, 2), torch.ones(5, 2), torch.ones(3, 2))
    assert total.shape == (5, 2) and other.shape == (3, 2)


def test_names_that_must_be_equal_are_told_apart_from_others() -> None:
    x = torch.ones(4, 2)
    shapes = tuple([{0: Dim(name)} for name in "abc"])
    with pytest.raises(RuntimeError) as error:
        export(lambda x, y, z: (x + z, y), (x, x + 1, x + 2), dynamic_shapes=shapes)
    assert str(error.value) == (
        "Constraints violated (c)!\n  - The values of c = z.size()[0] and a = x.size()[0] must always be equal.\n"
        "Suggested fixes:\n  c = a"
    )


def test_a_function_may_do_something_else_beyond_the_range() -> None:
    def branch(x: Any) -> Any:
        return x + 1 if x.shape[0] > 4 else x - 1

    program = export(branch, (torch.ones(3, 2),), dynamic_shapes=({0: Dim("n", max=4)},))
    for size in (1, 2, 4):
        assert program.module()(torch.ones(size, 2)).tolist() == [[0.0, 0.0]] * size
    with pytest.raises(AssertionError, match="<= 4"):
        program.module()(torch.ones(5, 2))
    for most in (5, None):
        with pytest.raises(
            RuntimeError, match=r"Not all values of n = x.size..\[0\] in the .*\n.*\n  n = Dim.'n', max=4."
        ):
            export(branch, (torch.ones(4, 2),), dynamic_shapes=({0: Dim("n", max=most)},))


def test_an_unnamed_dimension_that_is_fixed_is_named_by_its_input() -> None:
    with pytest.raises(
        RuntimeError,
        match="You marked x.size.. as dynamic.*replace it with either Dim.STATIC".replace("size..", r"size\(\)\[0\]"),
    ):
        export(lambda x: x.view(4, -1) + torch.ones(4, 2), (torch.ones(4, 2),), dynamic_shapes=({0: Dim.DYNAMIC},))


def test_dimensions_are_printed_as_expressions() -> None:
    dim = Dim("a")
    assert [repr(part) for part in (2 * dim, dim + 1, 2 * dim - 1)] == ["2*a", "a + 1", "2*a - 1"]
    assert (2 * dim).__name__ == "2*a" and repr(Dim.DYNAMIC(min=1)) == "DimHint(DYNAMIC, min=1)"
    with pytest.raises(NotImplementedError, match="Attempted to multiply -1 with a, where a positive integer"):
        dim * -1


def _outcomes(library: Any) -> list[Any]:
    """The sizes that a library finds dynamic, or its error."""
    hints, ones = library.export.Dim, library.ones
    modules = []
    for function in (_sum, _apart):

        class Model(library.nn.Module):
            call = staticmethod(function)

            def forward(self, x: Any, y: Any) -> Any:
                return self.call(x, y)

        modules.append(Model())
    outcomes: list[Any] = []
    for module, shapes in (
        (modules[0], ({0: hints.DYNAMIC}, {0: hints.DYNAMIC})),
        (modules[0], ({0: hints("a")}, {0: hints("b")})),
        (modules[0], ({0: hints("a")}, None)),
        (modules[1], ({0: hints.AUTO}, {0: hints.STATIC})),
        (modules[1], {"x": {0: hints("a", max=8)}, "y": {1: hints("b")}}),
        (modules[1], {"x": {0: hints("a")}, "z": None}),
        (modules[1], {"x": (hints("a"),), "y": None}),
        (modules[1], {"x": {0: 5}, "y": None}),
    ):
        try:
            program = library.export.export(module, (ones(4, 2), ones(4, 2)), dynamic_shapes=shapes)
            outcomes.append(len(program.range_constraints))
        except RuntimeError as error:
            text = re.sub(r"L\['(\w+)'\]|torch\.|numod\.|, min=0", lambda match: match[1] or "", str(error))
            text = re.sub(r" For more information.*|\)?: with .*| If you're using.*|\nFor more.*", "", text)
            outcomes.append([line.rstrip(".)") for line in text.split("\n\nThe error above")[0].splitlines() if line])
    return outcomes


@pytest.mark.parity
def test_dimensions_are_as_in_pytorch() -> None:
    for got, want in zip(_outcomes(torch), _outcomes(pytest.importorskip("torch")), strict=True):
        assert got == want
