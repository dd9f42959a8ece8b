"""PyTorch's module paths of its layers, such as `nn.modules.linear.Linear`: aliases of the files of `nn`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ...device.layout import Size
from .. import common_types, hooks
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
    ("pooling", "_LPPoolNd", "_LPPool"), ("pooling", "_MaxUnpoolNd", "_MaxUnpool"),
    ("conv", "_ConvTransposeMixin", "_ConvTranspose"), ("conv", "_LazyConvXdMixin", "_LazyConvolution"),
):  # fmt: skip
    setattr(_files[_name], _base, getattr(_files[_name], _numod_name))


for _name, _file, _layer in (  # layers that are in another file here
    ("activation", "attention", "MultiheadAttention"),
    *((name, "attention", "NonDynamicallyQuantizableLinear") for name in ("linear", "activation")),
    ("loss", "linear_cross_entropy", "LinearCrossEntropyLoss"),
):  # fmt: skip
    setattr(_files[_name], _layer, getattr(_files[_file], _layer))
for _name, _source, _names in (  # helpers that copies of PyTorch's files import from them
    ("module", utils, "_addindent"), ("container", utils, "_addindent"),
    ("conv", utils, "_single _pair _triple _reverse_repeat_tuple _list_with_default"),
    ("pooling", utils, "_single _pair _triple"), ("padding", utils, "_pair _quadruple _ntuple"),
    ("fold", utils, "_pair"),
    *(
        (name, common_types, " ".join(names for names in vars(common_types) if names.endswith("_t")))
        for name in ("conv", "pooling", "padding", "upsampling")
    ),
    ("module", common_types, "T"),
):  # fmt: skip
    for _helper in _names.split():
        setattr(_files[_name], _helper, getattr(_source, _helper))
_files["normalization"]._shape_t = int | list[int] | Size
for _name in ("forward", "forward_pre", "backward", "backward_pre"):
    setattr(_files["module"], f"_global_{_name}_hooks", getattr(hooks, _name))
_files["transformer"]._generate_square_subsequent_mask = _nn.Transformer.generate_square_subsequent_mask


def __getattr__(name: str) -> Any:
    """The layers themselves, as in `nn.modules.Linear`."""
    return getattr(_nn, name)
