"""Graph mode: `prepare_fx` and `convert_fx` find the layers to fuse and the functions to quantize by themselves.

PyTorch traces a model symbolically for that; here the model is run once with the example inputs (`calls`), and keeps
its own code. `graph_prepare` and `graph_convert` do the work.
"""

from __future__ import annotations

from typing import Any

from ...nn.module import Module
from .calls import watch_all
from .custom_config import ConvertCustomConfig, FuseCustomConfig, PrepareCustomConfig
from .graph_convert import convert_graph
from .graph_equalize import add_equalization
from .graph_module import GraphModule, as_graph_module
from .graph_prepare import backend_of, fused_graph, guessed_inputs, prepare_graph
from .measure import Measurement
from .qconfig_mapping import QConfigMapping

__all__ = ["convert_fx", "convert_to_reference_fx", "fuse_fx", "prepare_fx", "prepare_qat_fx"]


def prepare_fx(
    model: Module,
    qconfig_mapping: QConfigMapping | dict,
    example_inputs: tuple,
    prepare_custom_config: PrepareCustomConfig | dict | None = None,
    _equalization_config: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """A copy of a model in evaluation mode, fused, with observers of what is to be quantized.

    The model is run once with `example_inputs`. Then call the result with typical inputs, and `convert_fx` it. Layers
    and functions are quantized as `qconfig_mapping` says, and only those that `backend_config` has, where one is
    passed. A model must make the same calls at each run. `_equalization_config` is a mapping (or PyTorch's older dict)
    of EqualizationQConfigs, for the layers whose weights and inputs are to be equalized.
    """
    result = prepare_graph(model, qconfig_mapping, example_inputs, False, prepare_custom_config, backend_config)
    if _equalization_config:
        is_mapping = isinstance(_equalization_config, QConfigMapping)
        add_equalization(result, _equalization_config if is_mapping else QConfigMapping.from_dict(_equalization_config))
    return result


def prepare_qat_fx(
    model: Module,
    qconfig_mapping: QConfigMapping | dict,
    example_inputs: tuple,
    prepare_custom_config: PrepareCustomConfig | dict | None = None,
    backend_config: Any = None,
) -> GraphModule:
    """A copy of a model in training mode whose weights and activations are rounded as quantization will.

    Train it, then `convert_fx` it.
    """
    return prepare_graph(model, qconfig_mapping, example_inputs, True, prepare_custom_config, backend_config)


def fuse_fx(
    model: Module,
    fuse_custom_config: FuseCustomConfig | dict | None = None,
    backend_config: Any = None,
    example_inputs: tuple | None = None,
) -> GraphModule:
    """A copy of a model in evaluation mode with convolutions, linear layers, batch norms and ReLUs fused.

    The model is run once: with `example_inputs`, or with zeros of a shape that its first layer takes.
    """
    backend = backend_of(backend_config)
    FuseCustomConfig.of(fuse_custom_config)
    config = PrepareCustomConfig()
    for inputs in guessed_inputs(model) if example_inputs is None else [example_inputs]:
        try:
            model, graph = fused_graph(model, inputs, False, config, backend)
            break
        except (RuntimeError, ValueError):
            if example_inputs is not None:
                raise
    else:
        raise RuntimeError(
            "fuse_fx: the model could not be run with zeros; pass an input, fuse_fx(model, example_inputs=(x,))"
        )
    watch_all(model, config.is_opaque)
    return as_graph_module(model, graph)


def convert_fx(
    graph_module: GraphModule,
    convert_custom_config: ConvertCustomConfig | dict | None = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
    keep_original_weights: bool = False,
    measure: bool | dict[str, str] = False,
) -> GraphModule:
    """A copy of a calibrated or trained model with integers in place of floats.

    `measure` is that of `convert`: with True, linear layers and convolutions that are not faster as integers stay
    floats. The decisions are in `quantization_decisions`; passed as `measure`, they are repeated without timing.
    """
    measurement = None if measure is False else Measurement(measure, graph_module)
    arguments = graph_module, qconfig_mapping, backend_config, measurement, False, _remove_qconfig
    return convert_graph("convert_fx", *arguments)


def convert_to_reference_fx(
    graph_module: GraphModule,
    convert_custom_config: ConvertCustomConfig | dict | None = None,
    _remove_qconfig: bool = True,
    qconfig_mapping: Any = None,
    backend_config: Any = None,
) -> GraphModule:
    """A copy of a calibrated or trained model that computes in floats what a converted one computes with integers.

    Its layers are those of `nn.quantized.reference`; each activation is rounded to integers and back.
    """
    arguments = graph_module, qconfig_mapping, backend_config, None, True, _remove_qconfig
    return convert_graph("convert_to_reference_fx", *arguments)
