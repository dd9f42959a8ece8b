"""Machine code in an object file, for this or another machine, without Python: ahead of time, as opposed to `compiler`,
whose code this process runs.

Numba types a kernel as ever, with integers and addresses of 64 bits; its own optimisation and code generation are left
out. The unoptimised module takes the target's data layout, so on machines of 32 bits addresses are truncated where they
become pointers. Nothing but the named functions is visible outside.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import compiler, cpu, helpers, target

_LINKED = "linkonce_odr"
# where Numba stores what would be raised, as in a loop with a step of 0
_EXCEPTION = re.compile(r"^ *store ptr @\.const\.picklebuf.*\n", re.M)
_FULL, _CHEAP = 3, 0  # optimisation levels


@dataclass(frozen=True)
class Function:
    """A function that Numba translated: an unoptimised LLVM module with all that it calls, its name there, and the
    functions that are not to be inlined.

    `generic`: functions that are compiled for any arguments, whatever their calls say.
    """

    module: object
    name: str
    shared: tuple[str, ...]
    generic: tuple[str, ...] = ()


def translated(function: Callable, signature: str, fastmath: frozenset[str], generic: Sequence[str] = ()) -> Function:
    """What Numba makes of a kernel, for the machine of `target.compile_for`.

    Shared functions stay functions, so results do not differ from the JIT's.
    """
    result = cpu.translate(function, signature, fastmath, alone=True, library=compiler.unoptimised_library_class)
    libraries = [part for part in compiler.parts(result.library) if part is not result.library]
    shared = [
        function.name
        for library in libraries
        for function in library._final_module.functions
        if not function.is_declaration
    ]
    module = result.library._final_module
    marks = [f"{len(each)}{each}B" for each in generic]  # how Numba's names for the linker have a function's
    named = [
        function.name
        for function in module.functions
        if not function.is_declaration and any(mark in function.name for mark in marks)
    ]
    return Function(module, result.fndesc.llvm_func_name, tuple(shared), tuple(named))


def object_file(
    function: Function, text: str, exported: Sequence[str], machine: target.Machine, size: bool = False
) -> bytes:
    """The object file of the function and of LLVM's `text`, which calls it by the name `@kernel` and defines what is
    `exported`. `size`: small, not fast.
    """
    generator = _generator(machine)
    module = _joined(function, text, machine, generator)
    module.get_function("kernel").linkage = "internal"
    # a small network may be smallest where its loops are unrolled
    ways = (("minsize", "optsize"), ("optsize",), ()) if size else ((),)
    made = (_optimised(module.clone(), function, exported, generator, size, way) for way in ways)
    return min((_complete(each, machine, generator) for each in made), key=len)


def kernel_text(function: Function, text: str, name: str, machine: target.Machine, size: bool = False) -> str:
    """LLVM's text of the function alone, optimised for a machine, for `merged`. `text`: constants that it reads."""
    generator = _generator(machine)
    module = _joined(function, text, machine, generator)
    module = _optimised(module, function, ["kernel"], generator, size, ("optsize",) if size else ())
    module.get_function("kernel").name = name
    marks = f'"target-cpu"="{machine.processor}" "target-features"="{machine.features}"'
    return re.sub(r"^(define .*?)( #\d+(?: [^{\n]*)?\{)$", rf"\1 {marks}\2", str(module), flags=re.M)


def merged(texts: Sequence[str], text: str, exported: Sequence[str], machine: target.Machine) -> bytes:
    """The object file of functions for several machines (`kernel_text`) and of the `text` that calls them."""
    import llvmlite.binding as llvm

    generator = _generator(machine)
    module = llvm.parse_assembly(text)
    _aim(module, machine, generator)
    for each in module.functions:
        if not each.is_declaration:
            each.add_function_attribute("nounwind")
    _optimise(module, generator, False)
    for each in texts:
        added = llvm.parse_assembly(each)
        _aim(added, machine, generator)
        module.link_in(added)
    _hide(module, set(exported), "internal")
    _finish(module, generator)
    return _complete(module, machine, generator)


def _joined(function: Function, text: str, machine: target.Machine, generator: object) -> object:
    """A module of the function, named `kernel`, and of LLVM's text."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(_EXCEPTION.sub("", str(function.module)))
    module.get_function(function.name).name = "kernel"
    _hide(module, {"kernel"}, _LINKED)
    for each in function.generic:
        # another body might be linked in, so LLVM takes nothing about it for granted
        module.get_function(each).linkage = "weak_any"
        module.get_function(each).add_function_attribute("noinline")
    added = llvm.parse_assembly(text)
    for each in (module, added):
        _aim(each, machine, generator)
    module.link_in(added)
    return module


def _optimised(
    module: object,
    function: Function,
    exported: Sequence[str],
    generator: object,
    size: bool,
    attributes: Sequence[str],
) -> object:
    """A module, optimised in one way."""
    for each in module.functions:
        if not each.is_declaration:
            for attribute in ("nounwind", *attributes):
                each.add_function_attribute(attribute)
    # a kernel inlined into its caller may be vectorised otherwise, and round otherwise
    for each in function.shared if size else ("kernel", *function.shared):
        module.get_function(each).add_function_attribute("noinline")
    module.verify()
    _optimise(module, generator, bool(attributes))
    _hide(module, set(exported), "internal")
    _finish(module, generator)
    return module


def _complete(module: object, machine: target.Machine, generator: object) -> bytes:
    """The object file, with the helpers that its code calls."""
    import llvmlite.binding as llvm

    known: set[str] = set()
    while True:
        code = generator._tm.emit_object(module.clone())  # which changes the module
        missing = helpers.undefined_symbols(code) - known - (helpers.MEMORY | helpers.MATH if machine.shares else set())
        texts = [text for text in (helpers.text_of(each, machine.bits) for each in sorted(missing)) if text is not None]
        if not texts:
            return code
        known |= missing
        for text in texts:
            added = llvm.parse_assembly(text)
            _aim(added, machine, generator)
            module.link_in(added)


def _aim(module: object, machine: target.Machine, generator: object) -> None:
    module.triple, module.data_layout = machine.triple, str(generator._tm.target_data)


def _generator(machine: target.Machine) -> object:
    """A copy of Numba's code generator for the machine."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    made = copy.copy(compiler.codegen())
    relocation = "pic" if machine.shares else "static"
    options = {
        "cpu": machine.processor,
        "features": machine.features,
        "opt": _FULL,
        "reloc": relocation,
        "codemodel": "default",
        "abiname": machine.abi,
    }
    made._tm = llvm.Target.from_triple(machine.triple).create_target_machine(**options)
    return made


def _hide(module: object, visible: set[str], linkage: str) -> None:
    """Give all functions and variables but the `visible` ones this linkage.

    What begins with `llvm.` belongs to LLVM.
    """
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and each.name not in visible and not each.name.startswith("llvm."):
            each.linkage = linkage


def _optimise(module: object, generator: object, size: bool) -> None:
    """Numba's two rounds of passes: a cheap one, which inlines, and the full one."""
    cheap, builder = generator._module_pass_manager(loop_vectorize=False, slp_vectorize=False, opt=_CHEAP, cost="cheap")
    cheap.run(module, builder)
    options = {"opt": 2, "loop_vectorize": False} if size else {}
    full, builder = generator._module_pass_manager(**options)
    full.run(module, builder)


def _finish(module: object, generator: object) -> None:
    """Remove what nothing uses, and give local functions short names, which do not depend on how many functions Numba
    has seen.
    """
    import llvmlite.binding as llvm

    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, generator._pass_builder())
    local = [
        each
        for each in (*module.functions, *module.global_variables)
        if not each.is_declaration and each.linkage == llvm.Linkage.internal
    ]
    for number, each in enumerate(local):
        each.name = f"local{number}"
