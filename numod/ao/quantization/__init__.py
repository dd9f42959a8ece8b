"""PyTorch's quantization recipe: observe the ranges of activations, then replace layers by integer ones.

`observer` and `histogram` find ranges, `fake_quantize` rounds in training, `qconfig` says which layer gets which of
them, `stubs` mark where integers begin and end, `fuse_modules` joins layers, and `quantize` has `prepare`, `convert`
and the functions made of both. Graph mode is `quantize_fx`: `calls` records a model, `graph_patterns` says what is
quantized, `graph_prepare` adds observers, `graph_convert` replaces layers, `graph_module` runs the model.
"""

from __future__ import annotations

from ...errors import name_only
from .fake_quantize import (
    FakeQuantize,
    FakeQuantizeBase,
    FixedQParamsFakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    default_affine_fixed_qparams_fake_quant,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_embedding_fake_quant_4bit,
    default_fake_quant,
    default_fixed_qparams_range_0to1_fake_quant,
    default_fixed_qparams_range_neg1to1_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_histogram_fake_quant,
    default_per_channel_weight_fake_quant,
    default_symmetric_fixed_qparams_fake_quant,
    default_weight_fake_quant,
    disable_fake_quant,
    disable_observer,
    enable_fake_quant,
    enable_observer,
    fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    fused_wt_fake_quant_range_neg_127_to_127,
)
from .fuse_modules import (
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_convtranspose_bn,
    fuse_known_modules,
    fuse_linear_bn,
    fuse_modules,
    fuse_modules_qat,
    get_fuser_method,
    get_fuser_method_new,
)
from .observer import (
    FixedQParamsObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    NoopObserver,
    ObserverBase,
    PartialWrapper,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
    RecordingObserver,
    ReuseInputObserver,
    UniformQuantizationObserverBase,
    default_affine_fixed_qparams_observer,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_histogram_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_symmetric_fixed_qparams_observer,
    default_weight_observer,
    get_observer_state_dict,
    load_observer_state_dict,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)
from .histogram import (
    HistogramObserver,
)
from .qconfig import (
    QConfig,
    QConfigAny,
    QConfigDynamic,
    default_activation_only_qconfig,
    default_debug_qconfig,
    default_dynamic_qat_qconfig,
    default_dynamic_qconfig,
    default_embedding_qat_qconfig,
    default_embedding_qat_qconfig_4bit,
    default_per_channel_qconfig,
    default_per_channel_symmetric_qnnpack_qat_qconfig,
    default_per_channel_symmetric_qnnpack_qconfig,
    default_qat_qconfig,
    default_qat_qconfig_v2,
    default_qconfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig,
    default_symmetric_qnnpack_qconfig,
    default_weight_only_qconfig,
    float16_dynamic_qconfig,
    float16_static_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
    get_default_qat_qconfig,
    get_default_qconfig,
    per_channel_dynamic_qconfig,
    qconfig_equals,
)
from .quantization_mappings import (
    DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS,
    DEFAULT_MODULE_TO_ACT_POST_PROCESS,
    DEFAULT_QAT_MODULE_MAPPINGS,
    DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS,
    DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
    get_default_compare_output_module_list,
    get_default_dynamic_quant_module_mappings,
    get_default_float_to_quantized_operator_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
    get_dynamic_quant_module_class,
    get_embedding_qat_module_mappings,
    get_embedding_static_quant_module_mappings,
    get_quantized_operator,
    get_static_quant_module_class,
    no_observer_set,
)
from .quantize import (
    add_quant_dequant,
    convert,
    default_eval_fn,
    get_default_custom_config_dict,
    prepare,
    prepare_qat,
    propagate_qconfig_,
    quantize,
    quantize_dynamic,
    quantize_qat,
    swap_module,
)
from .stubs import (
    DeQuantStub,
    QuantStub,
    QuantWrapper,
)
from .qconfig_mapping import (
    QConfigMapping,
    get_default_qat_qconfig_dict,
    get_default_qat_qconfig_mapping,
    get_default_qconfig_dict,
    get_default_qconfig_mapping,
)
from .quantize_fx import (
    convert_fx,
    convert_to_reference_fx,
    fuse_fx,
    prepare_fx,
    prepare_qat_fx,
)
from .granularity import (
    AffineQuantizedObserverBase,
    Granularity,
    MappingType,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    TorchAODType,
    ZeroPointDomain,
    get_block_size,
)
from .measure import (
    fastest,
)
from .quant_api import (
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    quantize_,
)
from .report import (
    report,
)
from .utils import (
    MatchAllNode,
    Pattern,
    QuantType,
    get_combined_dict,
)

(
    convert_dynamic_jit, convert_jit, fuse_conv_bn_jit, prepare_dynamic_jit, prepare_jit, quantize_dynamic_jit,
    quantize_jit, script_qconfig, script_qconfig_dict,
) = (
    name_only(f"ao.quantization.{_name}", "numod has no TorchScript; use prepare_fx and convert_fx")
    for _name in """convert_dynamic_jit convert_jit fuse_conv_bn_jit prepare_dynamic_jit prepare_jit
        quantize_dynamic_jit quantize_jit script_qconfig script_qconfig_dict""".split()
)  # fmt: skip

ObserverOrFakeQuantize = ObserverBase | FakeQuantizeBase
(
    DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS, DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS,
    get_default_dynamic_sparse_quant_module_mappings, get_default_static_sparse_quant_module_mappings,
) = (
    name_only(
        f"ao.quantization.{_name}",
        'zeros of weights are left out by numod.compile(model, options={"freezing": True, "sparsity": True})',
    )
    for _name in """DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS
        get_default_dynamic_sparse_quant_module_mappings get_default_static_sparse_quant_module_mappings""".split()
)  # fmt: skip

__all__ = [
    "AffineQuantizedObserverBase", "MatchAllNode", "ObserverOrFakeQuantize", "Pattern",
    "DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS",
    "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS", "Granularity", "MappingType", "PerAxis", "PerBlock", "PerGroup",
    "PerRow", "PerTensor", "PerToken", "QConfigAny", "QConfigDynamic", "TorchAODType", "ZeroPointDomain",
    "default_embedding_fake_quant_4bit", "default_embedding_qat_qconfig_4bit", "default_float_qparams_observer_4bit",
    "float_qparams_weight_only_qconfig_4bit", "get_block_size", "get_default_compare_output_module_list",
    "get_default_float_to_quantized_operator_mappings", "get_default_static_quant_reference_module_mappings",
    "get_fuser_method_new", "get_quantized_operator",
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS", "DEFAULT_MODULE_TO_ACT_POST_PROCESS", "DEFAULT_QAT_MODULE_MAPPINGS",
    "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS",
    "QuantType", "get_combined_dict", "get_default_custom_config_dict", "no_observer_set",
    "DeQuantStub", "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FixedQParamsObserver",
    "FusedMovingAvgObsFakeQuantize", "HistogramObserver", "Int4WeightOnlyConfig",
    "Int8DynamicActivationInt4WeightConfig",
    "Int8DynamicActivationInt8WeightConfig", "Int8WeightOnlyConfig", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PartialWrapper",
    "PerChannelMinMaxObserver", "PlaceholderObserver", "QConfig", "QConfigMapping", "QuantStub", "QuantWrapper",
    "RecordingObserver", "ReuseInputObserver", "UniformQuantizationObserverBase", "add_quant_dequant", "convert",
    "convert_fx", "convert_to_reference_fx", "default_activation_only_qconfig",
    "default_affine_fixed_qparams_fake_quant",
    "default_affine_fixed_qparams_observer", "default_debug_observer", "default_debug_qconfig",
    "default_dynamic_fake_quant", "default_dynamic_qat_qconfig", "default_dynamic_qconfig",
    "default_dynamic_quant_observer", "default_embedding_fake_quant", "default_embedding_qat_qconfig",
    "default_eval_fn", "default_fake_quant", "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_0to1_observer", "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_observer", "default_float_qparams_observer", "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant", "default_fused_wt_fake_quant", "default_histogram_fake_quant",
    "default_histogram_observer", "default_observer", "default_per_channel_qconfig",
    "default_per_channel_symmetric_qnnpack_qat_qconfig", "default_per_channel_symmetric_qnnpack_qconfig",
    "default_per_channel_weight_fake_quant", "default_per_channel_weight_observer", "default_placeholder_observer",
    "default_qat_qconfig", "default_qat_qconfig_v2", "default_qconfig", "default_quint8_weight_qconfig",
    "default_reuse_input_observer", "default_reuse_input_qconfig", "default_symmetric_fixed_qparams_fake_quant",
    "default_symmetric_fixed_qparams_observer", "default_symmetric_qnnpack_qat_qconfig",
    "default_symmetric_qnnpack_qconfig", "default_weight_fake_quant", "default_weight_observer",
    "default_weight_only_qconfig", "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer",
    "fastest", "float16_dynamic_qconfig", "float16_static_qconfig", "float_qparams_weight_only_qconfig", "fuse_conv_bn",
    "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_fx", "fuse_known_modules", "fuse_linear_bn", "fuse_modules",
    "fuse_modules_qat", "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
    "fused_wt_fake_quant_range_neg_127_to_127", "get_default_dynamic_quant_module_mappings",
    "get_default_qat_module_mappings", "get_default_qat_qconfig", "get_default_qat_qconfig_dict",
    "get_default_qat_qconfig_mapping", "get_default_qconfig", "get_default_qconfig_dict",
    "get_default_qconfig_mapping", "get_default_qconfig_propagation_list", "get_default_static_quant_module_mappings",
    "get_dynamic_quant_module_class", "get_embedding_qat_module_mappings",
    "get_embedding_static_quant_module_mappings", "get_fuser_method", "get_observer_state_dict",
    "get_static_quant_module_class", "load_observer_state_dict", "per_channel_dynamic_qconfig",
    "per_channel_weight_observer_range_neg_127_to_127", "prepare", "prepare_fx", "prepare_qat", "prepare_qat_fx",
    "propagate_qconfig_", "qconfig_equals", "quantize", "quantize_", "quantize_dynamic", "quantize_qat", "report",
    "swap_module", "weight_observer_range_neg_127_to_127",
]  # fmt: skip
