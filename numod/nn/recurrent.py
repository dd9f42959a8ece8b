"""Recurrent layers: RNN, LSTM and GRU; multilayer, bidirectional, over padded and packed sequences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ..autograd import is_grad_enabled
from ..core import Tensor, cat, empty, full, functions as f, tensor, zeros
from ..core.apply import state as modes
from ..dtypes import int64
from ..ops.sequence import rnn_layer
from ..errors import plain, warn_caller
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter
from .recurrent_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase, State, step_cell
from .settings import unusual
from .utils.rnn import PackedSequence, Unpacked, numbers

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_LAYERS = {
    "LSTM": rnn_layer.lstm_layer,
    "GRU": rnn_layer.gru_layer,
    "RNN_TANH": rnn_layer.rnn_layer,
    "RNN_RELU": rnn_layer.rnn_relu_layer,
}
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """A multilayer recurrent network.

    Each layer and direction has the parameters `weight_ih_l0` (gates, in), `weight_hh_l0` (gates, H), `bias_ih_l0` and
    `bias_hh_l0` (gates), and with projections `weight_hr_l0`. The input is (T, N, in), or (N, T, in) if `batch_first`,
    or (T, in), or a PackedSequence. Initial states are (layers * directions, N, H), zeros by default.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        input_size, hidden_size = plain(input_size), plain(hidden_size)
        if mode not in _GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warn_caller(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
                f"expects num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}"
            )
        for name, value, kind in (
            ("bias", bias, bool),
            ("batch_first", batch_first, bool),
            ("input_size", input_size, int),
            ("hidden_size", hidden_size, int),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
            if kind is int and value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        self._make(device, dtype)
        self.reset_parameters()

    def _make(self, device: Any, dtype: Any) -> None:
        rows, out = _GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        for layer, suffix in self._directions():
            inner = self.input_size if layer == 0 else out * (2 if self.bidirectional else 1)
            shapes = {"weight_ih": (rows, inner), "weight_hh": (rows, out)}
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if self.bias else {}
            shapes |= {"weight_hr": (self.proj_size, self.hidden_size)} if self.proj_size else {}
            for name, shape in shapes.items():
                setattr(self, name + suffix, Parameter(empty(shape, device=device, dtype=dtype)))

    def _directions(self) -> Iterator[tuple[int, str]]:
        """(layer, suffix of the parameters' names) of each layer and direction, in order."""
        for layer in range(self.num_layers):
            for direction in ("", "_reverse") if self.bidirectional else ("",):
                yield layer, f"_l{layer}{direction}"

    def reset_parameters(self) -> None:
        """Draw new values, uniform in ±1/√hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing, since the kernels need no contiguous block of parameters."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name + suffix) for name in self._names()] for _, suffix in self._directions()]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [parameter for part in self.all_weights for parameter in part]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for part in self._all_weights for name in part]

    @property
    def _all_weights(self) -> list[list[str]]:
        return [[name + suffix for name in self._names()] for _, suffix in self._directions()]

    def _names(self) -> tuple[str, ...]:
        return (
            "weight_ih",
            "weight_hh",
            *(("bias_ih", "bias_hh") if self.bias else ()),
            *(("weight_hr",) if self.proj_size else ()),
        )

    def extra_repr(self) -> str:
        settings = unusual(
            self, proj_size=0, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False
        )
        return f"{self.input_size}, {self.hidden_size}{settings}"

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> tuple[Any, Any]:
        if isinstance(input, Unpacked) and not self._takes(input):
            input = input.exactly()
        self._check_dtype(
            input.rows if isinstance(input, Unpacked) else input.data if isinstance(input, PackedSequence) else input
        )
        if isinstance(input, Unpacked):
            return self._unpacked(input, hx)
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        if (ndim := input.ndim) not in (2, 3):
            raise ValueError(f"{self._get_name()}: Expected input to be 2D or 3D, got {ndim}D instead")
        batched = ndim == 3
        x = input.unsqueeze(1) if not batched else input.transpose(0, 1) if self.batch_first else input
        steps, batch, size = x.shape
        if size != self.input_size:
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {size}")
        if not steps:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        states = self._initial(hx, batch, x, batched)
        result, last = self._layers(f.reshape(x, (steps * batch, size)), [batch] * steps, states)
        result = f.reshape(result, (steps, batch, result.shape[-1]))
        result = result.squeeze(1) if not batched else result.transpose(0, 1) if self.batch_first else result
        return result, self._last(last if batched else [state.squeeze(1) for state in last])

    def _check_dtype(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{self._get_name()}(): argument 'input' (position 1) must be Tensor, not {type(x).__name__}"
            )
        wanted = self.weight_ih_l0.dtype
        if x.dtype is not wanted and not modes.autocast:
            raise ValueError(
                f"RNN input dtype ({x.dtype}) does not match weight dtype ({wanted}). Convert input: "
                f"input.to({wanted}), or convert model: model.to({x.dtype})"
            )

    def _packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        sizes = numbers(packed.batch_sizes)
        states = self._initial(hx, sizes[0], packed.data, True)
        if packed.sorted_indices is not None and hx is not None:
            states = [state.index_select(1, packed.sorted_indices) for state in states]
        data, last = self._layers(packed.data, sizes, states)
        if packed.unsorted_indices is not None:
            last = [last_state.index_select(1, packed.unsorted_indices) for last_state in last]
        return PackedSequence(data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices), self._last(
            last
        )

    def _takes(self, sequence: Unpacked) -> bool:
        """Whether kernels run all layers, and dropout draws no numbers for rows that do not exist."""
        draws = self.dropout and self.training and self.num_layers > 1
        return not (self.proj_size or draws or modes.autocast) and rnn_layer.runs(sequence.rows, *self._flat_weights)

    def _unpacked(self, sequence: Unpacked, hx: Any) -> tuple[PackedSequence, Any]:
        """As `_packed`, in a program for all lengths."""
        states = self._initial(hx, sequence.batch, sequence.rows, True)
        if sequence.order is not None and hx is not None:
            states = [state.index_select(1, sequence.order) for state in states]
        rows, last = self._layers(sequence.rows, sequence, states)
        if sequence.order is not None:
            last = [last_state.index_select(1, sequence.order.argsort()) for last_state in last]
        return sequence.with_rows(rows), self._last(last)

    def _last(self, states: list[Tensor]) -> Any:
        return tuple(states) if self.mode == "LSTM" else states[0]

    def _initial(self, hx: Any, batch: int, x: Tensor, batched: bool) -> list[Tensor | list[Tensor]]:
        """Checked initial states (layers * directions, N, size).

        The default is zeros, shared by all layers, since states are not written to.
        """
        count = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size, *([self.hidden_size] if self.mode == "LSTM" else [])]
        if hx is None:
            zeros_by_size = {size: [self._zeros(batch, size, x)] * count for size in set(sizes)}
            return [zeros_by_size[size] for size in sizes]
        initial = list(hx) if self.mode == "LSTM" else [hx]
        for name, state, size in zip(("hx", "cx") if self.mode == "LSTM" else ("hidden",), initial, sizes):
            if state.ndim != (3 if batched else 2):
                raise RuntimeError(
                    f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, {name} should also be "
                    f"{3 if batched else 2}-D but got {state.ndim}-D tensor"
                )
            wanted = (count, batch, size) if batched else (count, size)
            if tuple(state.shape) != wanted:
                raise RuntimeError(
                    f"Expected {'hidden[0]' if name == 'hx' else 'hidden[1]' if name == 'cx' else name} size "
                    f"{wanted}, got {list(state.shape)}"
                )
        return initial if batched else [state.unsqueeze(1) for state in initial]

    def _zeros(self, batch: int, size: int, x: Tensor) -> Tensor:
        """A first state (N, size) for inputs like x."""
        return zeros((batch, size), dtype=x.dtype, device=x.device)

    def _layers(
        self, x: Tensor, sizes: list[int] | Unpacked, states: list[Tensor | list[Tensor]]
    ) -> tuple[Tensor, list[Tensor]]:
        """Run all layers over x (total, in), with `sizes` rows per step. Returns (results, last states)."""
        last: list[State] = []
        results: list[Tensor] = []
        for number, (layer, suffix) in enumerate(self._directions()):
            start = tuple(state[number] for state in states)
            outputs, end = self._run(x, sizes, start, suffix, reverse=suffix.endswith("_reverse"))
            results.append(outputs)
            last.append(end)
            if len(results) == (2 if self.bidirectional else 1):
                x = cat(results, 1) if self.bidirectional else results[0]
                if self.dropout and layer < self.num_layers - 1:
                    x = F.dropout(x, self.dropout, self.training)
                results = []
        return x, [f.stack(list(column), 0) for column in zip(*last)]

    def _run(
        self, x: Tensor, sizes: list[int] | Unpacked, start: State, suffix: str, reverse: bool
    ) -> tuple[Tensor, State]:
        """Run one layer in one direction."""
        return run_direction(self.mode, x, sizes, start, self._weights(suffix), reverse)

    def _weights(self, suffix: str) -> dict[str, Tensor]:
        """The parameters of one layer in one direction."""
        return {name: getattr(self, name + suffix) for name in self._names()}

    def _run_part(self, x: Tensor, states: Sequence[Tensor] | None, suffixes: Sequence[str]) -> tuple[Tensor, ...]:
        """Run single directions of one layer, which the suffixes of their parameters name, over x (T, N, in).

        Returns results (T, directions, N, H) and the last states, each (directions, N, H) as `states`.
        """
        self._check_dtype(x)
        steps, batch = x.shape[:2]
        if states is None:
            states = [[self._zeros(batch, self.hidden_size, x)] * len(suffixes)] * (2 if self.mode == "LSTM" else 1)
        rows, sizes = f.reshape(x, (steps * batch, x.shape[-1])), [batch] * steps
        parts = [
            self._run(rows, sizes, tuple([state[k] for state in states]), suffix, reverse=suffix.endswith("_reverse"))
            for k, suffix in enumerate(suffixes)
        ]
        results = [f.reshape(part, (steps, batch, part.shape[-1])) for part, _ in parts]
        return f.stack(results, 1), *[f.stack(list(column), 0) for column in zip(*[last for _, last in parts])]


def run_direction(
    mode: str, x: Tensor, sizes: list[int] | Unpacked, start: State, weights: dict[str, Tensor], reverse: bool
) -> tuple[Tensor, State]:
    """Run one direction of a layer over x (total, in), with `sizes` rows per step. Returns (results, last states).

    `weights` has weight_ih, weight_hh and where the layer has them bias_ih, bias_hh, weight_hr. The input's part of
    all gates is one product; then one kernel runs all steps if it supports the case.
    """
    if "weight_hr" in weights or not rnn_layer.runs(x, *weights.values(), *start):
        return run_by_step(mode, x, sizes, start, weights, reverse)
    if isinstance(sizes, Unpacked):
        counts, counted = sizes.counts, rnn_layer.room(sizes.steps, sizes.batch)
    else:
        counts = (
            full((len(sizes),), sizes[0], dtype=int64, device=x.device)
            if min(sizes) == sizes[0]
            else tensor(sizes, device=x.device)
        )
        counted = tuple(sizes)
    biases, inputs = (weights.get("bias_ih"), weights.get("bias_hh")), [f.contiguous(weights["weight_hh"])]
    if mode == "GRU":
        inputs.append(
            zeros((weights["weight_hh"].shape[0],), dtype=x.dtype, device=x.device)
            if biases[1] is None
            else f.contiguous(biases[1])
        )
    elif biases[0] is not None:
        biases = (biases[0] + biases[1],)
    gates = f.contiguous(F.linear(x, weights["weight_ih"], biases[0]))
    inputs = (gates, *inputs, *map(f.contiguous, start))
    keeps = (is_grad_enabled() and any(input.requires_grad for input in inputs),) if mode in ("LSTM", "GRU") else ()
    outputs = _LAYERS[mode].apply((*inputs, counts), (counted, reverse, *keeps))
    return outputs[0], tuple(_ends(states, sizes, reverse) for states in outputs[: len(start)])


def run_by_step(
    mode: str, x: Tensor, sizes: list[int], start: State, weights: dict[str, Tensor], reverse: bool
) -> tuple[Tensor, State]:
    """As `run_direction`, step by step, for projections and cases without a kernel for all steps.

    Sequences end (or, reversed, start) where `sizes` changes.
    """
    gates = F.linear(x, weights["weight_ih"], weights.get("bias_ih"))
    offsets = (
        [sum(sizes[:k]) for k in range(len(sizes))]
        if len(set(sizes)) > 1
        else [k * sizes[0] for k in range(len(sizes))]
    )
    order = range(len(sizes) - 1, -1, -1) if reverse else range(len(sizes))
    count = sizes[-1] if reverse else sizes[0]
    state = tuple(component[:count] for component in start) if count < start[0].shape[0] else start
    ended = []
    results = {}
    for step in order:
        n = sizes[step]
        if n < count:
            ended.append(tuple(component[n:count] for component in state))
            state = tuple(component[:n] for component in state)
        elif n > count:
            state = tuple(cat([component, first[count:n]], 0) for component, first in zip(state, start))
        count = n
        state = step_cell(
            mode, gates[offsets[step] : offsets[step] + n], state, weights["weight_hh"], weights.get("bias_hh")
        )
        if "weight_hr" in weights:
            state = (F.linear(state[0], weights["weight_hr"]), *state[1:])
        results[step] = state[0]
    if ended:
        state = tuple(cat([component, *(part[k] for part in reversed(ended))], 0) for k, component in enumerate(state))
    return cat([results[step] for step in range(len(sizes))], 0), state


def _ends(states: Tensor, sizes: list[int] | Unpacked, reverse: bool) -> Tensor:
    """The final state of each sequence, from the states of all steps (total, H)."""
    if isinstance(sizes, Unpacked):
        return states[: sizes.batch] if reverse else states.index_select(0, sizes.last_rows())
    if reverse:
        return states[: sizes[0]]
    if sizes[-1] == sizes[0]:
        return states[-sizes[0] :]
    after, ends, at = [*sizes[1:], 0], [], sum(sizes)
    for n, next_size in zip(reversed(sizes), reversed(after)):
        at -= n
        if n > next_size:
            ends.append(states[at + next_size : at + n])
    return ends[0] if len(ends) == 1 else cat(ends, 0)


def _refuse_projection(size: int) -> None:
    if size:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """h = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu. Elman, 1990.

    Example:

        >>> output, h = nn.RNN(4, 6)(torch.ones(5, 3, 4))
        >>> output.shape, h.shape
        (numod.Size([5, 3, 6]), numod.Size([1, 3, 6]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        proj_size: int = 0,
    ) -> None:
        _refuse_projection(proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            0,
            device,
            dtype,
        )


class LSTM(RNNBase):
    """Long short-term memory with states (h, c). `proj_size` projects h.

    Hochreiter and Schmidhuber, 1997; Sak et al., 2014.

    Example:

        >>> output, (h, c) = nn.LSTM(4, 6, num_layers=2)(torch.ones(5, 3, 4))
        >>> output.shape, h.shape, c.shape
        (numod.Size([5, 3, 6]), numod.Size([2, 3, 6]), numod.Size([2, 3, 6]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )


class GRU(RNNBase):
    """Gated recurrent unit, with the reset gate applied after the product. Cho et al., 2014.

    Example:

        >>> output, h = nn.GRU(4, 6, num_layers=2)(torch.ones(5, 3, 4))
        >>> output.shape, h.shape
        (numod.Size([5, 3, 6]), numod.Size([2, 3, 6]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        proj_size: int = 0,
    ) -> None:
        _refuse_projection(proj_size)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
