"""PyTorch's module paths of its layers, such as `nn.modules.linear.Linear`: aliases of the files of `nn`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from . import utils  # a file that exists only here

_nn = sys.modules[__name__.rpartition(".")[0]]  # complete except for this package, which it imports last
_RENAMED = {
    "flatten": "linear",
    "conv": "convolution",
    "batchnorm": "normalization",
    "instancenorm": "normalization",
    "rnn": "recurrent",
    "sparse": "embedding",
    "pixelshuffle": "vision",
    "upsampling": "vision",
    "fold": "vision",
    "channelshuffle": "vision",
}  # PyTorch's files that have another name in numod

_files = {
    name: file
    for name, file in vars(_nn).items()
    if isinstance(file, ModuleType) and not getattr(file, "__path__", None)
}
_files |= {name: _files[numod_name] for name, numod_name in _RENAMED.items()}
for _name, _file in _files.items():
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _file
for _name, _base, _numod_name in (  # base classes used in `isinstance` checks, by PyTorch's name and the name here
    ("conv", "_ConvNd", "_Convolution"), ("conv", "_ConvTransposeNd", "_ConvTranspose"),
    ("batchnorm", "_NormBase", "_Norm"),
    ("dropout", "_DropoutNd", "_Dropout"),
    ("pooling", "_MaxPoolNd", "_MaxPool"), ("pooling", "_AvgPoolNd", "_AvgPool"),
    ("pooling", "_AdaptiveAvgPoolNd", "_AdaptiveAvgPool"),
    ("transformer", "_get_clones", "_copies"), ("transformer", "_get_activation_fn", "_activation_of"),
    ("pooling", "_AdaptiveMaxPoolNd", "_AdaptiveMaxPool"), ("padding", "_ConstantPadNd", "_ConstantPad"),
):  # fmt: skip
    setattr(_files[_name], _base, getattr(_files[_name], _numod_name))


for _name, _file, _layer in (  # layers that are in another file here
    ("activation", "attention", "MultiheadAttention"), ("linear", "attention", "NonDynamicallyQuantizableLinear"),
    ("loss", "linear_cross_entropy", "LinearCrossEntropyLoss"),
):  # fmt: skip
    setattr(_files[_name], _layer, getattr(_files[_file], _layer))
_files["module"]._addindent = utils._addindent
_files["transformer"]._generate_square_subsequent_mask = _nn.Transformer.generate_square_subsequent_mask


def __getattr__(name: str) -> Any:
    """The layers themselves, as in `nn.modules.Linear`."""
    return getattr(_nn, name)
