"""PyTorch's import paths for things that live elsewhere in numod, so that `import numod.optim.adamw` works.

The files of this folder are small namespaces that model files import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from . import virtual_modules

_ADAPTIVE = ("adadelta", "adagrad", "asgd", "rmsprop", "rprop")
_QUANTIZED_FILES = {  # package of quantized layers -> PyTorch's files in its folder `modules`
    "quantized": "activation batchnorm conv dropout embedding_ops functional_modules linear normalization rnn utils",
    "quantized.dynamic": "conv linear rnn", "quantized.reference": "conv linear rnn sparse utils",
    "quantizable": "activation rnn", "qat": "conv embedding_ops linear",
    "qat.dynamic": "linear", "intrinsic": "fused", "intrinsic.qat": "conv_fused linear_fused linear_relu",
    "intrinsic.quantized": "bn_relu conv_add conv_relu linear_relu", "intrinsic.quantized.dynamic": "linear_relu",
}  # fmt: skip
HOMES = {  # PyTorch's path -> numod's, both below numod
    **{
        name: f"paths.{name}"
        for name in (
            "accelerator compiler cpu functional fx hub jit library masked multiprocessing "
            "quasirandom signal types"
        ).split()
    },
    **{name: "paths.other_devices" for name in ("mps", "mtia", "xpu")}, "cpu.amp": "paths.cpu_amp",
    "utils.model_zoo": "paths.hub", "utils._pytree": "paths.pytree", "_dynamo": "paths.compiler",
    "_dynamo.utils": "paths.compiler", "_dynamo._trace_wrapped_higher_order_op": "paths.compiler",
    "_dynamo.eval_frame": "paths.compiler", "__config__": "paths.configuration", "storage": "paths.storage",
    "_inductor": "paths.compiler", "_dynamo.config": "graph.config", "_inductor.config": "graph.config",
    "jit.annotations": "paths.annotations", "_C": "paths.internal", "_C._nn": "paths.internal_nn",
    "multiprocessing.spawn": "paths.spawn",
    "signal.windows": "paths.windows",
    **{f"optim.{name}": "optim.adaptive" for name in _ADAPTIVE}, "optim.adamw": "optim.adam", "_tensor": "core.tensor",
    **{f"optim.{name}": "optim.adam_variants" for name in ("adamax", "nadam", "radam")},
    "return_types": "core.return_types", "overrides": "core.overrides", "autograd.grad_mode": "autograd.modes",
    "autograd.anomaly_mode": "autograd.anomaly", "amp.grad_scaler": "amp.scaler", "cuda.nvtx": "profiler.ranges",
    "profiler.itt": "profiler.ranges", "profiler.profiler": "profiler", "autograd.profiler": "profiler.legacy",
    "autograd.profiler_util": "profiler.legacy",
    **{
        f"nn.parallel.{name}": "nn.parallel"
        for name in ("data_parallel", "scatter_gather", "replicate", "parallel_apply", "comm")
    },
    "distributed.optim": "optim.zero_redundancy", "distributed.distributed_c10d": "distributed",
    "distributed.optim.zero_redundancy_optimizer": "optim.zero_redundancy",
    **{
        f"distributed.algorithms.ddp_comm_hooks{name}": "distributed.comm_hooks"
        for name in ("", ".default_hooks")
    },
    "distributed.constants": "distributed.init_arguments",
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": "distributed.power_sgd",
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": "distributed.local_sgd",
    **{
        f"distributed.algorithms.model_averaging{name}": "distributed.local_sgd"
        for name in ("", ".averagers", ".hierarchical_model_averager", ".utils")
    },
    "distributed.optim.post_localSGD_optimizer": "optim.post_local_sgd",
    **dict.fromkeys(("distributed.nn", "distributed.nn.functional"), "distributed.functional"),
    "nn.utils.clip_grad": "nn.utils.clip", "nn.utils.convert_parameters": "nn.utils.vector", "utils.hooks": "nn.hooks",
    **{f"fx.{name}": "paths.fx" for name in ("graph", "graph_module", "node", "proxy")},
    **dict.fromkeys(("fx.experimental", "fx.experimental.proxy_tensor"), "paths.fx"),
    **dict.fromkeys(("_subclasses", "_subclasses.fake_tensor"), "paths.fx"),
    "quantization": "ao.quantization", "ao.sparsity": "ao.pruning",
    **{
        f"quantization.{name}": f"ao.quantization.{name}"
        for name in (
            "fake_quantize fuse_modules observer qconfig qconfig_mapping quantization_mappings quantize quantize_fx "
            "stubs utils"
        ).split()
    },
    **{
        f"{parent}.{name}": f"ao.quantization.{home}"
        for parent in ("quantization", "ao.quantization")
        for name, home in (("fuser_method_mappings", "fuse_modules"), ("quant_type", "utils"))
    },
    **{
        f"ao.quantization.backend_config.{name}": "ao.quantization.backend_config"
        for name in "backend_config executorch fbgemm native observation_type onednn qnnpack x86".split()
    },
    "ao.quantization.backend_config.utils": "ao.quantization.backend_utils",
    **{
        f"{parent}{package}.{module}": f"ao.nn.{package}"
        for parent in ("nn.", "ao.nn.")
        for package, files in _QUANTIZED_FILES.items()
        for module in ("modules", *[f"modules.{name}" for name in files.split()])
    },
    **{f"{parent}.sparsifier.{name}": "ao.pruning.sparsifier" for parent in ("ao.pruning", "ao.sparsity") for name in (
        "base_sparsifier", "nearly_diagonal_sparsifier", "utils", "weight_norm_sparsifier"
    )},
    **{f"{parent}.scheduler.{name}": "ao.pruning.scheduler" for parent in ("ao.pruning", "ao.sparsity") for name in (
        "base_scheduler", "cubic_scheduler", "lambda_scheduler"
    )},
    "ops.quantized": "ao.nn.quantized.operators", "ops.quantized_decomposed": "ao.nn.quantized.decomposed",
    **dict.fromkeys(("ao.ns.fx", "ao.ns.fx.utils"), "ao.ns.metrics"),
    "quantization._numeric_suite": "ao.ns._numeric_suite",
    "ao.quantization.fx": "ao.quantization.quantize_fx", "quantization.fx": "ao.quantization.quantize_fx",
    **{
        f"{parent}.fx.{name}": f"ao.quantization.{name}"
        for parent in ("quantization", "ao.quantization")
        for name in ("custom_config", "graph_module")
    },
    "ao.quantization.fx._equalize": "ao.quantization.equalization",
    "ao.quantization.fx._model_report": "ao.quantization.model_report",
    "ao.quantization.fx._model_report.detector": "ao.quantization.detectors",
    **{
        f"ao.quantization.fx._model_report.{name}": f"ao.quantization.{name}"
        for name in ("model_report", "model_report_observer", "model_report_visualizer")
    },
    **{f"nn.{name}": f"ao.nn.{name}" for name in (
        "qat", "quantizable", "quantized", "quantized.dynamic", "quantized.reference", "intrinsic"
    )},
    **{f"nn.quantized._reference{name}": "ao.nn.quantized.reference" for name in ("", ".modules")},
    "nn.quantized.functional": "ao.nn.quantized.functional",
    **{f"nn.intrinsic.{name}": f"ao.nn.intrinsic.{name}" for name in ("qat", "quantized", "quantized.dynamic")},
    "nn.qat.dynamic": "ao.nn.qat.dynamic",
    "utils.data._utils": "utils.data", "testing._comparison": "testing", "torch_version": "version",
    "_utils": "paths.helpers", "utils._contextlib": "paths.helpers", "_jit_internal": "paths.jit",
    **{f"utils.{name}": "paths.helpers" for name in ("_foreach_utils", "_typing_utils", "_triton")},
    "cuda._utils": "paths.helpers", "cuda.random": "cuda",
    "utils.data._utils.fetch": "utils.data.fetch", "utils.data._utils.pin_memory": "utils.data.collate",
    **{f"_functorch.{name}": "func" for name in ("apis", "vmap", "eager_transforms", "functional_call")},
    "_functorch": "func",
    **{f"export.{name}": "export" for name in ("dynamic_shapes", "exported_program", "graph_signature")},
    "cuda.graphs": "cuda",
    "distributed.elastic.multiprocessing.errors": "paths.elastic",
    "utils.data._utils.collate": "utils.data.collate", "utils.data._utils.worker": "utils.data.info",
    "nn._reduction": "paths.reduction", "jit._script": "paths.jit", "jit._trace": "paths.jit",
    "_lowrank": "core.linalg.low_rank", "_vmap_internals": "func", "optim._multi_tensor": "optim",
    "cuda.amp.grad_scaler": "cuda.amp", "cuda.amp.autocast_mode": "cuda.amp",
}  # fmt: skip
_EINOPS = "einops._backends"
_TORCHAO = {  # modules of the package torchao, which numod replaces together with torch -> numod's
    **dict.fromkeys(
        (
            "torchao", "torchao.quantization", "torchao.quantization.granularity", "torchao.quantization.quant_api",
            "torchao.quantization.quant_primitives", "torchao.quantization.utils", "torchao.sparsity", "torchao.utils",
        ),
        "ao.quantization.torchao",
    ),
    "torchao.quantization.qat": "ao.quantization.qat",
}  # fmt: skip


class Finder:
    """Finds a module of numod by PyTorch's path. It comes first, since a path may go through a renamed folder."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The spec of a path in the table, of numod by another name, or of the backend module of einops."""
        if name == _EINOPS:
            return import_module("numod.paths.einops").find_spec(name, path)
        root, _, rest = name.partition(".")
        if name in _TORCHAO and sys.modules.get("torch") is sys.modules["numod"]:
            return ModuleSpec(name, _Loader(name, f"numod.{_TORCHAO[name]}"), is_package=True)
        if root != "numod" and rest and sys.modules.get(root) is sys.modules["numod"]:
            # after `sys.modules["torch"] = numod`, torch.nn is numod.nn and not a second copy of its file
            return ModuleSpec(name, _Loader(name, f"numod.{rest}")) if find_spec(f"numod.{rest}") is not None else None
        if root != "numod" or rest not in HOMES and rest not in virtual_modules.MODULES:
            return None
        is_package = any(known_path.startswith(f"{rest}.") for known_path in (*HOMES, *virtual_modules.MODULES))
        return ModuleSpec(
            name, _Loader(name, f"numod.{HOMES[rest]}") if rest in HOMES else _NamesLoader, is_package=is_package
        )


class _KeepsFunctions(ModuleType):
    """A module with a function that has the name of a submodule, as `multiprocessing.spawn`.

    An import of the submodule does not replace the function; PyTorch imports the function after the submodule.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(value, ModuleType) or isinstance(vars(self).get(name, value), ModuleType):
            super().__setattr__(name, value)


class _Loader:
    """Loads the existing module at numod's own path."""

    def __init__(self, path: str, home: str) -> None:
        self.path, self.home = path, home

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.home)
        self.before = {
            name: getattr(module, name, None) for name in ("__spec__", "__loader__", "__package__", "__path__")
        }
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the attributes that the import system has overwritten, and keep those that it would overwrite."""
        parent, _, child = self.path.rpartition(".")
        if parent and not isinstance(vars(sys.modules[parent]).get(child, module), ModuleType):
            sys.modules[parent].__class__ = _KeepsFunctions
        for name, value in self.before.items():
            if value is not None or name in vars(module):
                setattr(module, name, value if value is not None or name != "__path__" else [])


class _NamesLoader:
    """Creates a module whose names have no implementation."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return virtual_modules.module(spec.name.partition(".")[2])

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        module.__getattr__ = later(module.__name__.partition(".")[2])


def later(parent: str) -> Callable[[str], ModuleType]:
    """A module's `__getattr__` that imports PyTorch's paths below it on first use, as `numod.autograd.profiler`."""

    def __getattr__(name: str) -> ModuleType:
        paths = f"{parent}.{name}", f"{parent}.modules.{name}"  # `modules` of quantized layers is their package
        path = next((path for path in paths if path in HOMES or path in virtual_modules.MODULES), None)
        if path is None:
            raise AttributeError(f"module 'numod.{parent}' has no attribute '{name}'")
        return import_module(f"numod.{path}")

    return __getattr__


sys.meta_path.insert(0, Finder)
if _EINOPS in sys.modules:
    import_module("numod.paths.einops").register(sys.modules[_EINOPS])
