"""LSTM whose gates are linear layers, functions and FloatFunctionals, step by step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from ....errors import warn_caller
from .... import dtypes, nn
from ....core import Tensor, cat, zeros
from ....core.quantized import quantize_per_tensor
from ....nn.module import Module
from ..quantized.functional_modules import FloatFunctional

_GATES = "input", "forget", "cell", "output"


class LSTMCell(Module):
    """A step of an LSTM. With `split_gates` each gate has its own linear layers, and so its own scales."""

    _FLOAT_MODULE: type = nn.LSTMCell

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int,
        bias: bool = True,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
        *,
        split_gates: bool = False,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias, self.split_gates = input_dim, hidden_dim, bias, split_gates
        options = {"bias": bias, "device": device, "dtype": dtype}
        if split_gates:
            self.igates = nn.ModuleDict({gate: nn.Linear(input_dim, hidden_dim, **options) for gate in _GATES})
            self.hgates = nn.ModuleDict({gate: nn.Linear(hidden_dim, hidden_dim, **options) for gate in _GATES})
            self.gates: Module = nn.ModuleDict({gate: FloatFunctional() for gate in _GATES})
        else:
            self.igates = nn.Linear(input_dim, 4 * hidden_dim, **options)
            self.hgates = nn.Linear(hidden_dim, 4 * hidden_dim, **options)
            self.gates = FloatFunctional()
        self.input_gate, self.forget_gate = nn.Sigmoid(), nn.Sigmoid()
        self.cell_gate, self.output_gate = nn.Tanh(), nn.Sigmoid()
        self.fgate_cx, self.igate_cgate = FloatFunctional(), FloatFunctional()
        self.fgate_cx_igate_cgate, self.ogate_cy = FloatFunctional(), FloatFunctional()
        self.initial_hidden_state_qparams: tuple[float, int] = (1.0, 0)
        self.initial_cell_state_qparams: tuple[float, int] = (1.0, 0)
        self.hidden_state_dtype = self.cell_state_dtype = dtypes.quint8

    def forward(self, x: Tensor, hidden: tuple | None = None) -> tuple[Tensor, Tensor]:
        if hidden is None or hidden[0] is None or hidden[1] is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        hx, cx = hidden
        if self.split_gates:
            sums = [self.gates[gate].add(self.igates[gate](x), self.hgates[gate](hx)) for gate in _GATES]
        else:
            sums = self.gates.add(self.igates(x), self.hgates(hx)).chunk(4, 1)
        functions = self.input_gate, self.forget_gate, self.cell_gate, self.output_gate
        input_gate, forget_gate, cell_gate, output_gate = (function(part) for function, part in zip(functions, sums))
        retained = self.fgate_cx.mul(forget_gate, cx)
        cy = self.fgate_cx_igate_cgate.add(retained, self.igate_cgate.mul(input_gate, cell_gate))
        return self.ogate_cy.mul(output_gate, cy.tanh()), cy

    def initialize_hidden(self, batch_size: int, is_quantized: bool = False) -> tuple[Tensor, Tensor]:
        """States of zeros."""
        state = zeros(batch_size, self.hidden_size)
        if not is_quantized:
            return state, state
        hidden = quantize_per_tensor(state, *self.initial_hidden_state_qparams, self.hidden_state_dtype)
        return hidden, quantize_per_tensor(state, *self.initial_cell_state_qparams, self.cell_state_dtype)

    def _get_name(self) -> str:
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(
        cls, wi: Tensor, wh: Tensor, bi: Tensor | None = None, bh: Tensor | None = None, split_gates: bool = False
    ) -> LSTMCell:
        """The cell of weights (4 * hidden, in), (4 * hidden, hidden) and biases."""
        if (bi is None) != (bh is None):
            raise AssertionError("from_params: expected both biases or none")
        cell = cls(wi.shape[1], wh.shape[1], bias=bi is not None, split_gates=split_gates)
        for weight, bias, layers in ((wi, bi, cell.igates), (wh, bh, cell.hgates)):
            parts = layers.values() if split_gates else [layers]
            weights = weight.chunk(4) if split_gates else [weight]
            biases = [None] * 4 if bias is None else bias.chunk(4) if split_gates else [bias]
            for layer, layer_weight, layer_bias in zip(parts, weights, biases):
                layer.weight = nn.Parameter(layer_weight.detach().clone())
                if layer_bias is not None:
                    layer.bias = nn.Parameter(layer_bias.detach().clone())
        return cell

    @classmethod
    def from_float(cls, other: Module, use_precomputed_fake_quant: bool = False, split_gates: bool = False) -> LSTMCell:
        """The cell of an `nn.LSTMCell` with a `qconfig`."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"from_float: expected {cls._FLOAT_MODULE.__name__}, got {type(other).__name__}")
        result = cls.from_params(other.weight_ih, other.weight_hh, other.bias_ih, other.bias_hh, split_gates)
        _check_qconfig(other)
        for module in (result, *result.igates.modules(), *result.hgates.modules()):
            module.qconfig = other.qconfig
        return result


def _check_qconfig(module: Module) -> None:
    if getattr(module, "qconfig", None) is None:
        raise AssertionError("The float module must have 'qconfig'")


def _stacked(tensors: Iterable[Tensor]) -> Tensor:
    """The tensors along a new first dimension, with the scale of the first one."""
    return cat([tensor.unsqueeze(0) for tensor in tensors])


class _LSTMSingleLayer(Module):
    """All steps in one direction."""

    def __init__(self, cell: LSTMCell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, hidden: tuple | None = None) -> tuple[Tensor, tuple]:
        results = []
        for step in range(x.shape[0]):
            hidden = self.cell(x[step], hidden)
            results.append(hidden[0])
        return _stacked(results), hidden


class _LSTMLayer(Module):
    """A layer in one direction or both."""

    def __init__(self, forward_cell: LSTMCell, backward_cell: LSTMCell | None) -> None:
        super().__init__()
        self.batch_first, self.bidirectional = False, backward_cell is not None
        self.layer_fw = _LSTMSingleLayer(forward_cell)
        if backward_cell is not None:
            self.layer_bw = _LSTMSingleLayer(backward_cell)

    def forward(self, x: Tensor, hidden: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple]:
        """`hidden`: the two states, (directions, batch, size)."""
        h, c = hidden
        result, last = self.layer_fw(x, (h[0], c[0]))
        if not self.bidirectional:
            return result, (last[0].unsqueeze(0), last[1].unsqueeze(0))
        reverse, last_reverse = self.layer_bw(x.flip(0), (h[1], c[1]))
        result = cat([result, reverse.flip(0)], result.dim() - 1)
        return result, tuple([_stacked(states) for states in zip(last, last_reverse)])


class LSTM(Module):
    """An LSTM with the arguments and results of `nn.LSTM`, whose parts are quantized each. Dropout is ignored.

    Example:

        >>> layer = torch.ao.nn.quantizable.LSTM(4, 8, num_layers=2)
        >>> output, (h, c) = layer(torch.randn(5, 3, 4))
        >>> output.shape, h.shape
        (numod.Size([5, 3, 8]), numod.Size([2, 3, 8]))
    """

    _FLOAT_MODULE: type = nn.LSTM

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
        dtype: dtypes.dtype | None = None,
        *,
        split_gates: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, "
                f"got {dropout!r}"
            )
        if dropout > 0:
            warn_caller(
                "dropout option for quantizable LSTM is ignored. If you are training, please, use nn.LSTM version "
                "followed by `prepare` step."
            )
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        directions = 1 + bidirectional

        def cell(size: int) -> LSTMCell:
            return LSTMCell(size, hidden_size, bias, device, dtype, split_gates=split_gates)

        sizes = [input_size, *[hidden_size * directions] * (num_layers - 1)]
        self.layers = nn.ModuleList(_LSTMLayer(cell(size), cell(size) if bidirectional else None) for size in sizes)
        self.training = False  # as in PyTorch: training is chosen explicitly

    def forward(self, x: Tensor, hidden: tuple | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if self.batch_first:
            x = x.transpose(0, 1)
        h, c = self._states(x) if hidden is None else hidden
        shape = self.num_layers, 1 + self.bidirectional, x.shape[1], self.hidden_size
        h, c = h.reshape(shape), c.reshape(shape)
        lasts = []
        for number, layer in enumerate(self.layers):
            x, last = layer(x, (h[number], c[number]))
            lasts.append(last)
        h, c = (_stacked(states).reshape(-1, *shape[2:]) for states in zip(*lasts))
        return x.transpose(0, 1) if self.batch_first else x, (h, c)

    def _states(self, x: Tensor) -> tuple[Tensor, Tensor]:
        count = self.num_layers * (1 + self.bidirectional)
        state = zeros(count, x.shape[1], self.hidden_size, device=x.device)
        state = quantize_per_tensor(state, 1.0, 0, x.dtype) if x.is_quantized else state
        return state, state

    def _get_name(self) -> str:
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other: Module, qconfig: Any = None, split_gates: bool = False) -> LSTM:
        """The prepared layer of an `nn.LSTM` with a `qconfig`."""
        if not isinstance(other, cls._FLOAT_MODULE):
            raise AssertionError(f"from_float: expected {cls._FLOAT_MODULE.__name__}, got {type(other).__name__}")
        if qconfig is None:
            _check_qconfig(other)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the float layer's dropout
            result = cls(
                other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first, other.dropout,
                other.bidirectional, split_gates=split_gates,
            )  # fmt: skip
        result.qconfig = getattr(other, "qconfig", None) or qconfig
        for number, layer in enumerate(result.layers):
            layer.layer_fw.cell = _cell_of(other, f"l{number}", split_gates)
            if other.bidirectional:
                layer.layer_bw.cell = _cell_of(other, f"l{number}_reverse", split_gates)
        return prepared(result, other.training)

    @classmethod
    def from_observed(cls, other: Module) -> Module:
        """Raises NotImplementedError: `nn.quantized.LSTM` has it."""
        raise NotImplementedError(
            "It looks like you are trying to convert a non-quantizable LSTM module: from_float makes this layer of an "
            "nn.LSTM, nn.quantized.LSTM.from_observed the quantized one of this layer"
        )


def _cell_of(layer: Module, suffix: str, split_gates: bool) -> LSTMCell:
    weights = [getattr(layer, f"weight_{part}_{suffix}") for part in ("ih", "hh")]
    biases = [getattr(layer, f"bias_{part}_{suffix}") if layer.bias else None for part in ("ih", "hh")]
    return LSTMCell.from_params(*weights, *biases, split_gates=split_gates)


def prepared(layer: Module, training: bool) -> Module:
    """A layer with observers in its parts, in training or evaluation mode."""
    from ...quantization.quantize import prepare, prepare_qat

    layer.train(training)
    return prepare_qat(layer, inplace=True) if training else prepare(layer, inplace=True)
