"""Calls of modules with hooks: runs the hooks around `forward` and around the module's part of the backward pass.

Modules without hooks skip this file. `hooks.py` stores the hooks and documents what they may change.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from traceback import walk_tb
from types import CodeType
from typing import TYPE_CHECKING, Any

from ..errors import warn_caller
from ..autograd import Function, is_grad_enabled
from ..core import Tensor, zeros
from . import hooks

if TYPE_CHECKING:
    from .module import Module


def watch_calls(module: Module) -> bool:
    """Whether any hook has to run in a call of `module`."""
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
        or hooks.forward or hooks.forward_pre or hooks.backward or hooks.backward_pre
    )  # fmt: skip


NOTED = (RuntimeError, TypeError, ValueError, IndexError)  # the errors of wrong shapes, dtypes and arguments


def note_module(error: Exception, code: CodeType) -> None:
    """Note on an error in which submodule it occurred: `in net.3: Linear(in_features=4, out_features=2, bias=True)`.

    Called by each module call that the error passes, from the inside out; the calls are found in the traceback as
    frames of `code`. A note must not hide the error, so nothing is raised here.
    """
    with suppress(Exception):
        frames = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_code is code]
        modules = [frame.f_locals["self"] for frame in frames]
        former = _note(modules[1:])
        if former in (notes := getattr(error, "__notes__", [])):
            notes[notes.index(former)] = _note(modules)
        else:
            error.add_note(_note(modules))


def _note(modules: list[Module]) -> str:
    """The text for an error in the last of the modules, which contain each other; "" without modules."""
    if not modules:
        return ""
    names = [
        name
        for parent, child in zip(modules, modules[1:])
        for name, candidate in parent._modules.items()
        if candidate is child
    ]
    path = f"{'.'.join(names)}: " if names else ""
    return f"in {path}{type(modules[-1]).__name__}({modules[-1].extra_repr()})"


def call(module: Module, args: tuple, kwargs: dict) -> Any:
    """`module.forward(*args, **kwargs)` with all hooks."""
    watched = _Call(module, args, kwargs)
    try:
        return watched.run()
    except Exception:
        watched.run_always_called()
        raise


class _Call:
    """One call of a module with hooks: its current arguments and result, as changed by the hooks that have run."""

    def __init__(self, module: Module, args: tuple, kwargs: dict) -> None:
        self.module, self.args, self.kwargs, self.result = module, args, kwargs, None
        self.seen: set[int] = set()  # hooks with `always_call` that have been called

    def run(self) -> Any:
        self.run_pre_hooks()
        watcher = None
        if hooks.backward or hooks.backward_pre or self.module._backward_hooks or self.module._backward_pre_hooks:
            watcher = _BackwardWatcher(self.module)
            self.args = watcher.watch_input(self.args)
        self.result = self.module.forward(*self.args, **self.kwargs)
        for number, hook in self.forward_hooks():
            self.seen.add(number)
            self.run_forward_hook(number, hook)
        return watcher.watch_output(self.result) if watcher else self.result

    def run_pre_hooks(self) -> None:
        for number, hook in [*hooks.forward_pre.items(), *self.module._forward_pre_hooks.items()]:
            if number in self.module._forward_pre_hooks_with_kwargs:
                self.take_args_and_kwargs(hook(self.module, self.args, self.kwargs))
            else:
                args = hook(self.module, self.args)
                self.args = self.args if args is None else args if isinstance(args, tuple) else (args,)

    def take_args_and_kwargs(self, replacement: Any) -> None:
        if replacement is None:
            return
        if not (isinstance(replacement, tuple) and len(replacement) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {replacement}."
            )
        self.args, self.kwargs = replacement

    def forward_hooks(self) -> list[tuple[int, Callable]]:
        return [*hooks.forward.items(), *self.module._forward_hooks.items()]

    def run_forward_hook(self, number: int, hook: Callable) -> None:
        if number in self.module._forward_hooks_with_kwargs or number in hooks.forward_with_kwargs:
            replacement = hook(self.module, self.args, self.kwargs, self.result)
        else:
            replacement = hook(self.module, self.args, self.result)
        if replacement is not None:
            self.result = replacement

    def run_always_called(self) -> None:
        """After an exception: run the remaining hooks with `always_call`. Their exceptions become warnings."""
        for number, hook in self.forward_hooks():
            always = number in self.module._forward_hooks_always_called or number in hooks.forward_always_called
            if always and number not in self.seen:
                try:
                    self.run_forward_hook(number, hook)
                except Exception as error:
                    message = (
                        "module forward hook with ``always_call=True`` raised an exception that was silenced as "
                        "another error"
                    )
                    warn_caller(f"{message} was raised in forward: {error}")


# ---- the backward call
# -------------------------------------------------------------------------------------------------


class BackwardHookFunction(Function):
    """The identity. In backward, `see` receives the gradients and returns those to pass on."""

    @staticmethod
    def forward(ctx: Any, see: Callable, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.see = see
        ctx.set_materialize_grads(False)
        return tuple(tensor._alias() for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple:
        return None, *ctx.see(gradients)


class _BackwardWatcher:
    """The full backward hooks of one call: identity nodes around the module, and the gradients that pass them.

    The output's identity is reached first and stores its gradient, since hooks get grad_input and grad_output together.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.hooks = [*hooks.backward.values(), *module._backward_hooks.values()]
        self.pre_hooks = [*hooks.backward_pre.values(), *module._backward_pre_hooks.values()]
        self.inputs: tuple = ()
        self.input_positions: list[int] = []
        self.versions: list[int] = []
        self.outputs = 0
        self.output_positions: list[int] = []
        self.grad_output: tuple | None = None

    def watch_input(self, args: tuple) -> tuple:
        args, self.input_positions = self.watch(args, self.see_grad_input)
        self.inputs = args
        self.versions = [args[position]._version for position in self.input_positions]
        return args

    def watch_output(self, result: Any) -> Any:
        self.refuse_changed_inputs()
        outputs, rebuild = _open(result)
        if outputs is None:
            warn_caller(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but "
                f"received {type(result)} from "
                f"{type(self.module).__name__}"
            )
            return result
        self.outputs = len(outputs)
        watched, self.output_positions = self.watch(tuple(map(_copy_of_output, outputs)), self.see_grad_output)
        self.inputs = tuple(map(_description, self.inputs))  # their values need not be saved for backward
        return rebuild(watched) if self.output_positions else result

    def refuse_changed_inputs(self) -> None:
        # the caller's tensor shares memory with the module's input, but its autograd history would miss the change
        if [self.inputs[position]._version for position in self.input_positions] != self.versions:
            raise RuntimeError(
                f"{type(self.module).__name__} has a full backward hook and modifies its input in place, so the "
                "gradient of the input "
                f"would be lost; use inplace=False, or give it a clone()"
            )

    def watch(self, values: tuple, see: Callable) -> tuple[tuple, list[int]]:
        """The values, with an identity applied to tensors that require a gradient, and the tensors' positions."""
        positions = [
            position for position, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad
        ]
        if not (positions and is_grad_enabled()):
            return values, []
        values = list(values)
        for position, tensor in zip(
            positions, BackwardHookFunction.apply(see, *(values[position] for position in positions)), strict=True
        ):
            values[position] = tensor
        return tuple(values), positions

    def see_grad_output(self, gradients: tuple) -> tuple:
        self.grad_output = _spread(gradients, self.output_positions, self.outputs)
        for hook in self.pre_hooks:
            self.grad_output = _replaced(
                self.grad_output, hook(self.module, self.grad_output), "pre hook", "grad_output"
            )
        passed_on = tuple(self.grad_output[position] for position in self.output_positions)
        if not self.input_positions:  # no gradient will reach the inputs, so the module's backward ends here
            if self.hooks:
                warn_caller(
                    "Full backward hook is firing when gradients are computed with respect to module outputs since no "
                    "inputs require gradients."
                )
            self.run_hooks((None,) * len(self.inputs), replaceable=False)
        return passed_on

    def see_grad_input(self, gradients: tuple) -> tuple:
        if self.grad_output is None:  # reached by a path that bypasses the module's output
            return gradients
        grad_input = _spread(gradients, self.input_positions, len(self.inputs))
        grad_input = self.run_hooks(tuple(map(_or_zeros, grad_input, self.inputs)))
        return tuple(grad_input[position] for position in self.input_positions)

    def run_hooks(self, grad_input: tuple, replaceable: bool = True) -> tuple:
        for hook in self.hooks:
            replacement = hook(self.module, grad_input, self.grad_output)
            if not replaceable and replacement is not None and any(gradient is not None for gradient in replacement):
                message = (
                    "Backward hook for Modules where no input requires gradient should always return None or "
                    "None for all gradients."
                )
                raise RuntimeError(message)
            grad_input = _replaced(grad_input, replacement, "hook", "grad_input")
        self.grad_output = None
        return grad_input


def _open(result: Any) -> tuple[tuple | None, Callable]:
    """A module's output as a tuple of values, and a function that rebuilds such an output from other values."""
    if isinstance(result, Tensor):
        return (result,), lambda values: values[0]
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return tuple(result), lambda values: type(result)(*values)
    if isinstance(result, tuple):
        return result, type(result)
    return None, tuple


def _copy_of_output(value: Any) -> Any:
    """A copy of an output, which the caller may modify in place without changing the module's autograd history."""
    return value.clone() if isinstance(value, Tensor) and value.requires_grad else value


def _spread(gradients: tuple, positions: list[int], size: int) -> tuple:
    """A tuple of `size` gradients: the given ones at their positions, None elsewhere."""
    result: list[Tensor | None] = [None] * size
    for position, gradient in zip(positions, gradients, strict=True):
        result[position] = gradient
    return tuple(result)


def _description(value: Any) -> tuple | None:
    return (value.shape, value.dtype, value.device) if isinstance(value, Tensor) else None


def _or_zeros(gradient: Tensor | None, description: tuple | None) -> Tensor | None:
    """Hooks receive zeros for a tensor that no gradient reached, and None only for values that are not tensors."""
    if gradient is not None or description is None:
        return gradient
    shape, dtype, device = description
    return zeros(shape, dtype=dtype, device=device)


def _replaced(gradients: tuple, replacement: Any, hook: str, kind: str) -> tuple:
    if replacement is None:
        return gradients
    replacement = (replacement,) if isinstance(replacement, Tensor) else tuple(replacement)
    if len(replacement) != len(gradients):
        raise RuntimeError(
            f"Backward {hook} returned an invalid number of {kind}, got {len(replacement)}, but expected "
            f"{len(gradients)}"
        )
    return replacement
