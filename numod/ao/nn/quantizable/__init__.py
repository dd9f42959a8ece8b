"""Layers written as calls that observers can see: what `prepare` makes of LSTM and MultiheadAttention.

`lstm` has LSTMCell and LSTM, `attention` MultiheadAttention. `convert` replaces them by those of `nn.quantized`.
"""

from .attention import MultiheadAttention
from .lstm import LSTM, LSTMCell

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention"]
