"""Types of `compile` for type checkers: a compiled function keeps its parameters and result, a module its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypedDict, TypeVar, overload

if TYPE_CHECKING:
    from .compile import CompiledFunction

CompiledModule = TypeVar("CompiledModule", bound="ModuleLike")
Parameters = ParamSpec("Parameters")
Rest = ParamSpec("Rest")  # the parameters of a method without `self`
Result = TypeVar("Result")


class ModuleLike(Protocol):
    """A module, by the method that functions do not have."""

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any: ...


class Options(TypedDict, total=False):
    """The keyword arguments of `compile`."""

    fullgraph: bool
    dynamic: bool | None
    backend: str | Callable[..., Any] | None
    mode: str | None
    options: dict[str, Any] | None
    name: str | None
    disable: bool
    recompile_limit: int | None
    isolate_recompiles: bool
    explain: bool


class Decorator(Protocol):
    """The decorator that `compile(**options)` returns, without a function."""

    @overload
    def __call__(self, model: CompiledModule) -> CompiledModule: ...
    @overload
    def __call__(self, model: Callable[Parameters, Result]) -> CompiledFunction[Parameters, Result]: ...
