"""Recurrent cells: one step of an RNN, LSTM or GRU. The layers over whole sequences are in `recurrent`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core import Tensor, empty, functions as f, zeros
from ..ops.sequence import rnn_cell
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter
from .settings import unusual

State = tuple[Tensor, ...]  # a cell's state: (h,), or (h, c) of an LSTM


def step_cell(
    mode: str, gates: Tensor, state: State, weight: Tensor, bias: Tensor | None, linear: Callable = F.linear
) -> State:
    """The next state, from the input's part of the gates (N, gates), the state, its weight (gates, H) and its bias."""
    inner = linear(state[0], weight, bias)
    # under autocast products have a narrower dtype than states
    if inner.dtype is not state[0].dtype or gates.dtype is not inner.dtype:
        gates, inner = gates.to(state[0].dtype), inner.to(state[0].dtype)
    if mode == "LSTM":
        return rnn_cell.lstm_cell.apply((gates + inner, f.contiguous(state[1])))
    if mode == "GRU":
        return (rnn_cell.gru_cell.apply((f.contiguous(gates), inner, f.contiguous(state[0]))),)
    return ((gates + inner).relu() if mode == "RNN_RELU" else (gates + inner).tanh(),)


class RNNCellBase(Module):
    """One step of a recurrent layer, with parameters `weight_ih` (gates, in), `weight_hh` (gates, H) and biases."""

    mode = ""
    _linear = staticmethod(F.linear)

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        shapes = {
            "weight_ih": (rows, input_size),
            "weight_hh": (rows, hidden_size),
            "bias_ih": (rows,),
            "bias_hh": (rows,),
        }
        for name, shape in shapes.items():
            self.register_parameter(
                name, Parameter(empty(shape, device=device, dtype=dtype)) if bias or "weight" in name else None
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values, uniform in ±1/√hidden_size."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + unusual(self, bias=True, nonlinearity="tanh")

    def _advance(self, input: Tensor, states: State | None, count: int) -> State:
        if input.ndim not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        for state in states or ():
            if state.ndim not in (1, 2):
                raise ValueError(f"{self._get_name()}: Expected hidden to be 1D or 2D, got {state.ndim}D instead")
        x = input if input.ndim == 2 else input.unsqueeze(0)
        if x.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}")
        if states is None:
            states = (self._zeros(x.shape[0], self.hidden_size, x),) * count
        else:
            states = tuple(state if state.ndim == 2 else state.unsqueeze(0) for state in states)
            self._check_states(states, x.shape[0])
        gates = self._linear(x, self.weight_ih, self.bias_ih)
        result = step_cell(self.mode, gates, states, self.weight_hh, self.bias_hh, self._linear)
        return result if input.ndim == 2 else tuple(component.squeeze(0) for component in result)

    def _zeros(self, batch: int, size: int, x: Tensor) -> Tensor:
        """A first state (N, size) for inputs like x."""
        return zeros((batch, size), dtype=x.dtype, device=x.device)

    def _check_states(self, states: State, batch: int) -> None:
        for k, state in enumerate(states):
            if state.shape[0] != batch:
                raise RuntimeError(f"Input batch size {batch} doesn't match hidden{k} batch size {state.shape[0]}")
            if state.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{k} has inconsistent hidden_size: got {state.shape[1]}, expected {self.hidden_size}"
                )


class RNNCell(RNNCellBase):
    """One step of an RNN.

    Example:

        >>> nn.RNNCell(4, 6)(torch.ones(3, 4)).shape
        numod.Size([3, 6])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    @property
    def mode(self) -> str:
        """The kind of cell."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return f"RNN_{self.nonlinearity.upper()}"

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._advance(input, None if hx is None else (hx,), 1)[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM, with states (h, c).

    Example:

        >>> h, c = nn.LSTMCell(4, 6)(torch.ones(3, 4))
        >>> h.shape, c.shape
        (numod.Size([3, 6]), numod.Size([3, 6]))
    """

    mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._advance(input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of a GRU.

    Example:

        >>> nn.GRUCell(4, 6)(torch.ones(3, 4)).shape
        numod.Size([3, 6])
    """

    mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._advance(input, None if hx is None else (hx,), 1)[0]
