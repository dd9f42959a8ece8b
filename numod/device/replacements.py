"""Faster replacements of functions of Numba, in place while kernels are compiled.

Each returns the same result as the original, except that `cast` defines the value of floats out of range.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Iterable

from . import code_library, progress, short_forms, wrapper

# flags that a function's callees do not inherit
_NOT_INHERITED = ("release_gil", "forceinline", "no_cfunc_wrapper", "no_cpython_wrapper")
_originals: list[tuple[object, str, object]] = []  # the attributes that are replaced now


def install(package: str, gpu: bool) -> None:
    """Replace functions of Numba, whose target for a GPU is in `package`."""
    replace(all_replacements(package, gpu))


def replace(replacements: Iterable[tuple[object, str, object]]) -> None:
    """Replace attributes: (owner, name, replacement)."""
    for owner, name, replacement in replacements:
        _originals.append((owner, name, own_attribute(owner, name)))
        setattr(owner, name, replacement)


def restore() -> list[tuple[object, str, object]]:
    """Restore Numba's functions. Returns what had replaced them, for `replace`."""
    replaced = [(owner, name, own_attribute(owner, name)) for owner, name, _ in _originals]
    while _originals:
        owner, name, function = _originals.pop()
        delattr(owner, name) if function is None else setattr(owner, name, function)
    return replaced


def own_attribute(owner: object, name: str) -> object:
    """An attribute of a class, module or object itself, not inherited; None if it does not exist."""
    return vars(owner).get(name) if hasattr(owner, "__dict__") else getattr(owner, name)  # a slot


@functools.cache
def all_replacements(package: str, gpu: bool) -> tuple[tuple[object, str, object], ...]:
    """Replacements of functions of Numba: (owner, name, replacement).

    The package "numba.cuda" has copies of most of the functions; "numba" has a target for a GPU, too, whose LLVM has
    pointers with types.
    """
    from llvmlite.binding import ffi
    from llvmlite.ir import IRBuilder
    from numba.core import callconv, cpu
    from numba.core.datamodel import models
    from numba.core.types import abstract, functions

    base, ir, postproc, targetconfig, transforms = (
        importlib.import_module(f"{package}.core.{name}")
        for name in ("base", "ir", "postproc", "targetconfig", "transforms")
    )
    typing, templates = (
        importlib.import_module(f"{package}{'.core' if package == 'numba' else ''}.typing.{name}")
        for name in ("context", "templates")
    )
    overload, processor = templates._OverloadFunctionTemplate, postproc.PostProcessor
    replacements = (
        (base.BaseContext, "refresh",
        _when_registered(base.BaseContext.refresh, lambda self: self.typing_context.refresh())),
        (typing.BaseContext, "refresh", _when_registered(typing.BaseContext.refresh)),
        (functions.BaseFunction, "get_call_type", _memoized(functions.BaseFunction.get_call_type)),
        (overload, "_get_impl", _shared(overload._get_impl, targetconfig)),
        (targetconfig.TargetConfig, "values", _values), (ir.Inst, "_rec_list_vars", _variables(ir)),
        (processor, "run", _when_needed(processor.run, transforms.canonicalize_cfg)),
        (base.BaseContext, "cast", _cast(base.BaseContext.cast, base.types)),
        (base.BaseContext, "get_abi_sizeof", _known_sizes(base.BaseContext.get_abi_sizeof)),
        (base, "_has_loc", _reads_loc(base._has_loc)),
        # Numba's path is relative to the working directory, which may be deleted
        (ir.Loc, "_get_path", lambda self: self.filename),
        # no virtual subclasses are registered, and no lock statistics are needed
        (abstract._TypeMetaclass, "__instancecheck__", type.__instancecheck__), (ffi.lib._lock, "_cblist", []),
    )  # fmt: skip
    if gpu:
        return replacements
    return (
        *replacements, (base.BaseContext, "get_function", _with_elements(base.BaseContext.get_function)),
        (base.BaseContext, "get_arg_packer", _known_packers(base.BaseContext.get_arg_packer)),
        (cpu.CPUContext, "create_cpython_wrapper", _wrapped(cpu.CPUContext.create_cpython_wrapper)),
        (callconv.CPUCallConv, "call_function", short_forms.call_function(callconv.CPUCallConv.call_function)),
        (callconv.CPUCallConv, "return_status_propagate",
        short_forms.propagate(callconv.CPUCallConv.return_status_propagate)),
        (models.ArrayModel, "from_argument", short_forms.with_parts(models.ArrayModel.from_argument)),
        (models.ArrayModel, "as_argument", short_forms.as_parts(models.ArrayModel.as_argument)),
        (IRBuilder, "bitcast", short_forms.same_pointer(IRBuilder.bitcast)),
    )  # fmt: skip


def _when_registered(refresh: Callable, otherwise: Callable = lambda self: None) -> Callable:
    """`refresh` of a context, which reads all registries of functions, called only if one of them has grown.

    Numba calls it a hundred times for each function.
    """
    sizes: dict[int, int] = {}

    def size(registries: dict) -> int:
        return sum(
            [len(getattr(registry, name)) for registry, loader in registries.items() for name in loader.registry_items]
        )

    def refreshed(self: object) -> None:
        if sizes.get(id(self._registries)) == size(self._registries):
            otherwise(self)
        else:
            refresh(self)
            sizes[id(self._registries)] = size(self._registries)

    return refreshed


def _with_elements(find: Callable) -> Callable:
    """`get_function`, with shorter code for reading or writing an element of a flat array.

    Numba's code creates the array's struct in memory and reads all its fields.
    """
    from numba import types
    from numba.core import base
    from numba.np import arrayobj

    def is_element(array: object, index: object, *value: object) -> bool:
        return (
            type(array) is types.Array
            and array.ndim == 1
            and array.layout == "C"
            and isinstance(index, types.Integer)
            and isinstance(array.dtype, types.Number)
        )

    def element_pointer(context: object, builder: object, kinds: tuple, array: object, index: object) -> object:
        if kinds[1].signed:
            index = arrayobj.fix_integer_index(context, builder, kinds[1], index, short_forms.size(builder, array))
        return builder.gep(short_forms.data(builder, array), [index])

    def read(context: object, builder: object, signature: object, values: tuple) -> object:
        return arrayobj.load_item(
            context, builder, signature.args[0], element_pointer(context, builder, signature.args, *values)
        )

    def write(context: object, builder: object, signature: object, values: tuple) -> None:
        array, _, kind = signature.args
        value = context.cast(builder, values[2], kind, array.dtype)
        arrayobj.store_item(
            context, builder, array, value, element_pointer(context, builder, signature.args, *values[:2])
        )

    accesses = {operator.getitem: read, operator.setitem: write}
    divisions = short_forms.divisions()

    def get_function(self: object, function: object, signature: object, _firstcall: bool = True) -> object:
        progress.checkpoint()
        key = getattr(function, "typing_key", None)
        if key in divisions and short_forms.can_divide(self, signature):
            return base._wrap_impl(divisions[key], self, signature)
        access = accesses.get(key)
        if access is None or not is_element(*signature.args) or self.enable_boundscheck:
            return find(self, function, signature, _firstcall)
        return base._wrap_impl(access, self, signature)

    return get_function


def _memoized(resolve: Callable) -> Callable:
    """`get_call_type`, memoized for operators.

    Numba tries all its typing rules each time, and again when it generates instructions.
    """
    cache: dict[tuple, object] = {}

    def resolved(self: object, context: object, arguments: tuple, kwargs: dict) -> object:
        progress.checkpoint()
        if kwargs or getattr(getattr(self, "typing_key", None), "__module__", None) != operator.add.__module__:
            return resolve(self, context, arguments, kwargs)
        key = self, tuple(arguments)
        if key not in cache:
            cache[key] = resolve(self, context, arguments, kwargs)
        return cache[key]

    return resolved


def _shared(implementation: Callable, targetconfig: object) -> Callable:
    """An overload's implementation, shared by all callers.

    Numba would compile it again for callers with other flags (kernels, helpers).
    """
    cache: dict = {}

    def shared(self: object, arguments: tuple, kwargs: dict) -> tuple:
        flags = targetconfig.ConfigStack.top_or_none()
        if flags is None:
            return implementation(self, arguments, kwargs)
        key = repr([item for item in flags._values.items() if item[0] not in _NOT_INHERITED])
        if key not in cache:
            cache[key] = flags.copy()
            for name in _NOT_INHERITED:
                cache[key].discard(name)
        with targetconfig.ConfigStack().enter(cache[key]):
            return implementation(self, arguments, kwargs)

    return shared


def _values(self: object) -> dict[str, object]:
    """All options of a target configuration with their values, which Numba reads one by one, through properties."""
    return {**_defaults(type(self)), **self._values}


@functools.cache
def _defaults(kind: type) -> dict[str, object]:
    return {name: option.default for name, option in kind.options.items()}


def _variables(ir: object) -> Callable:
    """The variables in an operand of an IR instruction, dispatched by its exact type; names and locations have none."""
    kinds: dict[type, Callable] = {}

    def variables_of(self: object, value: object) -> list:
        kind = type(value)
        if kind not in kinds:
            kinds[kind] = choose(kind)
        return kinds[kind](value)

    def of_parts(parts: Iterable) -> list:
        variables: list = []
        for part in parts:
            kind = type(part)
            if kind is ir.Var:
                variables.append(part)
            elif kind is not str and kind is not ir.Loc:
                variables += variables_of(None, part)
        return variables

    def choose(kind: type) -> Callable:
        if issubclass(kind, ir.Var):
            return lambda value: [value]
        if issubclass(kind, ir.Inst):
            return lambda value: value.list_vars()
        if issubclass(kind, dict):
            return lambda value: of_parts(value.values())
        if issubclass(kind, (list, tuple)):
            return of_parts
        return lambda value: []

    return variables_of


def _when_needed(run: Callable, canonicalize_cfg: Callable) -> Callable:
    """`PostProcessor.run`, which computes variable lifetimes only if they are needed, as before lowering.

    Numba does so after every pass.
    """

    def post_process(self: object, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        progress.checkpoint()
        if emit_dels or self.func_ir.is_generator:
            run(self, emit_dels, extend_lifetimes)
        else:
            self.func_ir.blocks, self.func_ir.generator_info = canonicalize_cfg(self.func_ir.blocks), None

    return post_process


def _cast(original: Callable, types: object) -> Callable:
    """`cast` with PyTorch's conversion of floats to integers on x86: to int32 or int64, then truncated to the type.

    Floats out of range and NaN become the least int32 or int64; uint64 holds floats up to 2**64. LLVM's conversion,
    which Numba uses, is undefined for them: it differs between vectors and the scalar rest of a loop.
    """

    def cast(self: object, builder: object, value: object, source: object, target: object) -> object:
        if not (isinstance(source, types.Float) and isinstance(target, types.Integer)):
            return original(self, builder, value, source, target)
        if (target.bitwidth, target.signed) == (64, False):
            return _as_unsigned64(builder, value)
        # float32 to uint8 or uint16: int32 has the same result
        unsigned = not target.signed and (source.bitwidth, target.bitwidth) not in ((32, 8), (32, 16))
        return _whole_number(
            builder, value, 64 if unsigned or target.bitwidth > 32 else 32, self.get_value_type(target)
        )

    return cast


def _as_unsigned64(builder: object, value: object) -> object:
    """Convert a float to uint64 as PyTorch does on x86: from 2**63 on, 2**63 is added to the rest as an integer."""
    from llvmlite import ir

    integer, limit = ir.IntType(64), ir.Constant(value.type, 2.0**63)
    large = builder.fcmp_ordered(">=", value, limit)
    part = _whole_number(builder, builder.select(large, builder.fsub(value, limit), value), 64, integer)
    return builder.select(large, builder.xor(part, ir.Constant(integer, -(2**63))), part)


def _whole_number(builder: object, value: object, width: int, result: object) -> object:
    """Convert a float to a signed integer of `width` bits, then truncate to type `result`."""
    from llvmlite import ir

    integer, limit = ir.IntType(width), ir.Constant(value.type, 2.0 ** (width - 1))
    fits = builder.and_(
        builder.fcmp_ordered("<", value, limit),
        builder.fcmp_ordered(">", value, ir.Constant(value.type, -(2.0 ** (width - 1)))),
    )
    whole = builder.select(fits, builder.fptosi(value, integer), ir.Constant(integer, -(2 ** (width - 1))))
    return whole if width == result.width else builder.trunc(whole, result)


def _known_sizes(measure: Callable) -> Callable:
    """`get_abi_sizeof`, memoized by type: it makes LLVM parse a module to find the size of a type."""
    cache: dict[str, int] = {}

    def sized(self: object, kind: object) -> int:
        key = str(kind)
        if key not in cache:
            cache[key] = measure(self, kind)
        return cache[key]

    return sized


def _known_packers(make: Callable) -> Callable:
    """`get_arg_packer`, memoized by types: it looks up how each is passed, for every call in a kernel."""
    cache: dict[tuple, object] = {}

    def packer(self: object, kinds: Iterable) -> object:
        key = self.data_model_manager, *kinds
        if key not in cache:
            cache[key] = make(self, kinds)
        return cache[key]

    return packer


def _reads_loc(original: Callable) -> Callable:
    """Whether a function has an argument `loc`, read from its code instead of its signature."""

    def has_loc(function: object) -> bool:
        code = getattr(function, "__code__", None)
        if code is None or hasattr(function, "__wrapped__"):
            return original(function)
        return "loc" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

    return has_loc


def _wrapped(original: Callable) -> Callable:
    """`create_cpython_wrapper`: the short wrapper of kernels."""
    from llvmlite.binding import parse_assembly

    def create(
        self: object, library: object, fndesc: object, env: object, call_helper: object, release_gil: bool = False
    ) -> None:
        text = wrapper.text(
            fndesc.llvm_cpython_wrapper_name,
            fndesc.llvm_func_name,
            fndesc.env_name,
            fndesc.argtypes,
            fndesc.restype,
            release_gil,
        )
        if text is None:
            original(self, library, fndesc, env, call_helper, release_gil)
        else:
            library.add_llvm_module(parse_assembly(text))
            library.add_linking_library(
                code_library.shared_instructions(wrapper.TAKE_ARGUMENTS, wrapper.TAKE_ARGUMENTS_TEXT)
            )

    return create
