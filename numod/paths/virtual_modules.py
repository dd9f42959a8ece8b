"""Parts of PyTorch that numod has not, whose names libraries import, in annotations, as base classes and for
`isinstance`. There is nothing behind a name: using it raises NotImplementedError, which says what to do instead.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ..errors import name_only

ONE_PROCESS = "ranks hold the whole model; use numod.nn.parallel.DistributedDataParallel"
_GRAPH_MODE = "graph mode records a model's calls: use prepare_fx, convert_fx and print(model.graph)"
_EXPORTER = "numod.onnx.export writes ONNX files without symbolic functions"
MODULES = {  # PyTorch's path below numod: its names, and what to do instead
    "_custom_ops": ("custom_op impl impl_abstract", "numod.library.custom_op makes an operator of a function"),
    **{
        name: ("associative_scan", "write the scan as a loop, or by numod.cumsum; numod.compile records either")
        for name in ("_higher_order_ops", "_higher_order_ops.associative_scan")
    },
    "_tensor_str": ("PRINT_OPTS _add_suffixes _str_intern _tensor_str",
        "repr(x) is the text, and numod.set_printoptions sets its form"),
    **dict.fromkeys(("distributed.elastic", "distributed.elastic.multiprocessing", "distributed.algorithms",
        "distributed.algorithms._checkpoint"), ("", ONE_PROCESS)),
    "distributed.algorithms.join": ("Join JoinHook Joinable", ONE_PROCESS),
    "distributed.algorithms._checkpoint.checkpoint_wrapper": (
        "CheckpointImpl CheckpointWrapper apply_activation_checkpointing checkpoint_wrapper offload_wrapper",
        "numod.utils.checkpoint.checkpoint recomputes a part of a network"),
    **{
        name: ("BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig FullyShardedDataParallel "
            "LocalStateDictConfig MixedPrecision ShardedStateDictConfig ShardingStrategy StateDictType fully_shard",
            ONE_PROCESS)
        for name in ("distributed.fsdp", "distributed.fsdp.fully_sharded_data_parallel")
    },
    "distributed.fsdp.wrap": ("ModuleWrapPolicy always_wrap_policy enable_wrap lambda_auto_wrap_policy "
        "size_based_auto_wrap_policy transformer_auto_wrap_policy wrap", ONE_PROCESS),
    "distributed.rpc": ("RRef init_rpc remote rpc_async rpc_sync shutdown", ONE_PROCESS),
    "distributed.tensor": ("DTensor Partial Placement Replicate Shard distribute_module distribute_tensor",
        ONE_PROCESS),
    "nn.attention.flex_attention": (
        "AuxOutput AuxRequest BlockMask _DEFAULT_SPARSE_BLOCK_SIZE _identity _score_mod_signature _mask_mod_signature "
        "and_masks create_block_mask "
        "create_mask create_nested_block_mask flex_attention noop_mask or_masks",
        "add the scores' change to attn_mask of numod.nn.functional.scaled_dot_product_attention",
    ),
    **{
        f"ao.quantization.fx.{name}": (names, _GRAPH_MODE)
        for name, names in {
            "convert": "convert", "fuse": "fuse", "lstm_utils": "", "match_utils": "MatchAllNode",
            "pattern_utils": "Pattern get_default_fusion_patterns get_default_quant_patterns",
            "prepare": "insert_observers_for_model prepare propagate_dtypes_for_known_nodes",
            "qconfig_mapping_utils": "", "quantize_handler": "QuantizeHandler", "tracer": "QuantizationTracer Scope",
            "utils": "all_node_args_have_no_tensors create_getattr_from_value get_new_attr_name_with_prefix",
        }.items()
    },
    **{
        name: ("Linear LinearPackedParams",
            'numod.compile(model, options={"freezing": True, "sparsity": True}) leaves the zeros of weights out')
        for name in ("ao.nn.sparse", "ao.nn.sparse.quantized", "ao.nn.sparse.quantized.dynamic")
    },
    **{
        f"ao.quantization{name}": (
            "Quantizer QuantizationAnnotation X86InductorQuantizer XNNPACKQuantizer "
            "get_default_x86_inductor_quantization_config get_symmetric_quantization_config prepare_pt2e "
            "prepare_qat_pt2e convert_pt2e",
            "prepare_fx and convert_fx quantize a model by its recorded calls",
        )
        for name in (".quantize_pt2e", ".quantizer", ".quantizer.quantizer", ".quantizer.x86_inductor_quantizer",
            ".quantizer.xnnpack_quantizer", ".pt2e")
    },
    "ao.quantization.quantize_jit": (
        "convert_dynamic_jit convert_jit fuse_conv_bn_jit prepare_dynamic_jit prepare_jit quantize_dynamic_jit "
        "quantize_jit script_qconfig script_qconfig_dict",
        "numod has no TorchScript; use prepare_fx and convert_fx",
    ),
    "ao.quantization.backend_config.tensorrt": ("get_tensorrt_backend_config get_tensorrt_backend_config_dict",
        "numod has no TensorRT; use get_native_backend_config()"),
    "nested": ("as_nested_tensor nested_tensor nested_tensor_from_jagged to_padded_tensor",
        "pad by numod.nn.utils.rnn.pad_sequence, and mask the padding"),
    "nn.parallel._functions": ("Broadcast Gather ReduceAddCoalesced Scatter _get_stream", "it uses one device"),
    **{f"onnx.symbolic_opset{number}": ("", _EXPORTER) for number in range(9, 21)},
    "onnx.operators": ("reshape_from_tensor_shape shape_as_tensor", _EXPORTER),
    "utils._python_dispatch": ("TorchDispatchMode", "the calls of a function are seen by numod.profiler.profile"),
    "utils.flop_counter": ("FlopCounterMode flop_registry register_flop_formula",
        "numod.profiler.profile(with_flops=True) counts them"),
    "utils.cpp_extension": (
        "BuildExtension CUDAExtension CppExtension include_paths load load_inline",
        "it builds no C++; write the function of numod's, and numod.compile it"
    ),
}  # fmt: skip
_EXISTING = {"distributed.tensor": ("numod.distributed.device_mesh", ("DeviceMesh", "init_device_mesh"))}


class _Names(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        # an import of a submodule sets it: as in PyTorch, a function of that name stays
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)


def module(path: str) -> ModuleType:
    """The module at PyTorch's path, made of its names."""
    names, instead = MODULES[path]
    virtual = _Names(f"numod.{path}", f"Only names: {instead}.")
    vars(virtual)["__all__"] = names.split()
    vars(virtual).update({name: name_only(f"{path}.{name}", instead) for name in virtual.__all__})
    if path in _EXISTING:  # PyTorch's module has these too
        source, existing = _EXISTING[path]
        vars(virtual).update({name: getattr(import_module(source), name) for name in existing})
    return virtual
