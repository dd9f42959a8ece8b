"""Named tuples and dataclasses among the arguments and results of exported functions, in memory and in files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import numod as torch
from numod import nn
from numod.export import Dim, export, load, register_dataclass, save
from numod.serialization import records
from numod.utils import _pytree as pytree


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Batch:
    x: Any
    scale: float
    mask: Any = None


@dataclasses.dataclass(frozen=True)
class Out:
    total: Any
    parts: Pair


class Net(nn.Module):
    def forward(self, batch: Batch) -> Out:
        return Out(batch.x * batch.scale, Pair(batch.x + 1, batch.x - 1))


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    tables = (records.dataclasses_by_type, records.types_by_name, records.registered)
    before = [dict(table) for table in tables]
    yield
    for table, former in zip(tables, before):
        table.clear()
        table.update(former)


def _register() -> None:
    register_dataclass(Batch, serialized_type_name="test.Batch")
    register_dataclass(Out, serialized_type_name="test.Out")
    pytree._register_namedtuple(Pair, serialized_type_name="test.Pair")


def _is_right(out: Out, x: torch.Tensor) -> bool:
    right = torch.equal(out.total, x * 2) and torch.equal(out.parts.second, x - 1)
    return type(out) is Out and type(out.parts) is Pair and right


def test_records_are_arguments_and_results(tmp_path: Path) -> None:
    _register()
    x = torch.ones(3)
    program = export(Net(), (Batch(x, 2.0),))
    assert program.graph_signature.user_inputs == ("batch_x", 2.0)
    save(program, tmp_path / "net.pt2")
    for program_read in (program, load(tmp_path / "net.pt2")):
        module = program_read.module()
        assert _is_right(module(Batch(x + 1, 2.0)), x + 1)
        with pytest.raises(RuntimeError, match=r"args\[0\]\[0\].scale: expected 2.0, as captured, got 3.0"):
            module(Batch(x, 3.0))
        with pytest.raises(RuntimeError, match="expected a Batch, as captured, got a dict"):
            module({"x": x, "scale": 2.0})
        (batch,), _ = program_read.example_inputs
        assert type(batch) is Batch and batch.mask is None


def test_sizes_of_a_records_fields_may_vary(tmp_path: Path) -> None:
    register_dataclass(Batch)
    size, x = Dim("size"), torch.ones(3)
    for function, argument, shapes in (
        (lambda batch: batch.x * 2, Batch(x, 2.0), [{0: size}, None]),
        (lambda pair: Pair(pair.first + pair.second, pair.first), Pair(x, x), Pair({0: size}, {0: size})),
    ):
        program = export(function, (argument,), dynamic_shapes=(shapes,))
        module = program.module()
        five = torch.ones(5)
        result = module(Batch(five, 2.0) if isinstance(argument, Batch) else Pair(five, five))
        assert (result if isinstance(argument, Batch) else result.first).tolist() == [2.0] * 5
    with pytest.raises(ValueError, match="a Pair cannot be written to a file"):
        save(program, tmp_path / "net.pt2")
    pytree._register_namedtuple(Pair, serialized_type_name="test.Pair")
    with pytest.raises(ValueError, match="give it one before the export"):
        save(program, tmp_path / "net.pt2")
    with pytest.raises(RuntimeError, match="has 3"):
        export(lambda batch: batch.x, (Batch(x, 2.0),), dynamic_shapes=([{0: size}, None, None],))


def test_a_file_names_no_class_that_was_not_registered(tmp_path: Path) -> None:
    _register()
    save(export(Net(), (Batch(torch.ones(3), 2.0),)), tmp_path / "net.pt2")
    records.types_by_name.pop("test.Out")
    with pytest.raises(ValueError, match="register its class before loading"):
        load(tmp_path / "net.pt2")
    records.types_by_name["test.Out"] = Batch
    with pytest.raises(ValueError, match="the fields of 'test.Out' are"):
        load(tmp_path / "net.pt2")


def test_packed_sequences_are_records() -> None:
    layer, x = nn.LSTM(4, 3), torch.randn(3, 2, 4)
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([3, 2]))
    program = export(lambda packed: layer(packed)[0], (packed,))
    assert torch.allclose(program.module()(packed).data, layer(packed)[0].data, atol=1e-6)
    with pytest.raises(RuntimeError, match="found another value than 2"):  # other lengths are another program
        program.module()(nn.utils.rnn.pack_padded_sequence(torch.randn(3, 3, 4), torch.tensor([3, 1, 1])))
    assert program.graph_signature.user_inputs[:2] == ("packed_data", "packed_batch_sizes")
    assert type(program.call_spec.out_spec) is type(packed) and program.call_spec.out_spec.data is None


def test_classes_without_a_name_are_not_saved(tmp_path: Path) -> None:
    register_dataclass(Batch)
    program = export(lambda batch: batch.x, (Batch(torch.ones(2), 1.0),))
    with pytest.raises(ValueError, match="a Batch cannot be written to a file"):
        save(program, tmp_path / "net.pt2")


def test_other_classes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"args\[0\]\[0\] is a Batch.*register_dataclass\(cls\) first"):
        export(lambda batch: batch.x, (Batch(torch.ones(2), 1.0),))
    for kind in (int, Pair):
        with pytest.raises(ValueError, match="as it is not a dataclass"):
            register_dataclass(kind)
    with pytest.raises(ValueError, match="named tuples"):
        pytree._register_namedtuple(Batch, serialized_type_name="test.Batch")
    register_dataclass(Batch, serialized_type_name="test.Batch")
    with pytest.raises(ValueError, match="choose another"):
        register_dataclass(Out, serialized_type_name="test.Batch")


def test_a_registered_dataclass_is_a_tree() -> None:
    register_dataclass(Batch)
    batch = Batch(1, 2.0)
    assert pytree.tree_leaves(batch) == [1, 2.0]
    assert pytree.tree_map(lambda leaf: leaf * 2, batch) == Batch(2, 4.0, None)


@pytest.mark.parity
def test_records_are_as_in_pytorch() -> None:
    reference = pytest.importorskip("torch")
    results = []
    for library in (torch, reference):

        class Model(library.nn.Module):
            def forward(self, batch: Any, pair: Pair) -> Any:
                return Out(batch.x * batch.scale, Pair(pair.first - batch.x, pair.second))

        @dataclasses.dataclass
        class Fields:
            x: Any
            scale: float
            mask: Any = None

        ones = library.ones(2)
        with pytest.raises(ValueError, match="register_dataclass"):
            library.export.export(Model(), (Fields(ones, 2.0), Pair(ones, ones)))
        library.export.register_dataclass(Fields)
        library.export.register_dataclass(Out)
        examples = Fields(ones, 2.0), Pair(ones.clone(), ones.clone())
        program = library.export.export(Model(), examples)
        out = program.module()(Fields(ones * 3, 2.0), Pair(ones, ones))
        assert type(out) is Out and type(out.parts) is Pair
        leaves = library.utils._pytree.tree_leaves(Fields(1, 2.0))
        names = [name for name in program.graph_signature.user_inputs if isinstance(name, str)]
        results.append((out.total.tolist(), out.parts.first.tolist(), leaves, names))
    assert results[0] == results[1]
