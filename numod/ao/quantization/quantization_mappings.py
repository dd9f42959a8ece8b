"""Which layer replaces which, when a model is prepared for training and when it is converted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import nn
from ...nn.attention import NonDynamicallyQuantizableLinear
from ...nn.module import Module
from ...nn.utils.parametrize import type_before_parametrizations as kind_of
from ..nn import intrinsic as nni
from ..nn import qat as nnqat
from ..nn import quantizable
from ..nn import quantized as nnq
from ..nn.intrinsic import qat as nniqat
from ..nn.intrinsic import quantized as nniq
from ..nn.quantized import dynamic as nnqd, operators
from .fake_quantize import (
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
)
from .stubs import DeQuantStub, QuantStub

_SAME_NAME = """BatchNorm2d BatchNorm3d Dropout Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d ELU
    Embedding EmbeddingBag GroupNorm Hardswish InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm LeakyReLU Linear
    ReLU6 PReLU""".split()
DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: dict[type, type] = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **{getattr(nn, name): getattr(nnq, name) for name in _SAME_NAME},
    NonDynamicallyQuantizableLinear: nnq.Linear,
    nnq.FloatFunctional: nnq.QFunctional,
    **{getattr(nni, name): getattr(nniq, name) for name in nniq.__all__},
    **{getattr(nniqat, f"ConvBn{n}d"): getattr(nnq, f"Conv{n}d") for n in (1, 2, 3)},
    **{getattr(nniqat, f"ConvBnReLU{n}d"): getattr(nniq, f"ConvReLU{n}d") for n in (1, 2, 3)},
    **{getattr(nniqat, f"ConvReLU{n}d"): getattr(nniq, f"ConvReLU{n}d") for n in (1, 2, 3)},
    nniqat.LinearReLU: nniq.LinearReLU,
    nniqat.LinearBn1d: nnq.Linear,
    **{getattr(nnqat, name): getattr(nnq, name) for name in ("Linear", "Conv1d", "Conv2d", "Conv3d")},
}
DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS: dict[type, type] = {
    QuantStub: nnq.Quantize,
    DeQuantStub: nnq.DeQuantize,
    **{getattr(nn, name): getattr(nnq.reference, name) for name in nnq.reference.__all__ if hasattr(nn, name)},
}
DEFAULT_QAT_MODULE_MAPPINGS: dict[type, type] = {
    **{getattr(nn, name): getattr(nnqat, name) for name in ("Conv2d", "Conv3d", "Linear")},
    **{getattr(nni, name): getattr(nniqat, name) for name in nniqat.__all__ if hasattr(nni, name)},
}
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict[type, type] = {
    **{getattr(nn, name): getattr(nnqd, name) for name in nnqd.__all__ if not name.startswith("Conv")},
    NonDynamicallyQuantizableLinear: nnqd.Linear,
    nnqat.Linear: nnqd.Linear,
    nnqat.dynamic.Linear: nnqd.Linear,
    nni.LinearReLU: nnqd.LinearReLU,
    nn.EmbeddingBag: nnq.EmbeddingBag,
    nn.Embedding: nnq.Embedding,
}
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS: dict[Callable, Callable] = {
    getattr(nn.functional, name): getattr(operators, name)
    for name in ("elu", "hardswish", "instance_norm", "layer_norm", "leaky_relu", "dropout")
}
DEFAULT_MODULE_TO_ACT_POST_PROCESS: dict[type, Any] = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant,
    nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}


def get_default_static_quant_module_mappings() -> dict[type, type]:
    """Layers of `convert` after calibration."""
    return dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_static_quant_reference_module_mappings() -> dict[type, type]:
    """Layers of `convert(is_reference=True)`."""
    return dict(DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> dict[type, type]:
    """Layers of `prepare_qat`."""
    return dict(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings() -> dict[type, type]:
    """Layers of `quantize_dynamic`."""
    return dict(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def get_embedding_qat_module_mappings() -> dict[type, type]:
    """Layers of `prepare_qat`, with embeddings."""
    return {**DEFAULT_QAT_MODULE_MAPPINGS, nn.EmbeddingBag: nnqat.EmbeddingBag, nn.Embedding: nnqat.Embedding}


def get_embedding_static_quant_module_mappings() -> dict[type, type]:
    """Layers of `convert` after training with embeddings."""
    trained = {nnqat.EmbeddingBag: nnq.EmbeddingBag, nnqat.Embedding: nnq.Embedding}
    return {**DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, **trained}


def _class_of(kind: type, mapping: dict[type, type], additional: dict | None) -> type:
    layer = {**mapping, **(additional or {})}.get(kind)
    if layer is None:
        raise AssertionError(f"Floating point module class {kind} does not have a corresponding quantized module class")
    return layer


def get_static_quant_module_class(
    float_module_class: type, additional_static_quant_mapping: dict | None = None, is_reference: bool = False
) -> type:
    """The layer that replaces one of this class in `convert`."""
    mapping = DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS if is_reference else DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    return _class_of(float_module_class, mapping, additional_static_quant_mapping)


def get_dynamic_quant_module_class(
    float_module_class: type, additional_dynamic_quant_mapping: dict | None = None
) -> type:
    """The layer that replaces one of this class in `quantize_dynamic`."""
    return _class_of(float_module_class, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, additional_dynamic_quant_mapping)


def get_default_qconfig_propagation_list() -> set[type]:
    """Layers whose results `prepare` observes."""
    return {
        *DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        *DEFAULT_QAT_MODULE_MAPPINGS,
        *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
        nn.Sequential,
    }


def get_default_compare_output_module_list() -> set[type]:
    """Layers whose results the numeric suite compares: those that are quantized, and what they become."""
    mappings = DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
    return get_default_qconfig_propagation_list().union(*(mapping.values() for mapping in mappings))


def get_default_float_to_quantized_operator_mappings() -> dict[Callable, Callable]:
    """Functions of floats, and the operators of quantized tensors for them."""
    return dict(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op: Callable | str) -> Callable:
    """The operator of quantized tensors for a function of floats."""
    operator = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if operator is None:
        raise AssertionError(f"Operator {float_op} does not have corresponding quantized op")
    return operator


def no_observer_set() -> tuple[type, ...]:
    """Layers whose parts are observed, and they themselves are not."""
    return (
        quantizable.LSTM,
        quantizable.MultiheadAttention,
        nn.LSTM,
        nn.MultiheadAttention,
        nnqat.Embedding,
        nnqat.EmbeddingBag,
    )


def is_observed_specially(module: Module) -> bool:
    """Whether a layer's result has a fixed scale in training."""
    return kind_of(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS and module.training
