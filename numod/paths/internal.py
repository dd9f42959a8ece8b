"""`numod._C`: the parts of PyTorch's compiled half that model libraries call. Nothing is compiled here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..core.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, _disabled_torch_function_impl  # noqa: F401
from ..core.create.generator import Generator as Generator
from ..core.tensor import Tensor
from ..device.device import Device
from ..device.layout import Size as Size
from ..core.create.generator import default_generator  # noqa: F401
from ..errors import LinAlgError as _LinAlgError  # noqa: F401
from ..formats import layout as layout
from ..dtypes import dtype as DType
from ..errors import name_only
from ..ops.reduce.softmax import log_softmax, softmax
from . import later

_TensorMeta, device, dtype = type(Tensor), Device, DType
# of PyTorch's script compiler; files name it in annotations
TensorType = name_only("TensorType", "the class of tensors is numod.Tensor")
# of PyTorch's exporter
SymBool, SymFloat, SymInt = (name_only(_name, "sizes are numbers") for _name in ("SymBool", "SymFloat", "SymInt"))
Graph, Node, Value = (
    name_only(f"_C.{_name}", "numod.graph.trace records a function") for _name in ("Graph", "Node", "Value")
)
ScriptObject = name_only("_C.ScriptObject", "quantized layers have plain Python objects")
PyTorchFileReader = name_only("PyTorchFileReader", "numod.load reads checkpoints")

__getattr__ = later("_C")  # `_C._nn`


class DispatchKey:
    """The keys with which torchvision declares, on import, the behaviour of its C++ operators under autocast."""

    AutocastCPU, AutocastCUDA, AutocastXPU = "AutocastCPU", "AutocastCUDA", "AutocastXPU"


class DispatchKeySet(frozenset):
    """A set of one key; `|` joins sets."""

    def __new__(cls, key: str) -> DispatchKeySet:
        return super().__new__(cls, (key,))


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _get_tracing_state() -> None:
    """None, since PyTorch's tracer does not run."""


def _are_functorch_transforms_active() -> bool:
    """Whether a function runs for all examples of a vmap at once."""
    from ..func.examples import active

    return bool(active.batches)


# ---- symbolic numbers of PyTorch's exporter; here they are Python's numbers


def sym_float(a: float) -> float:
    """`float(a)`.

    Example:

        >>> torch.sym_float(2)
        2.0
    """
    return float(a)


def sym_int(a: float) -> int:
    """`int(a)`.

    Example:

        >>> torch.sym_int(2.5)
        2
    """
    return int(a)


def sym_max(a: float, b: float) -> float:
    """`max(a, b)`.

    Example:

        >>> torch.sym_max(2, 3)
        3
    """
    return max(a, b)


def sym_min(a: float, b: float) -> float:
    """`min(a, b)`.

    Example:

        >>> torch.sym_min(2, 3)
        2
    """
    return min(a, b)


def sym_not(a: bool) -> bool:
    """`not a`.

    Example:

        >>> torch.sym_not(True)
        False
    """
    return not a


def sym_sum(args: Iterable[float]) -> float:
    """The sum of sizes.

    Example:

        >>> torch.sym_sum([1, 2, 3])
        6
    """
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t if b else f`.

    Example:

        >>> torch.sym_ite(True, 1, 2)
        1
    """
    return t if b else f


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType) -> Tensor:
    """The gradient of softmax's input, from that of its output. Model code calls it."""
    return softmax.gradients["x"](grad_output, output, dim).to(input_dtype)


def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType) -> Tensor:
    """The gradient of log_softmax's input from that of its output."""
    return log_softmax.gradients["x"](grad_output, output, dim).to(input_dtype)
