"""`numod.jit` on top of exported programs: `trace`, `script`, `save`, `load`, `freeze`, `optimize_for_inference`.

A saved module runs in a process that does not have its class.
"""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import FunctionType
from typing import Any, BinaryIO, TypeVar

from ..autograd import is_grad_enabled
from ..core.listeners import listeners
from ..core.tensor import Tensor
from ..graph.ir.program import Program, Value
from ..nn import Module
from ..serialization import CheckpointError, load_metadata
from ..serialization import load as load_checkpoint
from ..serialization.program import KEY
from .capture import export, signature_of_call
from .program import ExportedModule, ExportedProgram, load_with_extra, match_arguments, save as save_program
from .quantized_ports import with_scales
from .traced import check_captures, check_containers

Scripted = TypeVar("Scripted")
_tracing: ContextVar[bool] = ContextVar("tracing", default=False)
_EXAMPLES = "_scripted_with"  # attribute: the arguments of a scripted module's first call


class ScriptModule(Module):
    """The type of modules from `trace` and `load`. (`script` leaves a module an instance of its own class.)"""


class Traced(ExportedModule):
    """A captured module or function.

    If the original is available, it runs the calls that the program cannot: with other sizes or with gradients.
    `_methods`: further captured methods of the module, by name.
    """

    def __init__(self, exported: ExportedProgram, original: Callable | None = None) -> None:
        super().__init__(exported)
        vars(self).update(_original=original, _methods={})
        if isinstance(original, Module):
            self.training = original.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, or the original. Arguments may be passed by position or by name."""
        arranged_args, arranged_kwargs = self._arranged(args, kwargs)
        if self._original is not None and (
            self._records(args, kwargs) or not self._fits(arranged_args, arranged_kwargs)
        ):
            return self._original(*args, **kwargs)
        result = super().forward(*arranged_args, **arranged_kwargs)
        return self._with_scales(result, arranged_args, arranged_kwargs) if self._exported.scales else result

    def _with_scales(self, result: Any, args: tuple, kwargs: dict) -> Any:
        """The results as quantized tensors, as the original returns them."""
        inputs: list[Tensor] = []
        match_arguments(self._exported.spec, [args, kwargs], inputs, "args")
        return with_scales(result, inputs, self._exported.scales)

    def _arranged(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments by position and by name as those of the capture, if their names say how."""
        spec_args, spec_kwargs = self._exported.spec
        if len(args) == len(spec_args) and kwargs.keys() == spec_kwargs.keys():
            return args, kwargs
        names = [
            self._exported.input_names[part.number] if isinstance(part, Value) else f"argument {k}"
            for k, part in enumerate(spec_args)
        ]
        by_position = dict(zip((*names, *spec_kwargs), args))
        by_name = by_position | kwargs
        if len(by_name) != len(args) + len(kwargs) or by_name.keys() != {*names, *spec_kwargs}:
            return args, kwargs
        return tuple([by_name[name] for name in names]), {name: by_name[name] for name in spec_kwargs}

    def _records(self, args: tuple, kwargs: dict) -> bool:
        return is_grad_enabled() and any(
            isinstance(value, Tensor) and value.requires_grad for value in (*args, *kwargs.values(), *self.parameters())
        )

    def _fits(self, args: tuple, kwargs: dict) -> bool:
        try:
            tensors = self._tensors([tuple(args), dict(kwargs)])
            if self._exported.dynamic is not None:
                self._sizes(tensors)
                return True
        except RuntimeError:
            return False
        program = self._exported.program
        layouts = [program.layouts[input] for input in program.inputs]
        return all(
            tensor.shape == layout.shape and tensor.dtype is layout.dtype for tensor, layout in zip(tensors, layouts)
        )

    @property
    def inlined_graph(self) -> Program:
        """The program."""
        return self.graph

    def __deepcopy__(self, memo: dict) -> Traced:
        """A copy of the original, captured again; of a loaded module, of its program."""
        import copy

        if self._original is None:
            function, arguments = self._exported.__reduce__()
            return type(self)(function(*arguments))
        original = copy.deepcopy(self._original, memo)
        args, kwargs = self._exported.example_inputs
        copied = type(self)(export(original, args, kwargs), original)
        copied._add_methods({name: copy.deepcopy(method, memo) for name, method in self._methods.items()})
        return copied

    def _add_methods(self, methods: dict[str, Traced]) -> None:
        self._methods.update(methods)
        vars(self).update(methods)

    @property
    def original_name(self) -> str:
        """The name of the class or function that was captured."""
        return self._exported.title

    def save(self, f: str | os.PathLike, _extra_files: Mapping[str, str | bytes] | None = None) -> None:
        """Write the program to a file, for `numod.jit.load`."""
        if self._methods:
            raise NotImplementedError(
                f"a file holds one program, and this module has {', '.join(['forward', *self._methods])}; write each "
                f"to its own file, as module.{next(iter(self._methods))}.save(file), or give "
                "export.aot_compile a dict of export.export(module.method, inputs)"
            )
        save_program(self._exported, f, extra_files=_extra_files)

    def save_to_buffer(self, _extra_files: Mapping[str, str | bytes] | None = None) -> bytes:
        """The file's bytes."""
        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()


class TracedModule(Traced, ScriptModule):
    """A captured module."""


class ScriptFunction(Traced):
    """A captured function. (`script` returns functions as functions.)"""

    @property
    def name(self) -> str:
        """The function's name."""
        return self._exported.title

    @property
    def qualified_name(self) -> str:
        """The function's name as PyTorch qualifies it."""
        return f"__torch__.{self.name}"


class TracedMethods(ScriptModule):
    """A module of which methods other than `forward` were captured. It shares the module's parameters."""

    def __init__(self, module: Module, methods: dict[str, Traced]) -> None:
        super().__init__()
        vars(self).update(vars(module), _methods=methods, **methods)


def trace(
    func: Callable,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """Capture a module or function, run on example inputs (a tensor or a tuple): a ScriptModule or a ScriptFunction.

    - `check_trace`: capture twice. Raises TracingCheckError if the programs or their constants differ (floats by more
      than `check_tolerance`), and warns of random numbers.
    - `strict`: raise RuntimeError for a dict among the results, and warn of a list.
    - `example_kwarg_inputs`: the arguments by name.

    PyTorch's other options are accepted and ignored. Raises RuntimeError, with the line, for Python control flow that
    depends on tensor values.
    """
    if isinstance(func, Traced):
        return func
    if example_kwarg_inputs is not None and not isinstance(example_kwarg_inputs, Mapping):
        raise RuntimeError(f"example_kwarg_inputs should be a dict, got {type(example_kwarg_inputs).__name__}")
    if example_inputs is None and example_kwarg_inputs is None:
        example_inputs = ()
    kwargs = None if example_kwarg_inputs is None else _in_order(func, example_kwarg_inputs)
    capture = functools.partial(_traced_program, func, _as_tuple(example_inputs), kwargs)
    exported = capture()
    if strict:
        check_containers(exported.program.outputs)
    if check_trace:
        check_captures(exported, capture, check_tolerance)
    return (TracedModule if isinstance(func, Module) else ScriptFunction)(exported, func)


def _in_order(func: Callable, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name in the order of the function's parameters, so that a loaded module takes them by position."""
    try:
        parameters = signature_of_call(func).parameters
    except (TypeError, ValueError):
        return dict(kwargs)
    return {name: kwargs[name] for name in parameters if name in kwargs} | dict(kwargs)


def _as_tuple(example_inputs: Any) -> tuple:
    if example_inputs is None:
        return ()
    return tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)


def _traced_program(func: Callable, inputs: tuple, kwargs: Mapping[str, Any] | None) -> ExportedProgram:
    token = _tracing.set(True)
    try:
        return export(func, inputs, kwargs)
    finally:
        _tracing.reset(token)


def trace_module(
    mod: Module,
    inputs: Mapping[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> ScriptModule:
    """Capture methods of a module, by name, with their example inputs: `{"forward": x, "encode": (x, y)}`.

    The options are those of `trace`. `example_inputs_is_kwarg`: the inputs are dicts by argument name.
    """
    if not isinstance(mod, Module):
        raise AttributeError(f"expected torch.nn.Module as the first argument, got {type(mod).__name__}")
    if not isinstance(inputs, Mapping):
        raise AttributeError(f"expected a dictionary of (method_name, input) pairs, got {type(inputs).__name__}")
    options = {"check_trace": check_trace, "check_tolerance": check_tolerance, "strict": strict}
    methods = {}
    for name, example in inputs.items():
        examples = {"example_kwarg_inputs" if example_inputs_is_kwarg else "example_inputs": example}
        methods[name] = trace(mod if name == "forward" else getattr(mod, name), **examples, **options)
    forward = methods.pop("forward", None)
    if forward is None:
        return TracedMethods(mod, methods)
    forward._add_methods(methods)
    return forward


def is_tracing() -> bool:
    """Whether `trace` runs the calling function."""
    return _tracing.get()


def script(
    obj: Scripted, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Scripted:
    """Return the module or function, now with `save`. It can be saved after its first call or with `example_inputs`.

    Classes are returned unchanged.
    """
    if isinstance(obj, FunctionType):
        scripted = obj if hasattr(obj, _EXAMPLES) else _scripted_function(obj)
    elif not isinstance(obj, Module) or isinstance(obj, (ScriptModule, Traced)) or hasattr(type(obj), "_unscripted"):
        return obj
    else:
        scripted = _scripted(obj)
    if example_inputs:
        if isinstance(example_inputs, list):
            first = example_inputs[0]
        elif isinstance(example_inputs, dict):
            first = next(iter(example_inputs.values()))
        else:
            first = example_inputs
        vars(scripted)[_EXAMPLES] = tuple(first) if isinstance(first, (tuple, list)) else (first,), {}
    elif isinstance(scripted, Module):
        _note_first_call(scripted)
    return scripted


def _scripted_function(function: FunctionType) -> FunctionType:
    """The function with `save`. It keeps copies of the arguments of its first call."""

    @functools.wraps(function)
    def scripted(*args: Any, **kwargs: Any) -> Any:
        if scripted._scripted_with is None and not listeners:  # a compiled function must not write this attribute
            scripted._scripted_with = _copied(args, kwargs)
        return function(*args, **kwargs)

    scripted._scripted_with = None
    scripted.save = functools.partial(save, scripted)
    return scripted


def _copied(args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    return tuple([_copy(arg) for arg in args]), {key: _copy(kwarg) for key, kwarg in kwargs.items()}


def _note_first_call(module: Module) -> None:
    """Keep copies of the arguments of the module's first call."""

    def note(module: Module, args: tuple, kwargs: dict) -> None:
        handle.remove()
        vars(module)[_EXAMPLES] = _copied(args, kwargs)

    handle = module.register_forward_pre_hook(note, with_kwargs=True)


def _copy(argument: Any) -> Any:
    return argument.detach().clone() if isinstance(argument, Tensor) else argument


def _scripted(module: Module) -> Module:
    """The module with `save`, `graph` and `code`: an instance of a derived class that shares its attributes."""
    base = type(module)
    members = {
        "save": lambda self, f, _extra_files=None: save(self, f, _extra_files),
        "original_name": base.__name__,
        "graph": property(lambda self: _captured(self).program),
        "code": property(lambda self: str(_captured(self).program)),
        "_unscripted": base, "__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__,
        "__reduce_ex__": _reduced,
        "__deepcopy__": lambda self, memo: _deep_copied(self, memo),
    }  # fmt: skip
    members = {key: member for key, member in members.items() if key.startswith("_") or not hasattr(base, key)}
    result = object.__new__(type(base.__name__, (base,), members))
    object.__setattr__(result, "__dict__", vars(module))
    return result


def _plain(module: Module) -> Module:
    result = object.__new__(type(module)._unscripted)
    object.__setattr__(result, "__dict__", {key: value for key, value in vars(module).items() if key != _EXAMPLES})
    return result


def _reduced(module: Module, protocol: int) -> Any:
    return _plain(module).__reduce_ex__(protocol)


def _deep_copied(module: Module, memo: dict) -> Module:
    import copy

    return _scripted(copy.deepcopy(_plain(module), memo))


def _captured(module: Module | FunctionType) -> ExportedProgram:
    if isinstance(module, ExportedModule):
        return module._exported
    examples = vars(module).get(_EXAMPLES)
    if examples is None:
        name = getattr(module, "__name__", type(module).__name__)
        raise RuntimeError(
            f"jit: {name} has not been called yet, so nothing was captured; call it once, or pass script(..., "
            "example_inputs=[(x,)])"
        )
    return export(_plain(module) if hasattr(type(module), "_unscripted") else module, *examples)


def save(m: Any, f: str | os.PathLike | BinaryIO, _extra_files: Mapping[str, str | bytes] | None = None) -> None:
    """Write a traced or scripted module to a file. `_extra_files`: texts or bytes by name, which `load` reads.

    Raises RuntimeError for a scripted module that was never called, TypeError for other objects.
    """
    scripted = hasattr(type(m), "_unscripted") or (isinstance(m, FunctionType) and hasattr(m, _EXAMPLES))
    if not isinstance(m, ExportedModule) and not scripted:
        raise TypeError(f"jit.save: expected a module from trace or script, got {type(m).__name__}")
    if isinstance(m, Traced):
        m.save(f, _extra_files)
    else:
        save_program(_captured(m), f, extra_files=_extra_files)


def load(
    f: str | os.PathLike | BinaryIO,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> Any:
    """The module in a file written by `save`, or a checkpoint's content. Files contain no code.

    `_extra_files`: a dict by name, whose values become the bytes that were saved under these names.
    """
    start = None if isinstance(f, (str, os.PathLike)) else f.tell()
    try:
        is_program = KEY in load_metadata(f)
    except CheckpointError:
        is_program = False
    if start is not None:
        f.seek(start)
    if not is_program:
        return load_checkpoint(f, map_location=map_location)
    return TracedModule(load_with_extra(f, _extra_files))


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """A module in evaluation mode as a program whose weights are constants, copied, and no longer parameters.

    A scripted module that was not called yet is returned unchanged, as are attributes in `preserved_attrs`. Raises
    RuntimeError in training mode.
    """
    if isinstance(mod, Module) and mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )
    is_scripted = hasattr(type(mod), "_unscripted") and vars(mod).get(_EXAMPLES) is not None
    if not is_scripted and not isinstance(mod, Traced):
        return mod
    copies: dict[int, Tensor] = {}
    result = (type(mod) if isinstance(mod, Traced) else TracedModule)(
        _captured(mod).frozen(preserved_attrs or (), copies)
    )
    for name, method in mod._methods.items() if isinstance(mod, Traced) else ():
        result._add_methods({name: type(method)(method._exported.frozen(preserved_attrs or (), copies))})
    return result


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """As `freeze`, of which it is all. `other_methods`: attributes to preserve."""
    return freeze(mod, other_methods)
