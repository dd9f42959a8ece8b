"""Writes the files that accompany the objects: the C header, an example, a README."""

from __future__ import annotations

from collections.abc import Sequence

import re

from . import polynomial
from .interface import ALIGNMENT, CHECK, CODES, Interface, Port, Size

RESERVED = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof "
    "static struct switch typedef union unsigned void volatile while class new delete this template bool true false "
    "weights arena arena_bytes".split()
)


Described = tuple[Interface, int, int]  # an entry point, bytes of arena that any call needs, and its self-test's


def header(library: Interface, parts: Sequence[Described], abi: int) -> str:
    """NAME.h."""
    name, upper = library.name, library.name.upper()
    codes = "\n".join(f"#define {upper}_{key:<16} {code:>2}  /* {text} */" for key, (code, text) in CODES.items())
    checks = "".join(
        f"#define {upper}_ERROR_INDEX{k:<5} {CHECK + k:>2}  /* index out of range, {_in_comment(check)} */\n"
        for k, check in enumerate(library.checks)
    )
    most = max(ALIGNMENT, *(need for _, need, _ in parts))
    several = (
        "" if parts[0][0].name == name else f"#define {upper}_ARENA_BYTES    {most}  /* enough for each function */\n"
    )
    return f"""\
/* {name}.h: a network exported by numod. No allocation, no I/O, no globals: threads may share the weights, each with
   an arena of its own. */
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {upper}_ABI            {abi}
#define {upper}_WEIGHTS_BYTES  {library.weights_bytes}
{several}
{codes}
{checks}
{_places(library)}{"".join(_part(library, *part) for part in parts)}
/* What a code means. */
const char *{name}_error(int code);

/* {upper}_OK if this header belongs to the library: {name}_check({upper}_ABI). */
int {name}_check(int abi);

{_state_functions(library)}#ifdef __cplusplus
}}
#endif
#endif
"""


def _part(library: Interface, interface: Interface, arena: int, sample_arena: int) -> str:
    """The functions of an entry point."""
    name, upper = interface.name, interface.name.upper()
    block, const, weights = _weights(library)
    selftest_arena = max(arena, sample_arena, ALIGNMENT) + interface.sample_bytes
    arrays = "".join(_ranged(size) for size in interface.sizes)
    arrays += "".join(_described(interface, array) for array in (*interface.inputs, *interface.outputs))
    parameters = "".join(f", int64_t {size.name}" for size in interface.sizes)
    parameters += "".join(
        f", {'' if array.written else 'const '}{array.c_type} *{array.name}" for array in interface.inputs
    ) + "".join(f", {array.c_type} *{array.name}" for array in interface.outputs)
    weights_parameter = "" if interface.embedded else f"const void *{block}, "
    return f"""\
/* working memory of a call, aligned to {ALIGNMENT} bytes; its contents need not be kept */
#define {upper}_ARENA_BYTES    {max(arena, ALIGNMENT)}
#define {upper}_SELFTEST_BYTES {selftest_arena}  /* arena of {name}_selftest */
{"".join(_range(upper, size) for size in interface.sizes)}\
{"".join(_size(interface, port) for port in (*interface.inputs, *interface.outputs))}
/* Run the network once. Returns {library.name.upper()}_OK or a code.
   {block}: {weights}.
{arrays}   Arrays are row-major, without gaps; they may not overlap. */
int {name}_run({const}void *{block}, void *arena, size_t arena_bytes{parameters});

/* Bytes of arena that this machine's code needs for {_what(interface)}; at most {upper}_ARENA_BYTES. */
size_t {name}_arena_bytes(int64_t {interface.sizes[0].name if interface.sizes else "batch"});

/* Run an embedded sample and compare with the results recorded at export. */
int {name}_selftest({weights_parameter}void *arena, size_t arena_bytes);

"""


def _weights(library: Interface) -> tuple[str, str, str]:
    """(the parameter name of the block of weights, its qualifier, its description)."""
    name, upper = library.name, library.name.upper()
    if not library.stateful:
        other = f"the data of {name}.safetensors, {upper}_WEIGHTS_BYTES"
        return "weights", "const ", "NULL for the embedded ones" if library.embedded else other
    begin = f"which {name}_state_init begins" if library.embedded else f"which begin as the data of {name}.safetensors"
    text = f"{upper}_STATE_BYTES of the caller's, {begin}; aligned to {ALIGNMENT} bytes. A run writes to them"
    return "state", "", text


def _places(interface: Interface) -> str:
    """Macros for the offsets of tensors in the state."""
    if not interface.stateful:
        return ""
    upper = interface.name.upper()
    lines, taken = [f"#define {upper}_STATE_BYTES {interface.weights_bytes}\n"], set()
    for weight in interface.weights:
        key = re.sub(r"\W", "_", weight.name.upper(), flags=re.A)
        if key not in taken:
            taken.add(key)
            comment = _in_comment(f"{weight.name}: {weight.dtype}{list(weight.shape)}")
            lines.append(f"#define {upper}_AT_{key} {weight.offset}  /* {comment} */\n")
    return "".join(lines)


def _state_functions(interface: Interface) -> str:
    if not interface.stateful:
        return ""
    name, upper = interface.name, interface.name.upper()
    first = (
        f"/* Write the initial state. */\nint {name}_state_init(void *state);\n\n"
        if interface.embedded
        else f"/* The initial state is not embedded: returns {upper}_ERROR_NULL. */\nint {name}_state_init(void "
        "*state);\n\n"
    )
    return f"""{first}\
/* What stands before a state in a safetensors file, and how many bytes: a file of both has the weights by their
   names. */
const void *{name}_state_header(size_t *bytes);

"""


def _in_comment(text: str) -> str:
    """Text that may come from a file, escaped so that it does not end a C comment."""
    return text.replace("*/", "* /")


def _range(upper: str, size: Size) -> str:
    name = f"{upper}_{size.name.upper()}"
    return f"#define {name}_MIN {size.low}\n#define {name}_MAX {size.high}\n"


def _ranged(size: Size) -> str:
    return f"   {size.name}: from {size.low} to {size.high}.\n"


def _what(interface: Interface) -> str:
    if len(interface.sizes) < 2:
        return "a batch"
    others = ", ".join(size.name for size in interface.sizes[1:])
    return f"a {interface.sizes[0].name}, whatever {others} {'is' if len(interface.sizes) == 2 else 'are'}"


def _size(interface: Interface, port: Port) -> str:
    """Macros for the number of C elements of a port, and for its scale and zero point if it is quantized.

    The number takes the sizes if the port has dynamic dimensions.
    """
    name, count = f"{interface.name.upper()}_{port.name.upper()}", _count(interface, port)
    if not port.scale:
        return count
    scale = f"#define {name}_SCALE {port.scale!r}f  /* value = scale * (integer - zero point) */\n"
    return f"{count}{scale}#define {name}_ZERO_POINT {port.zero_point}\n"


def _count(interface: Interface, port: Port) -> str:
    name = f"{interface.name.upper()}_{port.name.upper()}_COUNT"
    if not _is_dynamic(port):
        return f"#define {name} {port.c_count}\n"
    factors = [f"({dim})" if " " in dim else dim for dim in _dims(port, _in_macro(interface)) if dim != "1"]
    factors += ["2"] if port.c_count != port.count else []
    return f"#define {name}({_names(interface)}) ({' * '.join(factors)})\n"


def _is_dynamic(port: Port) -> bool:
    return any(any(powers) for terms in port.dims for _, powers in terms)


def _names(interface: Interface) -> str:
    return ", ".join(size.name for size in interface.sizes)


def _in_macro(interface: Interface) -> list[str]:
    return [f"(size_t)({size.name})" for size in interface.sizes]


def _dims(port: Port, names: Sequence[str]) -> list[str]:
    """A port's shape as C expressions of the dynamic dimensions."""
    if not port.dims:
        return [*map(str, port.shape)]
    return [polynomial.text(terms, names) for terms in port.dims]


def _described(interface: Interface, port: Port) -> str:
    note = "" if port.storage == port.dtype else f", stored as {port.c_type}"
    shape = ", ".join(_dims(port, [size.name for size in interface.sizes]))
    return f"   {port.name}: {port.dtype}[{shape}]{note}\n"


def _most(interface: Interface, port: Port) -> str:
    """A C expression for the largest number of elements of a port."""
    upper = interface.name.upper()
    name = f"{upper}_{port.name.upper()}_COUNT"
    most = ", ".join(f"{upper}_{size.name.upper()}_MAX" for size in interface.sizes)
    return f"{name}({most})" if _is_dynamic(port) else name


def example(library: Interface, parts: Sequence[Interface]) -> str:
    """example.c."""
    name, upper = library.name, library.name.upper()
    embedded = library.embedded and not library.stateful
    weights = "NULL" if embedded else "weights"
    if library.stateful and library.embedded:
        read = f"    {name}_state_init(weights);\n"
    elif embedded:
        read = ""
    else:
        read = f"""\
    /* the data of a safetensors file begins behind its header, whose length the first eight bytes say */
    FILE *file = fopen("{name}.safetensors", "rb");
    uint64_t length = 0;
    if (!file || fread(&length, 8, 1, file) != 1 || fseek(file, (long)length, SEEK_CUR)
        || fread(weights, 1, {upper}_WEIGHTS_BYTES, file) != {upper}_WEIGHTS_BYTES) {{
        fprintf(stderr, "cannot read {name}.safetensors\\n");
        return 1;
    }}
    fclose(file);
"""
    block = "" if embedded else f"static uint64_t weights[{upper}_WEIGHTS_BYTES / 8 + 1];\n"
    calls = "".join(_example_call(library, part, weights) for part in parts)
    arrays = "\n".join(
        f"static {port.c_type} {_variable(library, part, port)}[{_most(part, port)} + 1];"
        for part in parts
        for port in (*part.inputs, *part.outputs)
    )
    room = "".join(f"static uint64_t {_arena(library, part)}[{part.name.upper()}_SELFTEST_BYTES / 8 + 1];\n"
        for part in parts)  # fmt: skip
    return f"""\
/* cc -O2 example.c {name}-native.o -lm -o example && ./example */
#include <stdio.h>
#include "{name}.h"

{room}{block}{arrays}

int main(void)
{{
    int code;
{read}{calls}    return 0;
}}
"""


def _variable(library: Interface, part: Interface, port: Port) -> str:
    return f"{part.name.removeprefix(library.name)}_{port.name}".strip("_")


def _arena(library: Interface, part: Interface) -> str:
    return f"{part.name.removeprefix(library.name)}_arena".strip("_")


def _example_call(library: Interface, part: Interface, weights: str) -> str:
    """The example's statements that test and call an entry point."""
    name, arena = part.name, _arena(library, part)
    ports = [*part.inputs, *part.outputs]
    arguments = "".join(f", {name.upper()}_{size.name.upper()}_MAX" for size in part.sizes)
    arguments += "".join(f", {_variable(library, part, port)}" for port in ports)
    printed = part.outputs[0] if part.outputs else None
    print_statement = (
        ""
        if printed is None
        else f"""\
    for (size_t k = 0; k < {_most(part, printed)} && k < 10; k++)
        printf("{printed.name}[%zu] = %g\\n", k, (double){_variable(library, part, printed)}[k]);
"""
    )
    test = arena if library.embedded else f"weights, {arena}"
    return f"""\
    code = {name}_selftest({test}, sizeof {arena});
    if (code == {library.name.upper()}_OK)
        code = {name}_run({weights}, {arena}, sizeof {arena}{arguments});
    if (code != {library.name.upper()}_OK) {{
        fprintf(stderr, "{name}: %s\\n", {library.name}_error(code));
        return 1;
    }}
{print_statement}"""


def readme(library: Interface, parts: Sequence[Interface], targets: Sequence[str], arena: int) -> str:
    """README."""
    name = library.name
    weights_place = "embedded in the code" if library.embedded else f"in {name}.safetensors"
    functions = ", ".join(f"{part.name}_run, {part.name}_selftest, {part.name}_arena_bytes" for part in parts)
    call = ".run(x)" if parts[0].name == name else f".{parts[0].name.removeprefix(name + '_')}(x)"
    return f"""\
{name}: a network exported by numod for {", ".join(targets)}.
It needs {arena} bytes of working memory and {library.weights_bytes} bytes of weights, {weights_place}.

{name}.h        the functions: {functions}, {name}_error, {name}_check
{name}-TARGET.* an object file for each target, and a shared library where a linker was at hand
{name}.json     inputs, outputs, weights, memory and targets
{name}.py       runs it from Python: import {name}; {name}.load(){call}
example.c       a program that calls it: cc -O2 example.c {name}-native.o -lm -o example

The code allocates nothing, does no I/O and has no globals. Threads may share the weights, each with an arena of its
own.
"""
