"""`ExportedProgram.graph` and `graph_module`: a program as nodes, in the form of PyTorch's `torch.fx`.

Nodes are for reading. A program is changed by changing the function and exporting it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.create.creation import empty
from ..device.device import Device
from ..graph.ir.program import Check, Program, Step, Value
from ..graph.values.pytree import replace

if TYPE_CHECKING:
    from .program import ExportedProgram

_PREFIXES = {"parameter": "p_", "buffer": "b_", "constant": "c_"}


class Node:
    """A step of a program.

    `op` is "placeholder", "call_function" or "output", `target` the name of an input or of numod's op, `args` and
    `kwargs` have nodes in place of tensors, and `users` has the nodes that read this one. A step that writes to
    existing tensors has them as `kwargs["out"]`. `meta` has the line of the function ("stack_trace") and, for a tensor,
    one of its shape and dtype on the device meta ("val").
    """

    def __init__(self, graph: Graph, op: str, name: str, target: str, args: tuple, kwargs: dict, meta: dict) -> None:
        self.graph, self.op, self.name, self.target = graph, op, name, target
        self.args, self.kwargs, self.meta = args, kwargs, meta
        self.users: dict[Node, None] = {}
        for node in self.all_input_nodes:
            node.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        nodes: dict[Node, None] = {}
        _note_nodes((self.args, self.kwargs), nodes)
        return [*nodes]

    @property
    def stack_trace(self) -> str | None:
        """The line of the function."""
        return self.meta.get("stack_trace")

    def format_node(self) -> str:
        """The node as a line of the printed graph."""
        if self.op == "output":
            return f"return {_text(self.args[0])}"
        arguments = f"(args = {_text(self.args)}, kwargs = {_text(self.kwargs)})" if self.op == "call_function" else ""
        return f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={self.target}]{arguments}"

    def __repr__(self) -> str:
        return self.name


def _note_nodes(argument: Any, nodes: dict[Node, None]) -> None:
    if isinstance(argument, Node):
        nodes[argument] = None
    for part in argument.values() if isinstance(argument, dict) else argument if isinstance(argument, tuple) else ():
        _note_nodes(part, nodes)


def _text(argument: Any) -> str:
    """Arguments as text, with % before the names of nodes."""
    if isinstance(argument, Node):
        return f"%{argument.name}"
    if isinstance(argument, dict):
        return f"{{{', '.join(f'{key}: {_text(part)}' for key, part in argument.items())}}}"
    if type(argument) is tuple:
        return f"({', '.join(map(_text, argument))}{',' * (len(argument) == 1)})"
    return repr(argument)


class Graph(Program):
    """A program with `nodes`: those of parameters, buffers, constants and inputs, then the steps, then the results."""

    def __init__(self, exported: ExportedProgram) -> None:
        self.program = exported.program
        vars(self).update(vars(exported.program))
        self.names: dict[Value, str] = {}  # of values
        self._nodes: list[Node] = []
        self._by_value: dict[Value, Node] = {}
        self._used: set[str] = set()
        self._add_placeholders(exported)
        for step in self.steps:
            self._add_step(step)
        self._add("output", "output", "output", (tuple(self.results()),), {}, {})

    @property
    def nodes(self) -> list[Node]:
        """The nodes in order."""
        return list(self._nodes)

    def results(self) -> list[Any]:
        """The leaves of the result: nodes, and constants."""
        leaves: list[Any] = []
        replace(self.outputs, lambda leaf: leaves.append(self._argument(leaf)))
        return leaves

    def output_node(self) -> Node:
        """The last node."""
        return self._nodes[-1]

    def find_nodes(self, *, op: str, target: str | None = None, sort: bool = True) -> list[Node]:
        """The nodes of this kind, and of this target if one is given."""
        return [node for node in self._nodes if node.op == op and target in (None, node.target)]

    def print_tabular(self) -> None:
        """Print a table of the nodes."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(node.op, node.name, node.target, str(node.args), str(node.kwargs)) for node in self._nodes]
        widths = [max(map(len, column)) for column in zip(*rows)]
        rows.insert(1, tuple(["-" * width for width in widths]))
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *[node.format_node() for node in self._nodes]])

    def __getattr__(self, name: str) -> NoReturn:
        if re.match("erase_|insert|create_|call_|placeholder|node_copy|eliminate_|lint|python_code", name):
            raise NotImplementedError(
                f"graph.{name}: an exported program is for reading; change the function and export it again"
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute {name!r}")

    def _add_placeholders(self, exported: ExportedProgram) -> None:
        names = dict(exported.names)
        kinds = {value: "parameter" if name in exported.parameter_names else "buffer" for value, name in names.items()}
        unnamed = [value for value in self.held if value not in names]
        names.update({value: f"constant{number}" for number, value in enumerate(unnamed)})
        for kind in _PREFIXES:
            for value in names:
                if kinds.get(value, "constant") == kind:
                    self._add_placeholder(value, _PREFIXES[kind] + re.sub(r"\W", "_", names[value]).lower())
        for value, name in zip(self.inputs, exported.input_names):
            self._add_placeholder(value, name)

    def _add_placeholder(self, value: Value, name: str) -> None:
        name = self._unused(name)
        self._bind(value, self._add("placeholder", name, name, (), {}, self._meta(value)))

    def _add_step(self, step: Step | Check) -> None:
        where = {"stack_trace": step.location}
        if isinstance(step, Check):
            self._add(
                "call_function", self._unused("check"), "check", (self._argument(step.value), step.expected), {}, where
            )
            return
        attributes = [attribute for attribute in step.attributes if not callable(attribute)]
        args = tuple([self._argument(input) for input in step.inputs] + attributes)
        known = [self._by_value[result] for result in step.results if result in self._by_value]
        kwargs = {"out": known[0] if len(known) == 1 else tuple(known)} if known else {}
        new = [result for result in step.results if result not in self._by_value]
        meta = where | (self._meta(new[0]) if len(new) == 1 else {})
        node = self._add("call_function", self._unused(step.op.name), step.op.name, args, kwargs, meta)
        for number, result in enumerate(new):
            part = node if len(new) == 1 else self._item(node, number, where | self._meta(result))
            self._bind(result, part)

    def _item(self, node: Node, number: int, meta: dict) -> Node:
        return self._add("call_function", self._unused("getitem"), "getitem", (node, number), {}, meta)

    def _add(self, op: str, name: str, target: str, args: tuple, kwargs: dict, meta: dict) -> Node:
        node = Node(self, op, name, target, args, kwargs, meta)
        self._nodes.append(node)
        return node

    def _bind(self, value: Value, node: Node) -> None:
        self._by_value[value] = node
        self.names[value] = node.name

    def _argument(self, argument: Any) -> Any:
        return self._by_value[argument] if isinstance(argument, Value) else argument

    def _meta(self, value: Value) -> dict[str, Any]:
        layout = self.layouts[value]
        return {"val": empty(tuple(layout.shape), dtype=layout.dtype, device=Device("meta"))}

    def _unused(self, name: str) -> str:
        """The name, with a number if it has been used."""
        names: Iterator[str] = (f"{name}_{number}" for number in range(1, len(self._used) + 2))
        unused = name if name not in self._used else next(one for one in names if one not in self._used)
        self._used.add(unused)
        return unused


class GraphModule:
    """A program's graph and its text. `ExportedProgram.module()` is the module that runs it."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.meta = graph, {}

    @property
    def code(self) -> str:
        """The program in the form of a function: a line for each node."""
        nodes = self.graph.nodes
        names = ", ".join(["self", *[node.name for node in nodes if node.op == "placeholder"]])
        return "\n".join(
            ["", f"def forward({names}):", *[_line(node) for node in nodes if node.op != "placeholder"], ""]
        )

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """The code, which is printed too."""
        if print_output:
            print(self.code)
        return self.code

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("graph_module is for reading; exported_program.module() is the module that runs it")


def _line(node: Node) -> str:
    if node.op == "output":
        return f"    return {node.args[0]}"
    arguments = [*map(repr, node.args), *[f"{key}={part!r}" for key, part in node.kwargs.items()]]
    return f"    {node.name} = ops.{node.target}({', '.join(arguments)})"
