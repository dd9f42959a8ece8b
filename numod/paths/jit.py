"""`numod.jit`: capture and saved modules (`export.script`), and PyTorch's markers, which have no effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Dict, Final, List, Optional, Tuple, TypeVar, overload  # noqa: F401, UP035

from ..export.script import ScriptFunction, ScriptModule, freeze, is_tracing, load, optimize_for_inference
from ..export.script import save, script, trace, trace_module
from ..export.traced import TracerWarning, TracingCheckError
from ..futures import Future

__all__ = [
    "Final", "Attribute", "ScriptFunction", "ScriptModule", "TracerWarning", "TracingCheckError", "annotate", "export",
    "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance",
    "load", "optimize_for_inference",
    "optimized_execution", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "enable_onednn_fusion",
    "onednn_fusion_enabled", "trace", "trace_module", "unused", "wait",
]  # fmt: skip
_isinstance = isinstance
# PyTorch's classes of what `script`, `trace` and `load` return, for `isinstance`
RecursiveScriptModule = TopLevelTracedModule = TracedModule = ScriptModule
Function = TypeVar("Function", bound=Callable[..., Any])
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = Sequence  # annotations of `_jit_internal`


def script_if_tracing(fn: Function) -> Function:
    """Return the function unchanged."""
    return fn


export = interface = script_method = _script_if_tracing = _overload = _overload_method = script_if_tracing


@overload
def ignore(drop: Function, **kwargs: Any) -> Function: ...
@overload
def ignore(drop: bool = False, **kwargs: Any) -> Callable[[Function], Function]: ...
def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the function unchanged; called with a flag, return a decorator that does so."""
    return drop if callable(drop) else script_if_tracing


def unused(fn: Function) -> Function:
    """Return the function unchanged."""
    return fn


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable,
    if_false: Callable,
    module_name: str,
    func_name: str,
) -> Callable:
    """A function that calls `if_true` or `if_false`, by the argument of this name or position."""

    def dispatch(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    dispatch.__name__, dispatch.__module__ = func_name, module_name
    return dispatch


def is_scripting() -> bool:
    """False, since nothing is compiled from source."""
    return False


def _fork(func: Callable, *args: Any, **kwargs: Any) -> Future:
    """A Future with the result of `func(*args, **kwargs)`, which runs immediately, as in PyTorch outside scripts."""
    future: Future = Future()
    future.set_result(func(*args, **kwargs))
    return future


def _wait(future: Future) -> Any:
    """The result of a Future."""
    return future.wait()


fork, wait = _fork, _wait


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


def Attribute(value: Any, type: Any) -> Any:
    """Return the value."""
    return value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Python's `isinstance`, which ignores the parameters of types such as `List[int]`."""
    kinds = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(getattr(kind, "__origin__", kind) for kind in kinds))


def optimized_execution(should_optimize: bool) -> Any:
    """A context without effect."""
    return nullcontext(should_optimize)


def set_fusion_strategy(strategy: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """No effect: numod fuses by its own rules. Returns an empty list."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """No effect: numod has no oneDNN."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def strict_fusion() -> Any:
    """A context without effect."""
    return nullcontext()
