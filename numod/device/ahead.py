"""Ahead-of-time compilation: object files for this or another machine, which run without Python.

Numba types a kernel as usual, with integers and addresses of 64 bits, but does not optimise or generate code. The
unoptimised module gets the target's data layout, so on 32-bit machines addresses are truncated where they become
pointers. Only the exported functions are visible outside the object file.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import code_library, cpu, helpers, target

_MERGED_LINKAGE = "linkonce_odr"
# Numba's store of an exception, as in a loop with a step of 0
_EXCEPTION = re.compile(r"^ *store ptr @\.const\.picklebuf.*\n", re.M)
_FULL_LEVEL, _CHEAP_LEVEL = 3, 0  # optimisation levels


@dataclass(frozen=True)
class Function:
    """A function translated by Numba: an unoptimised LLVM module with everything it calls, and its name in the module.

    `shared` functions are not inlined; `generic` functions are not specialised for the arguments of their calls.
    """

    module: object
    name: str
    shared: tuple[str, ...]
    generic: tuple[str, ...] = ()


def translated(function: Callable, signature: str, fastmath: frozenset[str], generic: Sequence[str] = ()) -> Function:
    """Translate a kernel with Numba for the machine of `target.compile_for`.

    Shared functions are not inlined, so that results equal the JIT's.
    """
    result = cpu.translate(function, signature, fastmath, alone=True, library=code_library.unoptimised_library_class)
    libraries = [part for part in code_library.parts(result.library) if part is not result.library]
    shared = [
        function.name
        for library in libraries
        for function in library._final_module.functions
        if not function.is_declaration and not _is_always_inlined(function)
    ]
    module = result.library._final_module
    mangled = [f"{len(name)}{name}B" for name in generic]  # how Numba mangles a function's name
    generic_names = [
        function.name
        for function in module.functions
        if not function.is_declaration and any(mark in function.name for mark in mangled)
    ]
    return Function(module, result.fndesc.llvm_func_name, tuple(shared), tuple(generic_names))


def _is_always_inlined(function: object) -> bool:
    return any(b"alwaysinline" in attributes for attributes in function.attributes)


def object_file(
    function: Function, text: str, exported: Sequence[str], machine: target.Machine, size: bool = False
) -> bytes:
    """The object file of the function and of LLVM's `text`, which calls it as `@kernel` and defines the exported names.

    `size` optimises for size instead of speed.
    """
    generator = _generator(machine)
    module = _linked_module(function, text, machine, generator)
    module.get_function("kernel").linkage = "internal"
    # a small network may be smallest with unrolled loops
    attribute_sets = (("minsize", "optsize"), ("optsize",), ()) if size else ((),)
    candidates = (
        _optimised(module.clone(), function, exported, generator, size, attributes) for attributes in attribute_sets
    )
    return min((_emit_object(candidate, machine, generator) for candidate in candidates), key=len)


def kernel_text(function: Function, text: str, name: str, machine: target.Machine, size: bool = False) -> str:
    """LLVM's text of the function alone, optimised for a machine, for `merged`. `text`: constants that it reads."""
    generator = _generator(machine)
    module = _linked_module(function, text, machine, generator)
    module = _optimised(module, function, ["kernel"], generator, size, ("optsize",) if size else ())
    module.get_function("kernel").name = name
    attributes = f'"target-cpu"="{machine.processor}" "target-features"="{machine.features}"'
    return re.sub(r"^(define .*?)( #\d+(?: [^{\n]*)?\{)$", rf"\1 {attributes}\2", str(module), flags=re.M)


def merged(texts: Sequence[str], text: str, exported: Sequence[str], machine: target.Machine) -> bytes:
    """The object file of functions for several machines (`kernel_text`) and of the `text` that calls them."""
    import llvmlite.binding as llvm

    generator = _generator(machine)
    module = llvm.parse_assembly(text)
    _set_target(module, machine, generator)
    for function in module.functions:
        if not function.is_declaration:
            function.add_function_attribute("nounwind")
    _optimise(module, generator, False)
    for kernel in texts:
        added = llvm.parse_assembly(kernel)
        _set_target(added, machine, generator)
        module.link_in(added)
    _set_linkage(module, set(exported), "internal")
    _finish(module, generator)
    return _emit_object(module, machine, generator)


def _linked_module(function: Function, text: str, machine: target.Machine, generator: object) -> object:
    """A module with the function, named `kernel`, and LLVM's text."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(_EXCEPTION.sub("", str(function.module)))
    module.get_function(function.name).name = "kernel"
    _set_linkage(module, {"kernel"}, _MERGED_LINKAGE)
    for name in function.generic:
        # `weak_any`: LLVM must not assume anything about the body
        module.get_function(name).linkage = "weak_any"
        module.get_function(name).add_function_attribute("noinline")
    text_module = llvm.parse_assembly(text)
    for name in (module, text_module):
        _set_target(name, machine, generator)
    module.link_in(text_module)
    return module


def _optimised(
    module: object,
    function: Function,
    exported: Sequence[str],
    generator: object,
    size: bool,
    attributes: Sequence[str],
) -> object:
    """Optimise a module with these function attributes."""
    for part in module.functions:
        if not part.is_declaration:
            for attribute in ("nounwind", *attributes):
                part.add_function_attribute(attribute)
    # inlined into its caller, a kernel could be vectorised and rounded differently
    for part in function.shared if size else ("kernel", *function.shared):
        module.get_function(part).add_function_attribute("noinline")
    module.verify()
    _optimise(module, generator, bool(attributes))
    _set_linkage(module, set(exported), "internal")
    _finish(module, generator)
    return module


def _emit_object(module: object, machine: target.Machine, generator: object) -> bytes:
    """The object file, with the helper functions that its code calls."""
    import llvmlite.binding as llvm

    defined: set[str] = set()
    while True:
        code = generator._tm.emit_object(module.clone())  # a clone, since it changes the module
        missing = (
            helpers.undefined_symbols(code) - defined - (helpers.MEMORY | helpers.MATH if machine.shares else set())
        )
        texts = [
            text for text in (helpers.text_of(symbol, machine.bits) for symbol in sorted(missing)) if text is not None
        ]
        if not texts:
            return code
        defined |= missing
        for text in texts:
            helper = llvm.parse_assembly(text)
            _set_target(helper, machine, generator)
            module.link_in(helper)


def _set_target(module: object, machine: target.Machine, generator: object) -> None:
    module.triple, module.data_layout = machine.triple, str(generator._tm.target_data)


def _generator(machine: target.Machine) -> object:
    """A copy of Numba's code generator for the machine."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    generator = copy.copy(code_library.codegen())
    relocation = "pic" if machine.shares else "static"
    options = {
        "cpu": machine.processor,
        "features": machine.features,
        "opt": _FULL_LEVEL,
        "reloc": relocation,
        "codemodel": "default",
        "abiname": machine.abi,
    }
    generator._tm = llvm.Target.from_triple(machine.triple).create_target_machine(**options)
    return generator


def _set_linkage(module: object, visible: set[str], linkage: str) -> None:
    """Set the linkage of all functions and variables except `visible` ones and LLVM's own (`llvm.*`)."""
    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration and symbol.name not in visible and not symbol.name.startswith("llvm."):
            symbol.linkage = linkage


def _optimise(module: object, generator: object, size: bool) -> None:
    """Run Numba's two pass pipelines: a cheap one, which inlines, and the full one."""
    cheap, builder = generator._module_pass_manager(
        loop_vectorize=False, slp_vectorize=False, opt=_CHEAP_LEVEL, cost="cheap"
    )
    cheap.run(module, builder)
    options = {"opt": 2, "loop_vectorize": False} if size else {}
    full, builder = generator._module_pass_manager(**options)
    full.run(module, builder)


def _finish(module: object, generator: object) -> None:
    """Remove unused code, and rename local functions, so that names do not depend on Numba's counter."""
    import llvmlite.binding as llvm

    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, generator._pass_builder())
    local_symbols = [
        symbol
        for symbol in (*module.functions, *module.global_variables)
        if not symbol.is_declaration and symbol.linkage == llvm.Linkage.internal
    ]
    for number, symbol in enumerate(local_symbols):
        symbol.name = f"local{number}"
