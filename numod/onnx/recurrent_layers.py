"""RNN, GRU and LSTM nodes with weights of their own as nn.RNN, nn.GRU and nn.LSTM.

A node is one layer, in one direction or two. PyTorch's exporters write a network of several layers as several nodes
with weights in ONNX's order; numod's own writes each direction as a node, whose weights it orders by Split and Concat,
so that they have the state dict's names. In both cases the nodes of one module become one layer with the parameters of
the original, and each node calls its part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..core import Tensor
from ..nn import recurrent
from ..nn.module import Module
from ..nn.parameter import Parameter
from .layers import count_uses, path_of, replace_steps
from .model import add_layer
from .opset.recurrent import GATES, in_layout, initial_state, layer_mode, ordered
from .program import Program, Step
from .registry import internal

_WEIGHT = re.compile(r"(?P<path>.+)\.weight_ih(?P<suffix>_l(?P<layer>\d+)(?:_reverse)?)")


def call_recurrent_layer(
    x: Tensor,
    *states: Tensor | None,
    parent: Module,
    name: str,
    suffixes: tuple[str, ...],
    layout: int,
) -> tuple[Tensor, ...]:
    """The step of a part of a recurrent layer, which is looked up at each call, since quantization replaces it."""
    layer = parent._modules[name]
    if layout:
        x, states = x.transpose(0, 1), [state if state is None else state.transpose(0, 1) for state in states]
    shape = len(suffixes), x.shape[1], layer.hidden_size
    states = [initial_state(state, shape) for state in states if state is not None]
    if states and len(states) < (2 if layer.mode == "LSTM" else 1):
        raise ValueError("an LSTM needs both initial states, or none")
    out, *ends = layer._run_part(x, states or None, suffixes)
    return in_layout(out, ends, {"layout": layout})


RECURRENT_LAYER = internal("a recurrent layer", call_recurrent_layer)


@dataclass(eq=False)
class _Part:
    """A node that is a part of a layer: its weights for each direction by the names of nn.LSTM, without suffixes."""

    step: Step
    mode: str
    weights: list[dict[str, Tensor]]
    stored: tuple[str, ...]  # the tensors of the file that they are
    path: str
    suffixes: tuple[str, ...] = ()  # of the parameters in the state dict, where the file has its names

    @property
    def form(self) -> tuple:
        """What all parts of a layer have in common, but for the width of the input."""
        first = self.weights[0]
        sizes = tuple(
            [(name, tuple(value.shape[: value.ndim - (name == "weight_ih")])) for name, value in first.items()]
        )
        return self.mode, sizes, first["weight_hh"].dtype


def make_recurrent_layers(program: Program, tensors: dict[str, Tensor], trained: set[str], root: Module) -> None:
    """Replace steps of a program by layers below `root`, and take their weights out of `tensors`."""
    reader = _Reader(program, tensors, trained & set(tensors))
    groups: dict[tuple, list[_Part]] = {}
    for step in program.steps:
        part = reader.part(step)
        if part is not None:
            groups.setdefault((part.path, bool(part.suffixes)), []).append(part)
    replaced: dict[int, Step | None] = {}
    for parts in groups.values():
        alone = [] if parts[0].suffixes else [[part] for part in parts]  # names of the file stay in one module
        for layer_parts in [parts] if _is_one_layer(parts) else alone:
            replaced.update(_layer(layer_parts, root))
            for name in [name for part in layer_parts for name in part.stored]:
                del tensors[name]
    replace_steps(program, replaced)
    _remove_unread(program, reader.ordering)
    uses = count_uses(program)
    for name in [name for name in reader.zeros if not uses[name]]:
        del tensors[name]


class _Reader:
    """Reads the weights of recurrent nodes. `ordering` has the steps that put weights into ONNX's order, `zeros` the
    constants in place of biases.
    """

    def __init__(self, program: Program, tensors: dict[str, Tensor], trained: set[str]) -> None:
        self.tensors, self.constants = tensors, program.constants
        uses = count_uses(program)
        self.used_once = {name for name in trained if uses[name] == 1}
        self.producers = {name: step for step in program.steps for name in step.outputs}
        self.ordering: set[int] = set()
        self.zeros: set[str] = set()

    def part(self, step: Step) -> _Part | None:
        """The part of a layer that a step is; None for other steps, and where no layer computes the same."""
        kind = step.operator.name
        if kind not in GATES or len(step.inputs) < 3:
            return None
        _, w, r, b, lengths, *states = (*step.inputs, *[""] * 6)[:8]
        if lengths or states[2] or (kind != "LSTM" and states[1]):
            return None
        return self._stored_part(step, kind, w, r, b) or self._ordered_part(step, kind, w, r, b)

    def _stored_part(self, step: Step, kind: str, w: str, r: str, b: str) -> _Part | None:
        """A part whose weights the file has in ONNX's form."""
        names = tuple([name for name in (w, r, b) if name])
        if not all(name in self.used_once for name in names):
            return None
        values = [self.tensors[name] for name in names]
        if [value.ndim for value in values] != [3, 3, 2][: len(names)]:
            return None
        (directions, rows, _), size = values[0].shape, values[1].shape[2]
        mode = "" if step.attributes.get("direction") == "reverse" else layer_mode(kind, directions, step.attributes)
        shapes = [(directions, rows, values[0].shape[2]), (directions, rows, size), (directions, 2 * rows)]
        fits = rows == size * len(GATES[kind]) > 0 and [tuple(value.shape) for value in values] == shapes[: len(names)]
        if not mode or not fits or any(value.dtype is not values[0].dtype for value in values):
            return None
        weights = []
        for number in range(directions):
            parts = {"weight_ih": values[0][number], "weight_hh": values[1][number]}
            if b:
                parts |= dict(zip(("bias_ih", "bias_hh"), values[2][number].chunk(2)))
            weights.append({name: ordered(value, kind).contiguous() for name, value in parts.items()})
        return _Part(step, mode, weights, names, path_of(w, "", step.scope, self.tensors))

    def _ordered_part(self, step: Step, kind: str, w: str, r: str, b: str) -> _Part | None:
        """A part as numod writes it: one direction, with the parameters of the state dict behind other steps."""
        mode, visited = layer_mode(kind, 1, step.attributes), set()
        source = self._source(w, kind, visited)
        match = _WEIGHT.fullmatch(source or "")
        is_reverse = step.attributes.get("direction") == "reverse"
        if not mode or not match or match["suffix"].endswith("_reverse") != is_reverse:
            return None
        path, suffix = match["path"], match["suffix"]
        names = {name: f"{path}.{name}{suffix}" for name in _NAMES}
        biases = self._biases(b, kind, visited)
        if self._source(r, kind, visited) != names["weight_hh"] or biases is None:
            return None
        if not biases:
            names = {name: names[name] for name in _NAMES[:2]}
        elif biases != (names["bias_ih"], names["bias_hh"]):
            return None
        if not all(name in self.used_once for name in names.values()):
            return None
        values = {name: self.tensors[value] for name, value in names.items()}
        rows = len(GATES[kind]) * values["weight_hh"].shape[-1]
        ranks = [value.ndim for value in values.values()] == [2, 2, 1, 1][: len(values)]
        if not ranks or any(value.shape[0] != rows for value in values.values()):
            return None
        self.ordering |= visited
        return _Part(step, mode, [values], tuple(names.values()), path, (suffix,))

    def _step(self, name: str, operator: str, visited: set[int]) -> Step | None:
        """The step of this operator that makes a value; None if another one does."""
        step = self.producers.get(name)
        if step is None or step.operator.name != operator:
            return None
        visited.add(id(step))
        return step

    def _source(self, name: str, kind: str, visited: set[int]) -> str | None:
        """The tensor that a weight (1, gates, n) is, whose gates were put into ONNX's order."""
        block = self._block(name, visited)
        return None if block is None else self._unordered(block, kind, visited)

    def _block(self, name: str, visited: set[int]) -> str | None:
        """The value of which an Unsqueeze makes (1, …)."""
        unsqueeze = self._step(name, "Unsqueeze", visited)
        if unsqueeze is None or len(unsqueeze.inputs) != 2:
            return None
        axes = self.constants.get(unsqueeze.inputs[1])
        return unsqueeze.inputs[0] if axes is not None and axes.tolist() == [0] else None

    def _unordered(self, name: str, kind: str, visited: set[int]) -> str | None:
        """The value whose blocks of rows, in ONNX's order, `name` has."""
        order = [GATES[kind].index(k) for k in range(len(GATES[kind]))]
        if len(order) == 1:
            return name
        concat = self._step(name, "Concat", visited)
        split = None if concat is None else self._step(concat.inputs[0], "Split", visited)
        is_reordered = (
            split is not None
            and concat.attributes.get("axis") == 0
            and split.attributes.get("axis", 0) == 0
            and len(split.inputs) == 1
            and len(split.outputs) == len(order)
            and [split.outputs.index(part) if part in split.outputs else -1 for part in concat.inputs] == order
        )
        return split.inputs[0] if is_reordered else None

    def _biases(self, name: str, kind: str, visited: set[int]) -> tuple[str, ...] | None:
        """The tensors that a bias is made of: two, or none where it is zero. None if it is made in another way."""
        block = self._block(name, visited)
        concat = None if block is None else self._step(block, "Concat", visited)
        if concat is None or concat.attributes.get("axis") != 0 or len(concat.inputs) != 2:
            return None
        first, second = concat.inputs
        if self._is_zero(first) and self._is_zero(second):
            return ()
        first = self._unordered(first, kind, visited)
        if kind == "GRU":
            second = self._unordered(second, kind, visited)
            return None if first is None or second is None else (first, second)
        add = None if first is None else self._step(first, "Add", visited)
        return None if add is None or not self._is_zero(second) else tuple(add.inputs)

    def _is_zero(self, name: str) -> bool:
        value = self.tensors.get(name)
        is_zero = value is not None and not bool(value.any())
        self.zeros |= {name} if is_zero else set()
        return is_zero


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def _is_one_layer(parts: list[_Part]) -> bool:
    """Whether parts are all of a layer: of one form, and each as wide as the results of the part before."""
    first = parts[0]
    if any(part.form != first.form for part in parts):
        return False
    suffixes = _suffixes(parts)
    count = 2 if any(suffix.endswith("_reverse") for suffix in suffixes) else 1
    expected = [f"_l{k}{end}" for k in range(len(suffixes) // count) for end in ("", "_reverse")[:count]]
    if sorted(suffixes) != sorted(expected):
        return False
    width = count * first.weights[0]["weight_hh"].shape[1]
    return all(
        weights["weight_ih"].shape[1] == width
        for part, own_suffixes in _with_suffixes(parts)
        for weights, suffix in zip(part.weights, own_suffixes)
        if not suffix.startswith("_l0")
    )


def _with_suffixes(parts: list[_Part]) -> list[tuple[_Part, tuple[str, ...]]]:
    """Each part with the suffixes of its parameters' names."""
    pairs = []
    for number, part in enumerate(parts):
        suffixes = part.suffixes or tuple([f"_l{number}{end}" for end in ("", "_reverse")[: len(part.weights)]])
        pairs.append((part, suffixes))
    return pairs


def _suffixes(parts: list[_Part]) -> list[str]:
    return [suffix for _, suffixes in _with_suffixes(parts) for suffix in suffixes]


def _layer(parts: list[_Part], root: Module) -> dict[int, Step]:
    """Make a layer of its parts below `root`. Returns the steps that replace them, by the ids of these."""
    mode, suffixes = parts[0].mode, _suffixes(parts)
    kind = getattr(recurrent, mode.partition("_")[0])
    layer = kind.__new__(kind)
    Module.__init__(layer)
    layer.mode, layer.bias = mode, "bias_ih" in parts[0].weights[0]
    layer.bidirectional = any(suffix.endswith("_reverse") for suffix in suffixes)
    layer.num_layers = len(suffixes) // (1 + layer.bidirectional)
    layer.hidden_size = parts[0].weights[0]["weight_hh"].shape[1]
    layer.batch_first, layer.dropout, layer.proj_size = False, 0.0, 0
    values = {}
    for part, own_suffixes in _with_suffixes(parts):
        for weights, suffix in zip(part.weights, own_suffixes):
            values |= {name + suffix: value for name, value in weights.items()}
    layer.input_size = values["weight_ih_l0"].shape[1]
    for _, suffix in layer._directions():
        for name in layer._names():
            setattr(layer, name + suffix, Parameter(values[name + suffix]))
    parent, leaf = add_layer(root, parts[0].path or kind.__name__.lower(), layer)
    steps = {}
    for part, own_suffixes in _with_suffixes(parts):
        step, attributes = part.step, {"parent": parent, "name": leaf, "suffixes": own_suffixes}
        attributes["layout"] = step.attributes.get("layout", 0)
        inputs = (step.inputs[0], *step.inputs[5:7])
        steps[id(step)] = Step(RECURRENT_LAYER, inputs, step.outputs, attributes, step.label)
    return steps


def _remove_unread(program: Program, candidates: set[int]) -> None:
    """Remove those of the steps whose outputs nothing reads."""
    read = set(program.outputs)
    steps = []
    for step in reversed(program.steps):
        if id(step) not in candidates or read.intersection(step.outputs):
            steps.append(step)
            read |= {*step.inputs, *step.captured}
    program.steps = steps[::-1]
