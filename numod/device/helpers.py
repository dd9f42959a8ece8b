"""Functions that LLVM's code calls for missing instructions, as a compiler's run-time library provides them.

Also memory functions, for targets without a C library.

They are weak and hidden: a program's own definitions take precedence, and none is visible outside of a shared library.
Software floating point is in `soft_float`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from . import bare_math, soft_float

_LOOP = '"no-builtins"'  # otherwise LLVM would replace the loop in memset by a call of memset


def text_of(name: str, bits: int) -> str | None:
    """The LLVM text of a helper and the helpers that it calls; None if the name is unknown.

    `bits`: size of an address.
    """
    make = _BY_NAME.get(name)
    if make is not None:
        return make(name, f"i{bits}")
    return soft_float.text_of(name) or bare_math.text_of(name)


def _set(name: str, size: str) -> str:
    arguments = {
        "memset": f"ptr %to, i32 %value, {size} %n", "__aeabi_memset": f"ptr %to, {size} %n, i32 %value",
        "__aeabi_memclr": f"ptr %to, {size} %n",
    }[re.sub(r"[48]$", "", name)]  # fmt: skip
    byte = "i8 0" if "memclr" in name else "i8 %byte"
    first = "" if "memclr" in name else "  %byte = trunc i32 %value to i8\n"
    return f"""
define weak hidden ptr @{name}({arguments}) {_LOOP} nounwind {{
{first}  %none = icmp eq {size} %n, 0
  br i1 %none, label %done, label %loop
loop:
  %k = phi {size} [ 0, %0 ], [ %next, %loop ]
  %at = getelementptr i8, ptr %to, {size} %k
  store {byte}, ptr %at
  %next = add {size} %k, 1
  %end = icmp eq {size} %next, %n
  br i1 %end, label %done, label %loop
done:
  ret ptr %to
}}
"""


def _copy(name: str, size: str) -> str:
    """LLVM's text of a function like memmove."""
    return f"""
define weak hidden ptr @{name}(ptr %to, ptr %from, {size} %n) {_LOOP} nounwind {{
  %none = icmp eq {size} %n, 0
  br i1 %none, label %done, label %some
some:
  %down = icmp ugt ptr %to, %from
  %last = sub {size} %n, 1
  br label %loop
loop:
  %count = phi {size} [ 0, %some ], [ %next, %loop ]
  %back = sub {size} %last, %count
  %k = select i1 %down, {size} %back, {size} %count
  %source = getelementptr i8, ptr %from, {size} %k
  %target = getelementptr i8, ptr %to, {size} %k
  %byte = load i8, ptr %source
  store i8 %byte, ptr %target
  %next = add {size} %count, 1
  %end = icmp eq {size} %next, %n
  br i1 %end, label %done, label %loop
done:
  ret ptr %to
}}
"""


def _divided(kind: str) -> str:
    """The function @numod_divmod_KIND: quotient and rest of unsigned integers, bit by bit; by 0 the quotient has all
    bits set.
    """
    width = int(kind[1:])
    return f"""
define linkonce_odr hidden {{{kind}, {kind}}} @numod_divmod_{kind}({kind} %x, {kind} %y) noinline nounwind {{
  br label %loop
loop:
  %k = phi i32 [ 0, %0 ], [ %after, %loop ]
  %rest = phi {kind} [ 0, %0 ], [ %new_rest, %loop ]
  %quotient = phi {kind} [ %x, %0 ], [ %new_quotient, %loop ]
  %carry = icmp slt {kind} %rest, 0
  %top = lshr {kind} %quotient, {width - 1}
  %shifted = shl {kind} %rest, 1
  %wide = or {kind} %shifted, %top
  %enough = icmp uge {kind} %wide, %y
  %takes = or i1 %carry, %enough
  %less = sub {kind} %wide, %y
  %new_rest = select i1 %takes, {kind} %less, {kind} %wide
  %bit = zext i1 %takes to {kind}
  %moved = shl {kind} %quotient, 1
  %new_quotient = or {kind} %moved, %bit
  %after = add i32 %k, 1
  %end = icmp eq i32 %after, {width}
  br i1 %end, label %done, label %loop
done:
  %first = insertvalue {{{kind}, {kind}}} poison, {kind} %new_quotient, 0
  %both = insertvalue {{{kind}, {kind}}} %first, {kind} %new_rest, 1
  ret {{{kind}, {kind}}} %both
}}
"""


def _division(kind: str, signed: bool, parts: str) -> Callable[[str, str], str]:
    """A division of integers of type `kind`. `parts`: "quotient", "rest" or "both"."""
    last = int(kind[1:]) - 1
    pair = f"{{{kind}, {kind}}}"
    before = f"""
  %sign_x = ashr {kind} %x, {last}
  %flipped_x = xor {kind} %x, %sign_x
  %a = sub {kind} %flipped_x, %sign_x
  %sign_y = ashr {kind} %y, {last}
  %flipped_y = xor {kind} %y, %sign_y
  %b = sub {kind} %flipped_y, %sign_y
  %sign = xor {kind} %sign_x, %sign_y"""
    after = f"""
  %flipped_quotient = xor {kind} %q, %sign
  %quotient = sub {kind} %flipped_quotient, %sign
  %flipped_rest = xor {kind} %r, %sign_x
  %rest = sub {kind} %flipped_rest, %sign_x"""
    if not signed:
        before = f"\n  %a = add {kind} %x, 0\n  %b = add {kind} %y, 0"
        after = f"\n  %quotient = add {kind} %q, 0\n  %rest = add {kind} %r, 0"
    result = {"quotient": (kind, "%quotient"), "rest": (kind, "%rest"), "both": (pair, "%both")}[parts]

    def make(name: str, size: str) -> str:
        return f"""{_divided(kind)}
define weak hidden {result[0]} @{name}({kind} %x, {kind} %y) nounwind {{{before}
  %made = call {pair} @numod_divmod_{kind}({kind} %a, {kind} %b)
  %q = extractvalue {pair} %made, 0
  %r = extractvalue {pair} %made, 1{after}
  %first = insertvalue {pair} poison, {kind} %quotient, 0
  %both = insertvalue {pair} %first, {kind} %rest, 1
  ret {result[0]} {result[1]}
}}
"""

    return make


def _nothing(name: str, size: str) -> str:
    """What the unwinder of exceptions would call: there are none."""
    return f"\ndefine weak hidden void @{name}() nounwind {{\n  ret void\n}}\n"


def _root(name: str, size: str) -> str:
    kind, bits = ("float", "i32") if name == "sqrtf" else ("double", "i64")
    return f"""
declare {bits} @numod_root_{"f32" if bits == "i32" else "f64"}({bits})
define weak hidden {kind} @{name}({kind} %x) nounwind {{
  %bits = bitcast {kind} %x to {bits}
  %root = call {bits} @numod_root_{"f32" if bits == "i32" else "f64"}({bits} %bits)
  %result = bitcast {bits} %root to {kind}
  ret {kind} %result
}}
"""


def _extreme(name: str, size: str) -> str:
    """fmaximum and fminimum: NaN if either is NaN, and -0 is less than 0."""
    kind, bits = ("float", "i32") if name.endswith("f") else ("double", "i64")
    compare, zeros = ("ogt", "and") if "max" in name else ("olt", "or")
    return f"""
define weak hidden {kind} @{name}({kind} %x, {kind} %y) nounwind {{
  %x_is_nan = fcmp uno {kind} %x, %x
  %y_is_nan = fcmp uno {kind} %y, %y
  %x_wins = fcmp {compare} {kind} %x, %y
  %are_equal = fcmp oeq {kind} %x, %y
  %x_bits = bitcast {kind} %x to {bits}
  %y_bits = bitcast {kind} %y to {bits}
  %zero_bits = {zeros} {bits} %x_bits, %y_bits
  %either = select i1 %x_wins, {bits} %x_bits, {bits} %y_bits
  %ordered = select i1 %are_equal, {bits} %zero_bits, {bits} %either
  %with_y = select i1 %y_is_nan, {bits} %y_bits, {bits} %ordered
  %result_bits = select i1 %x_is_nan, {bits} %x_bits, {bits} %with_y
  %result = bitcast {bits} %result_bits to {kind}
  ret {kind} %result
}}
"""


def _fused_single(name: str, size: str) -> str:
    """fmaf, of 64 bits, in which the product is exact."""
    return """
define weak hidden float @fmaf(float %x, float %y, float %z) nounwind {
  %a = fpext float %x to double
  %b = fpext float %y to double
  %c = fpext float %z to double
  %product = fmul double %a, %b
  %sum = fadd double %product, %c
  %result = fptrunc double %sum to float
  ret float %result
}
"""


def _fused_double(name: str, size: str) -> str:
    """fma as the product and the sum, each with its rounding error; not for products that overflow.

    Dekker, A floating-point technique for extending the available precision, 1971.
    """

    def split(x: str) -> str:
        return f"""  %bits_{x} = bitcast double %{x} to i64
  %upper_{x} = and i64 %bits_{x}, {-(1 << 27)}
  %high_{x} = bitcast i64 %upper_{x} to double
  %low_{x} = fsub double %{x}, %high_{x}
"""

    return f"""
define weak hidden double @fma(double %x, double %y, double %z) nounwind {{
{split("x")}{split("y")}  %product = fmul double %x, %y
  %hh = fmul double %high_x, %high_y
  %hl = fmul double %high_x, %low_y
  %lh = fmul double %low_x, %high_y
  %ll = fmul double %low_x, %low_y
  %e0 = fsub double %hh, %product
  %e1 = fadd double %e0, %hl
  %e2 = fadd double %e1, %lh
  %error = fadd double %e2, %ll
  %sum = fadd double %product, %z
  %back = fsub double %sum, %product
  %rest = fsub double %sum, %back
  %lost0 = fsub double %product, %rest
  %lost1 = fsub double %z, %back
  %lost2 = fadd double %lost0, %lost1
  %small = fadd double %lost2, %error
  %near = fadd double %sum, %small
  %fine = fcmp ord double %near, 0.0
  %result = select i1 %fine, double %near, double %sum
  ret double %result
}}
"""


def written_as_code(result: str, name: str, arguments: str, code: str, marks: str = "hidden") -> str:
    """The LLVM text of a function with the given machine code, in hexadecimal digits."""
    data = bytes.fromhex(code)
    text = "".join(f"\\{byte:02x}" for byte in data)
    return f"""
define {marks} {result} @{name}({arguments}) naked noinline nounwind {"comdat " if "odr" in marks else ""}\
prologue [{len(data)} x i8] c"{text}" {{
  unreachable
}}
"""


def _probe(name: str, size: str) -> str:
    """What Windows' functions with more than a page of local memory call: it touches each page, and keeps all
    registers.

    push rcx; push rax; lea rcx, [rsp+24]; 1: cmp rax, 4096; jb 2f; sub rcx, 4096; test [rcx], rcx; sub rax, 4096;
    jmp 1b; 2: sub rcx, rax; test [rcx], rcx; pop rax; pop rcx; ret
    """
    code = "51 50 488d4c2418 483d00100000 7212 4881e900100000 488509 482d00100000 ebe6 4829c1 488509 58 59 c3"
    return "$__chkstk = comdat any\n" + written_as_code("void", name, "", code, "weak_odr")


_BY_NAME: dict[str, Callable[[str, str], str]] = {
    **dict.fromkeys(("memset", *(f"__aeabi_mem{kind}{size}" for kind in ("set", "clr") for size in ("", "4", "8"))),
        _set),
    **dict.fromkeys(("memcpy", "memmove",
        *(f"__aeabi_mem{kind}{size}" for kind in ("cpy", "move") for size in ("", "4", "8"))), _copy),
    "__aeabi_ldivmod": _division("i64", True, "both"), "__aeabi_uldivmod": _division("i64", False, "both"),
    "__aeabi_idivmod": _division("i32", True, "both"), "__aeabi_uidivmod": _division("i32", False, "both"),
    "__aeabi_idiv": _division("i32", True, "quotient"), "__aeabi_uidiv": _division("i32", False, "quotient"),
    "__divsi3": _division("i32", True, "quotient"), "__udivsi3": _division("i32", False, "quotient"),
    "__modsi3": _division("i32", True, "rest"), "__umodsi3": _division("i32", False, "rest"),
    "__divdi3": _division("i64", True, "quotient"), "__udivdi3": _division("i64", False, "quotient"),
    "__moddi3": _division("i64", True, "rest"), "__umoddi3": _division("i64", False, "rest"),
    **dict.fromkeys(("fmaximum", "fmaximumf", "fminimum", "fminimumf"), _extreme),
    "sqrt": _root, "sqrtf": _root, "fma": _fused_double, "fmaf": _fused_single, "__chkstk": _probe,
    **dict.fromkeys((f"__aeabi_unwind_cpp_pr{k}" for k in range(3)), _nothing),
}  # fmt: skip
# functions of a C library
MEMORY = frozenset({"memcpy", "memmove", "memset"})
_ROUNDING = {
    f"{name}{end}" for name in ("rint", "nearbyint", "roundeven", "floor", "ceil", "trunc") for end in ("", "f")
}
MATH = frozenset({"fma", "fmaf", "sqrt", "sqrtf", *_ROUNDING, "sin", "sinf", "cos", "cosf", "tan", "tanf"})


def undefined_symbols(code: bytes) -> set[str]:
    """The undefined symbols of an ELF, COFF or WebAssembly object file; empty for other formats."""
    if code[:2] == b"\x64\x86":
        return _undefined_in_coff(code)
    if code[:4] == b"\0asm":
        return _undefined_in_wasm(code)
    if code[:4] != b"\x7fELF":
        return set()
    wide = code[4] == 2
    start = struct.unpack_from("<Q" if wide else "<I", code, 40 if wide else 32)[0]
    entry, count = struct.unpack_from("<HH", code, 58 if wide else 46)
    headers = [struct.unpack_from("<IIQQQQIIQQ" if wide else "<10I", code, start + k * entry) for k in range(count)]
    symbols = set()
    for _, kind, _, _, offset, size, link, _, _, step in headers:
        if kind == 2:  # the table of symbols
            names = headers[link][4]
            for at in range(offset, offset + size, step):
                name = struct.unpack_from("<I", code, at)[0]
                section = struct.unpack_from("<H", code, at + (6 if wide else 14))[0]
                if name and section == 0:
                    symbols.add(code[names + name : code.index(b"\0", names + name)].decode())
    return symbols


def _undefined_in_wasm(code: bytes) -> set[str]:
    """The functions in the section of imports."""
    position, names = 8, set()

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = code[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text() -> str:
        nonlocal position
        length = number()
        position += length
        return code[position - length : position].decode()

    while position < len(code):
        section, length = number(), number()
        if section != 2:
            position += length
            continue
        for _ in range(number()):
            _, name, kind = text(), text(), number()
            if kind == 0:
                names.add(name)
                number()
            elif kind == 3:  # a global: type and mutability
                position += 2
            else:  # a table, whose type comes first, or a memory: limits
                position += kind == 1
                number_of_limits = 2 if number() & 1 else 1
                for _ in range(number_of_limits):
                    number()
        break
    return names


def _undefined_in_coff(code: bytes) -> set[str]:
    start, count = struct.unpack_from("<II", code, 8)
    names, symbols, number = start + 18 * count, set(), 0
    while number < count:
        short, value, section, _, kind, further = struct.unpack_from("<8sIhHBB", code, start + 18 * number)
        if not (section or value) and kind == 2:
            begin = names + struct.unpack("<I", short[4:])[0]
            name = short.rstrip(b"\0") if short[:4] != b"\0\0\0\0" else code[begin : code.index(b"\0", begin)]
            symbols.add(name.decode())
        number += 1 + further
    return symbols
