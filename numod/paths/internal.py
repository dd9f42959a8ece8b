"""`numod._C`: of PyTorch's compiled half, what libraries of models call. There is nothing compiled here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ..core.tensor import Tensor
from ..errors import name_only

_TensorMeta = type(Tensor)
DisableTorchFunctionSubclass = nullcontext  # no class overrides a function
TensorType = name_only("TensorType", "the class of tensors is numod.Tensor")  # of PyTorch's script compiler; files name it in annotations
Graph, Node, Value = (name_only(f"_C.{_name}", "numod.graph.trace records a function") for _name in ("Graph", "Node", "Value"))
PyTorchFileReader = name_only("PyTorchFileReader", "numod.load reads checkpoints")


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _get_tracing_state() -> None:
    """None: no tracer of PyTorch's runs."""


def _disabled_torch_function_impl(func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
    """The function's result: a class overrides nothing."""
    return func(*args, **(kwargs or {}))


def _are_functorch_transforms_active() -> bool:
    """Whether a function runs for all examples of a vmap at once."""
    from ..func.examples import active

    return bool(active.batches)
