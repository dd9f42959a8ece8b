"""Whether the tape records: no_grad, enable_grad, set_grad_enabled, inference_mode.

Per thread; each is a context and a decorator.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

from ..core.apply import state

Function = TypeVar("Function", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether the tape records on this thread.

    Example:

        >>> torch.is_grad_enabled()
        True
    """
    return state.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether results on this thread are inference tensors.

    Example:

        >>> torch.is_inference_mode_enabled()
        False
    """
    return state.inference


class _DecoratorContextManager:
    """A context manager whose objects are decorators too, under PyTorch's name, as a base class.

    Every call of a decorated function enters a copy (`clone`), and every step of a decorated generator does.
    """

    def __call__(self, function: Function) -> Function:
        if inspect.isgeneratorfunction(function):
            return _around_steps(self, function)

        @functools.wraps(function)
        def wrapped(*arguments: object, **kwargs: object) -> object:
            with self.clone():
                return function(*arguments, **kwargs)

        return wrapped

    def clone(self) -> Self:
        """A new context with the same setting, for nested and concurrent calls; here one without any."""
        return type(self)()


class _Mode(_DecoratorContextManager):
    """Sets the thread's state on entry and restores it on exit."""

    enabled, inference = True, False

    def __enter__(self) -> None:
        self._before = (state.grad_enabled, state.inference)
        self._set()

    def _set(self) -> None:
        state.grad_enabled = self.enabled and not state.inference  # inference tensors cannot be recorded

    def __exit__(self, *exception: object) -> None:
        state.grad_enabled, state.inference = self._before

    @overload
    def __new__(cls, function: Function) -> Function: ...
    @overload
    def __new__(cls, function: None = None) -> Self: ...
    def __new__(cls, function: Callable | None = None) -> Any:
        self = object.__new__(cls)
        return self(function) if callable(function) else self


def _around_steps(mode: _DecoratorContextManager, function: Callable) -> Callable:
    @functools.wraps(function)
    def wrapped(*arguments: object, **kwargs: object) -> object:
        steps = function(*arguments, **kwargs)
        step = functools.partial(steps.send, None)
        try:
            while True:
                with mode.clone():
                    value = step()
                try:
                    step = functools.partial(steps.send, (yield value))
                except GeneratorExit:
                    with mode.clone():
                        steps.close()
                    raise
                except BaseException as error:  # thrown exceptions are passed to the generator
                    step = functools.partial(steps.throw, error)
        except StopIteration as stop:
            return stop.value

    return wrapped


class no_grad(_Mode):
    """Context and decorator in which operations are not recorded: results require no gradient.

    Example:

        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.no_grad():
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    enabled = False


class enable_grad(_Mode):
    """Context and decorator in which operations are recorded, also inside `no_grad`.

    Example:

        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.no_grad(), torch.enable_grad():
        ...     y = x * 2
        >>> y.requires_grad
        True
    """


class set_grad_enabled(_Mode):
    """Turn recording on or off: immediately as a function, or as a context or decorator.

    Example:

        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.set_grad_enabled(False):
        ...     y = x * 2
        >>> y.requires_grad
        False
    """

    def __new__(cls, mode: bool) -> set_grad_enabled:
        if not isinstance(mode, bool):
            raise TypeError(
                f"set_grad_enabled(): argument 'enabled' (position 1) must be bool, not {type(mode).__name__}"
            )
        self = object.__new__(cls)
        self.enabled = mode
        self._before = (state.grad_enabled, state.inference)
        self._set()
        return self

    def __enter__(self) -> None:
        self._set()

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.enabled)

    def __call__(self, function: Function) -> Function:
        state.grad_enabled = self._before[0]  # as a decorator it acts during calls, not at the definition
        return super().__call__(function)


class set_multithreading_enabled(contextlib.ContextDecorator):
    """For compatibility with PyTorch, without effect: backward passes run on the calling thread.

    Example:

        >>> with torch.autograd.set_multithreading_enabled(False):
        ...     torch.ones(1, requires_grad=True).sum().backward()
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *exception: object) -> None:
        """Nothing changes."""


class inference_mode(_Mode):
    """Context and decorator without recording, whose results can never take part in a recorded computation.

    `inference_mode(False)` records, as PyTorch's.

    Example:

        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.inference_mode():
        ...     y = x * 2
        >>> y.is_inference()
        True
    """

    @overload
    def __new__(cls, mode: Function) -> Function: ...
    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    def __new__(cls, mode: bool | Callable = True) -> Any:
        self = object.__new__(cls)
        self.mode = True if callable(mode) else bool(mode)
        return self(mode) if callable(mode) else self

    def _set(self) -> None:
        state.grad_enabled, state.inference = not self.mode, self.mode
        type(state).special = True

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)
