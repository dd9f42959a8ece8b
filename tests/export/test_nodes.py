"""The nodes, signature and structures of an exported program."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import numod as torch
from numod import nn


def _model(library: Any) -> Any:
    class Model(library.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = library.nn.Linear(2, 3)
            self.register_buffer("shift", library.ones(3))
            self.register_buffer("Mask", library.ones(3), persistent=False)

        def forward(self, x: Any, k: float, *, y: Any) -> dict:
            hidden = library.tanh(self.layer(x) + self.shift)
            return {"a": hidden * self.Mask, "b": (hidden * k, 3, hidden + y)}

    return library.export.export(Model(), (library.ones(1, 2), 2.0), {"y": library.ones(3)})


def test_nodes_are_steps_with_their_arguments_and_users() -> None:
    graph = _model(torch).graph_module.graph
    names = [node.name for node in graph.nodes]
    assert names == [
        "p_layer_weight", "p_layer_bias", "b_shift", "b_mask", "x", "y", "linear", "add", "tanh", "mul", "mul_1", "add_1", "output"
    ]  # fmt: skip
    nodes = {node.name: node for node in graph.nodes}
    linear = nodes["linear"]
    assert linear.op == "call_function" and linear.target == "linear" and [*linear.users] == [nodes["add"]]
    assert linear.args[:3] == (nodes["x"], nodes["p_layer_weight"], nodes["p_layer_bias"])
    assert [*nodes["tanh"].users] == [nodes["mul"], nodes["mul_1"], nodes["add_1"]]
    assert linear.meta["val"].shape == (1, 3) and linear.meta["val"].device.type == "meta"
    assert linear.stack_trace.startswith("test_nodes.py:")
    assert graph.output_node().all_input_nodes == [nodes["mul"], nodes["mul_1"], nodes["add_1"]]
    assert graph.find_nodes(op="call_function", target="mul") == [nodes["mul"], nodes["mul_1"]]


def test_results_and_writes_are_nodes() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls.add_(1)
            return x.max(1).values + self.calls

    graph = torch.export.export(Counter(), (torch.ones(2, 3),)).graph
    nodes = {node.name: node for node in graph.nodes}
    assert nodes["add"].kwargs == {"out": nodes["b_calls"]} and nodes["add"] in nodes["b_calls"].users
    assert [nodes["getitem"].args, nodes["getitem_1"].args] == [(nodes["max"], 0), (nodes["max"], 1)]
    assert nodes["add_1"].all_input_nodes == [nodes["getitem"], nodes["b_calls"]]


def test_graphs_are_printed(capsys: pytest.CaptureFixture) -> None:
    program = torch.export.export(lambda x: (x + 1) * 2, (torch.ones(2),))
    assert (
        str(program.graph)
        == """graph():
    %x : [num_users=1] = placeholder[target=x]
    %add : [num_users=1] = call_function[target=add](args = (%x, 1), kwargs = {})
    %mul : [num_users=1] = call_function[target=mul](args = (%add, 2), kwargs = {})
    return (%mul,)"""
    )
    assert (
        program.graph_module.code
        == """
def forward(self, x):
    add = ops.add(x, 1)
    mul = ops.mul(add, 2)
    return (mul,)
"""
    )
    program.graph.print_tabular()
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert table[3].split() == ["call_function", "add", "add", "(x,", "1)", "{}"]
    assert program.graph_module.print_readable() == program.graph_module.code == capsys.readouterr().out[:-1]


def test_nodes_are_for_reading() -> None:
    program = torch.export.export(lambda x: x + 1, (torch.ones(2),))
    assert program.graph is program.graph_module.graph
    with pytest.raises(NotImplementedError, match="change the function and export it again"):
        program.graph.erase_node(program.graph.nodes[0])
    with pytest.raises(NotImplementedError, match="module.. is the module that runs it"):
        program.graph_module(torch.ones(2))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = program.graph.nothing


def test_structures_are_trees() -> None:
    program = _model(torch)
    assert program.call_spec.in_spec == ((None, None), {"y": None})
    assert program.call_spec.out_spec == {"a": None, "b": (None, None, None)}
    assert [entry.fqn for entry in program.module_call_graph] == [""] and program.dialect == "NUMOD"
    assert program.module_call_graph[0].signature.out_spec == program.call_spec.out_spec


def test_ranges_have_bounds() -> None:
    batch = torch.export.Dim("batch", max=9)
    program = torch.export.export(nn.Linear(2, 2), (torch.ones(3, 2),), dynamic_shapes=({0: batch},))
    assert program.range_constraints["batch"].lower == 1 and program.range_constraints["batch"].upper == 9


def _walk(library: Any) -> list[Any]:
    """What a program says of itself."""
    program = _model(library)
    signature, graph = program.graph_signature, program.graph_module.graph
    structure = importlib.import_module(f"{library.__name__}.utils._pytree").tree_unflatten(
        [1, 2, 3, 4], program.call_spec.out_spec
    )
    nodes = [node for node in graph.nodes if node.name != "k"]  # PyTorch has a node for the number
    edges = {node.name: [user.name for user in node.users] for node in nodes}
    return [
        [(node.op, node.name) for node in nodes], edges, structure,
        [[part.name for part in node.all_input_nodes] for node in nodes],
        [tuple(node.meta["val"].shape) for node in nodes if node.op != "output"],
        *[tuple(getattr(signature, name)) for name in (
            "parameters", "buffers", "user_inputs", "user_outputs", "non_persistent_buffers", "lifted_tensor_constants"
        )],
        signature.inputs_to_parameters, signature.inputs_to_buffers, signature.buffers_to_mutate,
        signature.inputs_to_lifted_tensor_constants, program.range_constraints,
    ]  # fmt: skip


@pytest.mark.parity
def test_programs_are_described_as_in_pytorch() -> None:
    got, want = _walk(torch), _walk(pytest.importorskip("torch"))
    for mine, other in zip(got, want, strict=True):
        assert mine == other
