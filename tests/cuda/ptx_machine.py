"""A GPU for tests, made of NumPy: it runs the PTX text that a real one would be given, with the arguments as they were packed for the driver.

`Machine().library()` is what `numod.device.cuda_driver` takes for the driver's library. A register is an array over the threads of a launch; a basic block
of the text is a Python function over the threads that are there. Of all threads those at the lowest place in the text go on, so that branches come
together again. Arithmetic is the text's: widths, wrapping, rounding. It stops at what a real GPU may forgive: reads and writes outside of what was
allocated or not aligned, reads of what nobody wrote, barriers that only some threads reach, and two threads that use a place without a barrier
between them (or at all, where they are of different blocks), one of them writing.

Not here: speed, caches, the order of a real scheduler, contraction by the assembler of `mul` and `add` that lack `.rn`, exact approximations (`ex2.approx`
and its kin are rounded exactly instead), and instructions that no kernel of ours has: these raise NotImplementedError.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from numod.device import cuda_driver, cuda_memory

TYPES = {f"{kind}{8 * size}": np.dtype(f"{'u' if kind == 'b' else 'i' if kind == 's' else kind}{size}") for kind in "usbf" for size in (1, 2, 4, 8) if kind != "f" or size > 1}
SIZES = {**{name: each.itemsize for name, each in TYPES.items()}, "pred": 0}
WARP = 32
DONE, WAITING = 1 << 30, 1 << 29  # places in the text of threads that ended, and offset of those at a barrier
OUTSIDE, EMPTY, WRITTEN = 0, 1, 3  # of a byte of memory
STREAM = 0x7F0011223344
_ANYWHERE = ("cuInit", "cuD", "cuGetError", "cuCtxSetCurrent")  # how functions begin that need no context
_ERRORS = {2: (b"CUDA_ERROR_OUT_OF_MEMORY", b"out of memory"), 201: (b"CUDA_ERROR_INVALID_CONTEXT", b"invalid device context"), 600: (b"CUDA_ERROR_NOT_READY", b"device not ready"),
           700: (b"CUDA_ERROR_ILLEGAL_ADDRESS", b"an illegal memory access was encountered"), 719: (b"CUDA_ERROR_LAUNCH_FAILED", b"")}  # fmt: skip
GAP = 512  # bytes that belong to nobody, between two allocations


class Fault(RuntimeError):
    """What a kernel must not do."""


# ---- the text


def statements(text: str) -> list[str]:
    """Statements of a PTX text without semicolons; functions' heads, labels (`name:`) and the braces of scopes are some too."""
    text = re.sub(r"//.*|^\.(version|target|address_size).*", "", text, flags=re.M)
    found = re.findall(r"^[ \t]*(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func)\b[^;{]*|^\s*[{}](?=\s*$)|[$\w]+:(?!:)|[^\s;{}][^;]*(?=;)", text, flags=re.M)
    return [each.strip() for each in found if each.strip()]


class Declared:
    """A variable: `.shared .align 16 .b8 name[64] = {…}`."""

    def __init__(self, text: str) -> None:
        self.space = re.search(r"\.(reg|param|local|shared|global|const)\b", text)[1]
        kind, self.name, count, values = re.search(r"\.([usbf]\d+)\s+([%$\w]+)(?:\[(\d+)\])?(?:\s*=\s*\{?([^}]*)\}?)?", text).groups()
        self.size = SIZES[kind] * int(count or 1)
        self.align = int(found[1]) if (found := re.search(r"\.align (\d+)", text)) else SIZES[kind]
        self.values = np.array([int(each, 0) for each in values.split(",")], TYPES[kind]).tobytes().ljust(self.size, b"\0") if values else None


class Function:
    """A function of a text: its formal results and arguments, and its statements."""

    def __init__(self, head: str, body: list[str]) -> None:
        results, self.name, arguments = re.search(r"\.(?:entry|func)\s*(?:\(([^)]*)\))?\s*([$\w]+)\s*(?:\(([^)]*)\))?", head).groups()
        self.results, self.arguments = ([Declared(each) for each in (part or "").split(",") if each.strip()] for part in (results, arguments))
        self.body = body


def read(text: str) -> tuple[list[Declared], dict[str, Function]]:
    """A text's global variables and its functions."""
    variables, functions, rest = [], {}, iter(statements(text))
    head = ""
    for each in rest:
        if each == "{":
            body, depth = [], 1
            while depth:
                body.append(next(rest))
                depth += {"{": 1, "}": -1}.get(body[-1], 0)
            made = Function(head, body[:-1])
            functions[made.name] = made
        elif re.search(r"\.(entry|func)\b", each):
            head = each
        elif re.match(r"\.(common|visible|weak|extern|global|const|shared)\b", each):
            variables.append(Declared(each))
    return variables, functions


class Instruction:
    """`@!%p1 setp.gt.s32 %p2, %r1, 5`: guard, opcode's parts, operands, and what the text says."""

    def __init__(self, text: str) -> None:
        guard, opcode, rest = re.match(r"(?:@(!?[%\w]+)\s+)?([\w.]+)\s*(.*)", text, re.S).groups()
        self.text, self.guard, self.parts = " ".join(text.split()), guard, opcode.split(".")
        self.operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^\s,]+", rest)


def unknown(instruction: Instruction) -> NotImplementedError:
    """The error for an instruction, or a form of one, that no kernel had so far."""
    return NotImplementedError(f"`{instruction.text}`: the PTX machine does not know this instruction; teach it in tests/cuda/ptx_machine.py")


class Program:
    """An entry with its calls written out: `code` with names that are unique, `labels`, and the registers and variables it needs."""

    def __init__(self, functions: dict[str, Function], entry: str, variables: list[Declared]) -> None:
        self.functions, self.code, self.labels = functions, [], {}
        self.registers: dict[str, str] = {}  # name: kind
        self.variables: dict[str, tuple[str, int]] = {}  # name: space and place there
        self.ends, self.spans = Counter(), defaultdict(list)  # of a space: bytes it needs, variables in it
        self._fresh = itertools.count()
        self.parameters = functions[entry].arguments
        names = {each.name: self._place(each) for each in [*variables, *self.parameters] if each.space != "global"}
        self._write(functions[entry], names, "end")
        self.labels["end"] = len(self.code)
        self.code.append(Instruction("exit"))

    def _place(self, each: Declared) -> str:
        name = f"{each.name}.{next(self._fresh)}"
        space = "local" if each.space == "param" and each not in self.parameters else each.space
        start = -(-self.ends[space] // each.align) * each.align
        self.variables[name], self.ends[space] = (space, start), start + each.size
        self.spans[space].append((start, start + each.size))
        if space != "param":
            self.ends[space] = -(-self.ends[space] // 128) * 128 + 128  # nobody's, so that one array's end is not the next one's beginning
        return name

    def _write(self, function: Function, names: dict[str, str], end: str) -> None:
        number = next(self._fresh)
        scopes = [{**names, **{each[:-1]: f"{each[:-1]}.{number}" for each in function.body if each.endswith(":")}}]

        def known(text: str) -> str:
            return re.sub(r"[%$A-Za-z_][%$\w]*", lambda found: next((each[found[0]] for each in reversed(scopes) if found[0] in each), found[0]), text)

        for each in function.body:
            if each == "{":
                scopes.append({})
            elif each == "}":
                scopes.pop()
            elif each.endswith(":"):
                self.labels[known(each[:-1])] = len(self.code)
            elif each.startswith(".reg"):
                kind, listed = re.match(r"\.reg\s+\.(\w+)\s+(.*)", each, re.S).groups()
                for name in listed.split(","):
                    stem, count = re.match(r"\s*([%\w]+)(?:<(\d+)>)?", name).groups()
                    for each_name in [f"{stem}{k}" for k in range(int(count))] if count else [stem]:
                        scopes[-1][each_name] = made = f"{each_name}.{next(self._fresh)}"
                        self.registers[made] = kind
            elif re.match(r"\.(param|local|shared)\b", each):
                variable = Declared(each)
                scopes[-1][variable.name] = self._place(variable)
            elif each.startswith(".pragma") or each.startswith(".loc"):
                continue
            elif each.startswith("call"):
                results, name, arguments = re.match(r"call(?:\.uni)?\s*(?:\(([^)]*)\)\s*,)?\s*([$\w]+)\s*(?:,\s*\(([^)]*)\))?", each).groups()
                called, after = self.functions[name], f"after.{next(self._fresh)}"
                given = [known(part.strip()) for part in [*(results or "").split(","), *(arguments or "").split(",")] if part.strip()]
                self._write(called, dict(zip([part.name for part in called.results + called.arguments], given)), after)
                self.labels[after] = len(self.code)
            else:
                made = Instruction(re.sub(r"^(@\S+\s+)?(ret)$", rf"\1bra {end}", each))
                made.guard = made.guard and known(made.guard)
                made.operands = [known(operand) for operand in made.operands]
                self.code.append(made)


# ---- arithmetic


@functools.cache
def fused() -> object:
    """x * y + z, rounded once."""
    import numba
    from llvmlite import ir
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def fma(context: object, x: object, y: object, z: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            number = context.get_value_type(x)
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(number, [number] * 3), f"llvm.fma.f{x.bitwidth}")
            return builder.call(function, values)

        return x(x, x, x), generate

    return numba.vectorize(["float32(float32, float32, float32)", "float64(float64, float64, float64)"])(lambda x, y, z: fma(x, y, z))


def odd_sum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y in float64, the last bit set where that is not exact: rounded once more, in any direction, to float32 it is as if it had been exact."""
    total = x + y
    part = total - x
    rest = (x - (total - part)) + (y - part)
    bits = np.asarray(total).view("u8")
    inexact = (rest != 0) & (bits & 1 == 0) & np.isfinite(total)
    return np.where(inexact, np.nextafter(total, np.where(rest > 0, np.inf, -np.inf)), total)


def directed(x: np.ndarray, how: str) -> np.ndarray:
    """float64 to float32, rounded to zero, down or up."""
    y = x.astype("f4")
    past = {"rz": np.abs(y) > np.abs(x), "rm": y > x, "rp": y < x}[how]
    return np.where(past, np.nextafter(y, np.float32({"rz": 0, "rm": -np.inf, "rp": np.inf}[how])), y)


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y to zero; all bits set where y is 0."""
    safe = np.where(y == 0, y.dtype.type(1), y)
    whole = x // safe
    if x.dtype.kind == "i":
        whole = whole + ((whole < 0) & (whole * safe != x))
    return np.where(y == 0, np.array(-1).astype(x.dtype), whole)


def shifted(x: np.ndarray, by: np.ndarray, left: bool) -> np.ndarray:
    """x << by or x >> by, where `by` may be the width and more."""
    most = 8 * x.dtype.itemsize - 1
    within = np.minimum(by, most).astype(x.dtype)
    if left:
        return np.where(by > most, x.dtype.type(0), x << within)
    return x >> within if x.dtype.kind == "i" else np.where(by > most, x.dtype.type(0), x >> within)


def high_product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The upper half of x * y."""
    bits = 8 * x.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{x.dtype.kind}8")
        return (x.astype(wide) * y.astype(wide) >> wide.type(bits)).astype(x.dtype)
    product = np.asarray(x).astype(object) * np.asarray(y).astype(object)
    return np.array([(each >> 64) & (1 << 64) - 1 for each in np.ravel(product)], "u8").view(x.dtype)


def converted(x: np.ndarray, kind: np.dtype, how: str, saturated: bool) -> np.ndarray:
    """`cvt`: a number as another kind."""
    rounds = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    if x.dtype.kind == "f" and kind.kind == "f":
        if how in rounds:
            x = rounds[how](x)
        elif how in ("rz", "rm", "rp") and kind.itemsize < x.dtype.itemsize:
            return directed(x, how)
        y = x.astype(kind)
        return np.where(np.isnan(y), kind.type(0), np.clip(y, 0, 1)) if saturated else y
    if x.dtype.kind == "f":
        least, most = (np.iinfo(kind).min, np.iinfo(kind).max)
        whole = rounds[how](x.astype("f8"))
        nothing = 1 << 8 * kind.itemsize - 1 if x.dtype.itemsize == 8 or kind.itemsize == 8 else 0
        y = np.where((whole > least) & (whole < most), whole, 0).astype(kind)
        y = np.where(whole >= most, kind.type(most), np.where(whole <= least, kind.type(least), y))
        return np.where(np.isnan(x), np.array(nothing, "u8").astype(kind), y)
    if saturated and kind.kind != "f":
        x = np.clip(x, np.iinfo(kind).min, np.iinfo(kind).max)
    return x.astype(kind)


def flushed(x: np.ndarray) -> np.ndarray:
    """Subnormal numbers are 0."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def field(x: np.ndarray, y: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """`bfi`: y with `length` bits of x from `start` on."""
    one, start, length = y.dtype.type(1), np.asarray(start).astype(y.dtype), np.asarray(length).astype(y.dtype)
    mask = (np.where(length >= 8 * y.dtype.itemsize, y.dtype.type(0), one << length) - one) << start
    return (x << start) & mask | y & ~mask


def carried(parts: list[str], x: np.ndarray, y: np.ndarray, z: np.ndarray, carry: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A sum, difference or product of 32-bit words with its carry, which comes in where the opcode ends in c."""
    x, y, z = (np.asarray(each).astype("i8") for each in (x, y, z))
    value = x - y if parts[0].startswith("sub") else x + y
    if parts[0].startswith("mad"):
        product = np.asarray(x.astype("u8") * y.astype("u8"))
        value = ((product >> np.uint64(32)) if "hi" in parts else product & np.uint64(0xFFFFFFFF)).astype("i8") + z
    if parts[0].endswith("c"):
        value = value - carry if parts[0].startswith("sub") else value + carry
    return value & 0xFFFFFFFF, (value >> 32) & 1


def numbers(words: np.ndarray, kind: str) -> np.ndarray:
    """Words (..., registers) of a fragment as its elements (..., elements), the lowest first."""
    if kind == "tf32":
        if (words & 0x1FFF).any():
            raise Fault("a register is taken for tf32 that has more bits than that, which a GPU may drop or not")
        return words.view("f4")
    halves = words.view("u2")
    return halves.view("f2") if kind == "f16" else (halves.astype("u4") << np.uint32(16)).view("f4")


# Rows and columns of the elements that thread `lane` of a warp holds, as formulas of g = lane >> 2, t = lane % 4 and the element's number i
# (PTX ISA 9.7.14.5.7 and .8, "Matrix Fragments for mma.m16n8k8" and "... mma.m16n8k16 with floating point type").
FRAGMENTS = {
    ("m16n8k16", "a"): (8, lambda g, t, i: np.where((i < 2) | ((i >= 4) & (i < 6)), g, g + 8), lambda g, t, i: t * 2 + (i & 1) + np.where(i >= 4, 8, 0)),
    ("m16n8k16", "b"): (4, lambda g, t, i: t * 2 + (i & 1) + np.where(i >= 2, 8, 0), lambda g, t, i: g + 0 * i),
    ("m16n8k8", "a"): (4, lambda g, t, i: np.where((i == 0) | (i == 2), g, g + 8), lambda g, t, i: np.where(i < 2, t, t + 4)),
    ("m16n8k8", "b"): (2, lambda g, t, i: np.where(i == 0, t, t + 4), lambda g, t, i: g + 0 * i),
    "c": (4, lambda g, t, i: np.where(i < 2, g, g + 8), lambda g, t, i: t * 2 + (i & 1)),
}


def matrices(shape: str, kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`mma`: the registers (warps, 32, 4) of a @ b + c, of those (warps, 32, registers) of a, b and c. Products and their sums are exact, and rounded once."""
    inner = int(shape.partition("k")[2])
    lane = np.arange(32)[:, None]
    wholes = []
    for key, size, values in (((shape, "a"), (16, inner), numbers(a, kind)), ((shape, "b"), (inner, 8), numbers(b, kind)), ("c", (16, 8), c.view("f4"))):
        count, row, column = FRAGMENTS[key]
        i = np.arange(count)[None, :]
        place = row(lane >> 2, lane % 4, i), column(lane >> 2, lane % 4, i)
        whole = np.full((len(values), *size), np.nan)
        whole[:, place[0], place[1]] = values
        wholes.append(whole)
    return (wholes[0] @ wholes[1] + wholes[2])[:, place[0], place[1]].astype("f4")


COMPARED = {"eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}", "lo": "{0} < {1}", "hi": "{0} > {1}"}
UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
SPECIAL = {"%tid.x": "thread", "%ctaid.x": "block", "%ntid.x": "threads", "%nctaid.x": "blocks"}
SIMPLE = {  # opcodes whose operands are all of one kind, which is that of the result
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "mad": "{0} * {1} + {2}", "abs": "np.abs({0})", "neg": "(-{0})", "mov": "{0}",
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "~{0}", "fma": "fused()({0}, {1}, {2})", "copysign": "np.copysign({1}, {0})", "sqrt": "np.sqrt({0})",
    "cvta": "{0}",
}  # fmt: skip
APPROXIMATE = {"rcp": "1 / {0}", "rsqrt": "1 / np.sqrt({0})", "ex2": "np.exp2({0})", "lg2": "np.log2({0})", "div": "{0} / {1}", "sin": "np.sin({0})", "cos": "np.cos({0})", "sqrt": "np.sqrt({0})"}


class Writer:
    """A program as Python: `source`, functions `step0(m)`, `step1(m)` … of the threads m that are at that basic block; `used` are names of registers' views."""

    def __init__(self, program: Program) -> None:
        self.program, self.used, self.constants = program, {}, {}
        code = program.code
        ends = {k + 1 for k, each in enumerate(code) if each.parts[0] in ("bra", "bar", "exit", "barrier")}
        starts = sorted({0, *program.labels.values(), *ends} - {len(code)})
        self.numbers = {start: k for k, start in enumerate(starts)}
        self.lengths = [stop - start for start, stop in zip(starts, [*starts[1:], len(code)])]
        lines = []
        for k, start in enumerate(starts):
            lines.append(f"def step{k}(m):")
            for place in range(start, start + self.lengths[k]):
                lines += ["    " + line for line in self._lines(place, code[place])]
            if code[start + self.lengths[k] - 1].parts[0] not in ("bra", "bar", "barrier", "exit"):
                lines.append(f"    pc[m] = {k + 1}")
        self.source = "\n".join(lines)

    def _lines(self, place: int, each: Instruction) -> list[str]:
        name = each.parts[0]
        if name in ("bra", "exit", "bar", "barrier"):
            after = self.numbers.get(place + 1, DONE)
            if name in ("bar", "barrier"):
                if each.guard or not ({"sync"} & {*each.parts}) or each.operands != ["0"]:
                    raise unknown(each)
                return [f"pc[m] = {WAITING + after}"]
            target = DONE if name == "exit" else self.numbers[self.program.labels[each.operands[0]]]
            return [f"pc[m] = np.where({self._guard(each.guard)}, {target}, {after})" if each.guard else f"pc[m] = {target}"]
        lines = self._operation(place, each)
        if each.guard:
            return [f"every = m; m = those(m, {self._guard(each.guard)})", *lines, "m = every"]
        return lines

    def _guard(self, guard: str) -> str:
        return ("~" if guard.startswith("!") else "") + self.read(guard.lstrip("!"), "pred")

    def view(self, register: str, kind: str) -> str:
        """The name of a register seen as of a kind."""
        name = f"{re.sub(r'[^A-Za-z0-9]', '_', register)}_{kind}"
        self.used[name] = register, kind
        return name

    def read(self, operand: str, kind: str) -> str:
        """The text of an operand's value, as of a kind."""
        if operand in self.program.registers:
            own = self.program.registers[operand]
            if own == "pred" or SIZES[own] == SIZES[kind]:
                return f"{self.view(operand, kind)}[m]"
            return f"{self.view(operand, 'u' + own[1:])}[m].astype('{TYPES[kind].str}')"
        if operand in SPECIAL:
            return f"{SPECIAL[operand]}[m]"
        if kind == "pred":
            return str(operand != "0")
        if operand in self.program.variables:
            value: object = self.program.variables[operand][1]
        elif re.match(r"0[fFdD][0-9a-fA-F]+$", operand):
            bits = int(operand[2:], 16)
            value = np.array(bits, "u4" if operand[1] in "fF" else "u8").view("f4" if operand[1] in "fF" else "f8")[()]
            if kind[0] != "f":
                value = bits
        elif re.match(r"-?\d|0x", operand):
            value = int(operand.rstrip("U"), 0)
        else:
            return f"np.uint64(address({operand!r}))"
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(value if isinstance(value, np.floating) else int(value) & (1 << 8 * SIZES[kind]) - 1, None if isinstance(value, np.floating) else f"u{SIZES[kind]}")
        self.constants[name] = self.constants[name].astype(TYPES[kind])[()] if isinstance(value, np.floating) else self.constants[name].view(TYPES[kind])[()]
        return name

    def put(self, register: str, kind: str, value: str) -> str:
        """A line that gives a register a value of a kind."""
        own = self.program.registers[register]
        if own == "pred":
            return f"{self.view(register, 'pred')}[m] = {value}"
        if SIZES[own] > SIZES[kind]:
            kind = kind[0] + own[1:]
        return f"{self.view(register, kind)}[m] = {value}"

    def _operation(self, place: int, each: Instruction) -> list[str]:
        parts, operands = each.parts, each.operands
        name, kind = parts[0], parts[-1]
        method = getattr(self, f"_{name}", None)
        if "cc" in parts or name in ("addc", "subc", "madc"):
            return self._carried(each)
        if method:
            return method(place, each)
        values = [self.read(operand, kind) for operand in operands[1:]]
        if "approx" in parts or (name in APPROXIMATE and name not in SIMPLE and kind[0] == "f"):
            return [self.put(operands[0], kind, self._approximate(each, values))]
        if name not in SIMPLE or {"sat", "ftz", "hi", "wide"} & {*parts}:
            raise unknown(each)
        if kind == "f32" and {"rz", "rm", "rp"} & {*parts} and name in ("add", "sub", "mul", "fma"):
            x, y, *z = (f"{value}.astype('f8')" for value in values)
            exact = {"add": f"odd_sum({x}, {y})", "sub": f"odd_sum({x}, -{y})", "mul": f"{x} * {y}", "fma": f"odd_sum({x} * {y}, {z[0] if z else ''})"}[name]
            return [self.put(operands[0], kind, f"directed({exact}, '{parts[1]}')")]
        if kind[0] == "f" and {"rz", "rm", "rp"} & {*parts}:
            raise unknown(each)
        return [self.put(operands[0], kind, SIMPLE[name].format(*values))]

    def _approximate(self, each: Instruction, values: list[str]) -> str:
        text = APPROXIMATE[each.parts[0]]
        if "ftz" in each.parts and each.parts[-1] == "f32":
            return f"flushed(({text.format(*(f'flushed({value})' for value in values))}))"
        if each.parts[-1] == "f64" and "approx" in each.parts:  # the upper 32 bits are all that the instruction gives
            return f"(np.asarray({text.format(*(f'flushed({value})' for value in values))}).view('u8') & np.uint64(0xFFFFFFFF00000000)).view('f8')"
        return text.format(*values)

    def _carried(self, each: Instruction) -> list[str]:
        values = [self.read(operand, "u32") for operand in each.operands[1:]]
        values += ["np.uint32(0)"] * (3 - len(values))
        lines = [f"value, out = carried({each.parts!r}, {', '.join(values)}, carry[m])", self.put(each.operands[0], "u32", "value")]
        return [*lines, "carry[m] = out"] if "cc" in each.parts else lines

    def _mov(self, place: int, each: Instruction) -> list[str]:
        target, source, kind = each.operands[0], each.operands[1], each.parts[-1]
        if target.startswith("{"):  # a register in parts, the lowest first
            parts = [part.strip() for part in target.strip("{}").split(",")]
            bits = 8 * SIZES[kind] // len(parts)
            whole = self.read(source, f"u{8 * SIZES[kind]}")
            return [self.put(part, f"u{bits}", f"(np.asarray({whole}) >> np.{TYPES[f'u{8 * SIZES[kind]}'].name}({k * bits})).astype('u{bits // 8}')") for k, part in enumerate(parts) if part != "_"]
        if source.startswith("{"):
            parts = [part.strip() for part in source.strip("{}").split(",")]
            bits, number = 8 * SIZES[kind] // len(parts), f"u{8 * SIZES[kind]}"
            joined = " | ".join(f"np.asarray({self.read(part, f'u{bits}')}).astype('u{SIZES[kind]}') << np.{TYPES[number].name}({k * bits})" for k, part in enumerate(parts))
            return [self.put(target, number, joined)]
        return [self.put(target, kind, self.read(source, kind))]

    def _mul(self, place: int, each: Instruction) -> list[str]:
        kind, (target, *operands) = each.parts[-1], each.operands
        values = [self.read(operand, kind) for operand in operands]
        if "hi" in each.parts:
            return [self.put(target, kind, f"high_product({values[0]}, {values[1]})")]
        if "wide" in each.parts:
            wide = f"{kind[0]}{2 * int(kind[1:])}"
            return [self.put(target, wide, f"{values[0]}.astype('{TYPES[wide].str}') * {values[1]}.astype('{TYPES[wide].str}')")]
        return [self.put(target, kind, f"{values[0]} * {values[1]}")]

    def _mad(self, place: int, each: Instruction) -> list[str]:
        kind, (target, x, y, z) = each.parts[-1], each.operands
        if "wide" in each.parts:
            wide = f"{kind[0]}{2 * int(kind[1:])}"
            return [self.put(target, wide, f"{self.read(x, kind)}.astype('{TYPES[wide].str}') * {self.read(y, kind)}.astype('{TYPES[wide].str}') + {self.read(z, wide)}")]
        return [self.put(target, kind, f"{self.read(x, kind)} * {self.read(y, kind)} + {self.read(z, kind)}")]

    def _div(self, place: int, each: Instruction) -> list[str]:
        kind, (target, *operands) = each.parts[-1], each.operands
        values = [self.read(operand, kind) for operand in operands]
        if kind[0] == "f":
            return [self.put(target, kind, self._approximate(each, values))]
        return [self.put(target, kind, f"quotient({values[0]}, {values[1]})")]

    def _rem(self, place: int, each: Instruction) -> list[str]:
        x, y = (self.read(operand, each.parts[-1]) for operand in each.operands[1:])
        return [self.put(each.operands[0], each.parts[-1], f"{x} - quotient({x}, {y}) * {y}")]

    def _min(self, place: int, each: Instruction) -> list[str]:
        name = ("f" if each.parts[-1][0] == "f" and "NaN" not in each.parts else "") + each.parts[0]
        function = {"min": "np.minimum", "max": "np.maximum", "fmin": "np.fmin", "fmax": "np.fmax"}[name]
        return [self.put(each.operands[0], each.parts[-1], f"{function}({', '.join(self.read(operand, each.parts[-1]) for operand in each.operands[1:])})")]

    _max = _min

    def _shl(self, place: int, each: Instruction) -> list[str]:
        kind = each.parts[-1]
        return [self.put(each.operands[0], kind, f"shifted({self.read(each.operands[1], kind)}, {self.read(each.operands[2], 'u32')}, {each.parts[0] == 'shl'})")]

    _shr = _shl

    def _selp(self, place: int, each: Instruction) -> list[str]:
        kind, (target, x, y, condition) = each.parts[-1], each.operands
        return [self.put(target, kind, f"np.where({self.read(condition, 'pred')}, {self.read(x, kind)}, {self.read(y, kind)})")]

    def _setp(self, place: int, each: Instruction) -> list[str]:
        how, kind, (target, *operands) = each.parts[1], each.parts[-1], each.operands
        if len(operands) > 2 or "|" in target or len(each.parts) > 3:
            raise unknown(each)
        kind = "u" + kind[1:] if how in ("lo", "hi") else kind
        x, y = (self.read(operand, kind) for operand in operands)
        lost = f"(np.isnan({x}) | np.isnan({y}))"
        if how in ("nan", "num"):
            text = lost if how == "nan" else f"~{lost}"
        elif how in UNORDERED:
            text = f"({COMPARED[UNORDERED[how]].format(x, y)}) | {lost}"
        else:
            text = COMPARED[how].format(x, y) + (f" & ~{lost}" if how == "ne" and kind[0] == "f" else "")
            text = f"({COMPARED[how].format(x, y)}) & ~{lost}" if how == "ne" and kind[0] == "f" else text
        return [self.put(target, "pred", text)]

    def _cvt(self, place: int, each: Instruction) -> list[str]:
        to, source = each.parts[-2:]
        if to == "tf32":  # to nearest, halves away from zero
            if each.parts != ["cvt", "rna", "tf32", "f32"]:
                raise unknown(each)
            bits = self.read(each.operands[1], "u32")
            return [self.put(each.operands[0], "u32", f"np.where(({bits} & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FFFE000), ({bits} + np.uint32(0x1000)) & np.uint32(0xFFFFE000))")]
        if to == "bf16":  # to nearest, halves to even
            if each.parts != ["cvt", "rn", "bf16", "f32"]:
                raise unknown(each)
            bits = self.read(each.operands[1], "u32")
            return [self.put(each.operands[0], "u16", f"np.where(({bits} & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x7FFF), ({bits} + np.uint32(0x7FFF) + ({bits} >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype('u2')")]
        how = next((part for part in each.parts if part in ("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")), "")
        value = f"converted(np.asarray({self.read(each.operands[1], source)}), TYPES['{to}'], '{how}', {'sat' in each.parts})"
        return [self.put(each.operands[0], to, f"flushed({value})" if "ftz" in each.parts and to[0] == "f" else value)]

    def _mma(self, place: int, each: Instruction) -> list[str]:
        _, *how, shape, first, second, result, a_kind, b_kind, c_kind = each.parts
        if how != ["sync", "aligned"] or (first, second, result, c_kind) != ("row", "col", "f32", "f32") or a_kind != b_kind or (shape, a_kind) not in (("m16n8k16", "f16"), ("m16n8k16", "bf16"), ("m16n8k8", "tf32")):
            raise unknown(each)
        target, *given = ([part.strip() for part in operand.strip("{}").split(",")] for operand in each.operands)
        texts = ["[" + ", ".join(self.read(part, kind) for part in parts) + "]" for parts, kind in zip(given, ("u32", "u32", "f32"))]
        return [f"found = multiply({place}, m, '{shape}', '{a_kind}', {', '.join(texts)})", *[self.put(part, "f32", f"found[:, {k}]") for k, part in enumerate(target)]]

    def _clz(self, place: int, each: Instruction) -> list[str]:
        bits = int(each.parts[-1][1:])
        return [self.put(each.operands[0], "u32", f"np.array([{bits} - int(x).bit_length() for x in np.ravel({self.read(each.operands[1], f'u{bits}')})], 'u4')")]

    def _popc(self, place: int, each: Instruction) -> list[str]:
        return [self.put(each.operands[0], "u32", f"np.bitwise_count({self.read(each.operands[1], 'u' + each.parts[-1][1:])})")]

    def _bfi(self, place: int, each: Instruction) -> list[str]:
        kind, (target, x, y, start, length) = each.parts[-1], each.operands
        return [self.put(target, kind, f"field({self.read(x, kind)}, {self.read(y, kind)}, {self.read(start, 'u32')}, {self.read(length, 'u32')})")]

    def _membar(self, place: int, each: Instruction) -> list[str]:
        return []

    _fence = _membar

    def _access(self, each: Instruction, address: str, registers: str) -> tuple[str, str, str, list[str]]:
        """An access's space, kind, the text of its address, and the registers it moves."""
        base, offset = re.match(r"\[\s*([^\s+\]]+)\s*\+?\s*(-?\w+)?\s*\]", address).groups()
        space = next((part for part in each.parts if part in ("global", "shared", "local", "param", "const")), "generic")
        if base in self.program.variables:
            space = self.program.variables[base][0]
            where = str(self.program.variables[base][1] + int(offset or 0))
        else:
            where = self.read(base, "u64" if SIZES.get(self.program.registers.get(base), 8) == 8 else "u32")
            where = f"{where}.astype('i8') + {int(offset or 0)}"
        if space in ("generic", "const"):
            raise unknown(each)
        return space, each.parts[-1], where, [part.strip() for part in registers.strip("{}").split(",")]

    def _ld(self, place: int, each: Instruction) -> list[str]:
        space, kind, where, registers = self._access(each, each.operands[1], each.operands[0])
        if space == "param":
            return [self.put(registers[0], kind, f"parameter({where}, TYPES['{kind}'])")]
        lines = [f"at = place({place}, '{space}', m, {where}, {SIZES[kind] * len(registers)}, {len(registers)}, False)"]
        return lines + [self.put(part, kind, f"load({place}, '{space}', m, at, TYPES['{kind}'], {k})") for k, part in enumerate(registers)]

    def _st(self, place: int, each: Instruction) -> list[str]:
        space, kind, where, registers = self._access(each, each.operands[0], each.operands[1])
        lines = [f"at = place({place}, '{space}', m, {where}, {SIZES[kind] * len(registers)}, {len(registers)}, True)"]
        return lines + [f"store({place}, '{space}', m, at, TYPES['{kind}'], {k}, {self.read(part, kind)})" for k, part in enumerate(registers)]


# ---- memory


class Memory:
    """Bytes, what is known of each of them (OUTSIDE, EMPTY or WRITTEN), and who wrote and read last the element that begins there.

    Who: launch, block, barriers passed and thread, in 19, 20, 13 and 11 bits; all bits of a thread or block stand for several.
    """

    def __init__(self, size: int) -> None:
        room = np.zeros(size + 4096, "u1")
        self.bytes, self.known = room[-room.ctypes.data % 4096 :][:size], np.zeros(size, "u1")
        self.writers, self.readers = np.zeros(size, "i8"), np.zeros(size, "i8")

    def mark(self, start: int, stop: int, known: int) -> None:
        """Say what bytes are from now on."""
        self.known[start:stop] = known
        self.writers[start:stop] = self.readers[start:stop] = 0


def who(launch: int, block: np.ndarray, barriers: np.ndarray, thread: np.ndarray) -> np.ndarray:
    """Tokens of threads."""
    return (launch & 0x7FFFF) << 44 | block << 24 | (barriers & 0x1FFF) << 11 | thread + 1


def meet(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether two tokens are of threads that nothing keeps apart."""
    other = x ^ y
    return (other >> 44 == 0) & (other != 0) & ((other >> 24 != 0) | (other >> 11 == 0))


# ---- the machine


class Kernel:
    """A program ready to run."""

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name
        self.writer = Writer(program)
        self.compiled = compile(self.writer.source, name[:60], "exec")


class Machine:
    """Memory and kernels. `counts`, if it is a Counter, counts instructions and memory traffic by warps."""

    def __init__(self, size: int = 1 << 26, most_threads: int = 1 << 14) -> None:
        self.memory, self.most_threads = Memory(size), most_threads
        self.origin = self.memory.bytes.ctypes.data
        self.next, self.free, self.sizes = GAP, defaultdict(list), {}
        self.modules: list = []
        self.kernels: list[Kernel] = []
        self.counts: Counter | None = None
        self.launches, self.fault, self.kept = 0, None, []
        self.calls: Counter[str] = Counter()  # of the driver's functions
        self.last: tuple[bytes, int, int] | None = None  # the last launch's arguments, blocks and threads
        self.broken, self.here = 0, threading.local()  # what every later call answers, as behind a kernel that failed; whether a thread has the context

    # memory

    def allocate(self, size: int) -> int:
        """The address of `size` new bytes; 0 where there is no room."""
        room = -(-max(size, 1) // 512) * 512
        if self.free[room]:
            start = self.free[room].pop()
        else:
            start, self.next = self.next, self.next + room + GAP
            if self.next > self.memory.bytes.size:
                self.next = start
                return 0
        self.sizes[start] = size, room
        self.memory.mark(start, start + size, EMPTY)
        return self.origin + start

    def release(self, address: int) -> None:
        """Take an allocation back."""
        start = address - self.origin
        size, room = self.sizes.pop(start)
        self.memory.mark(start, start + room, OUTSIDE)
        self.free[room].append(start)

    def lend(self, address: int, size: int) -> None:
        """Of an allocation that is used again and again, `size` bytes are in use from now on."""
        start = address - self.origin
        self.memory.mark(start, start + self.sizes[start][0], OUTSIDE)
        self.memory.mark(start, start + size, EMPTY)

    def host(self, address: int, size: int, write: bool) -> None:
        """A copy between host and device touches these bytes."""
        start = address - self.origin
        if start < 0 or start + size > self.memory.bytes.size or (self.memory.known[start : start + size] == OUTSIDE).any():
            raise Fault(f"a copy of {size} bytes at {address:#x} is outside of what was allocated")
        if write:
            self.memory.mark(start, start + size, WRITTEN)

    # kernels

    def load(self, text: str) -> dict:
        """A module: its functions, its variables in memory."""
        variables, functions = read(text)
        places = {}
        for each in variables:
            if each.space == "global":
                places[each.name] = self.allocate(each.size)
                if each.values:
                    start = places[each.name] - self.origin
                    self.memory.bytes[start : start + each.size] = np.frombuffer(each.values, "u1")
                    self.memory.known[start : start + each.size] = WRITTEN
        return {"variables": variables, "functions": functions, "places": places}

    def entry(self, module: dict, name: str) -> int:
        """The number of a kernel."""
        kernel = Kernel(Program(module["functions"], name, module["variables"]), name)
        kernel.places = module["places"]
        self.kernels.append(kernel)
        return len(self.kernels)

    def launch(self, kernel: Kernel, blocks: int, threads: int, arguments: bytes) -> None:
        """Run a kernel to its end."""
        self.launches += 1
        together = max(1, self.most_threads // threads)
        for first in range(0, blocks, together):
            Run(self, kernel, first, min(together, blocks - first), blocks, threads, arguments).go()

    @contextmanager
    def installed(self) -> Iterator[Machine]:
        """While it lasts, this is the device `cuda`. Kernels built for it are forgotten behind."""
        from numod.device import cuda
        from numod.kernel import bind, build

        machine, array = self, cuda_memory.Driver.array

        def lent(source: object, memory: object, count: int, dtype: np.dtype, done: Callable[[], None]) -> object:
            machine.lend(memory.address, count * dtype.itemsize)

            def given_back() -> None:
                machine.lend(memory.address, 0)
                done()

            return array(source, memory, count, dtype, given_back)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cuda_driver, "_open", self.library)
            patch.setattr(cuda_memory.Driver, "array", lent)
            patch.setattr(build, "_built", {})
            known = [cuda.driver, cuda.pool, cuda.reports, cuda.identity, bind._built]
            for each in known:
                each.cache_clear()
            yield self
        for each in known:
            each.cache_clear()

    # the driver's interface

    def library(self) -> object:
        """What stands in the place of the driver's library."""
        machine = self

        class Library:
            pass

        for name, kinds in cuda_driver._FUNCTIONS.items():
            body = getattr(machine, name, None) or (lambda *_: None)

            def guarded(*given: object, body: object = body, name: str = name) -> int:
                machine.calls[name] += 1
                if not name.startswith(_ANYWHERE) and not hasattr(machine.here, "context"):
                    return 201
                if machine.broken and name in ("cuLaunchKernel", "cuCtxSynchronize"):
                    return machine.broken
                try:
                    return body(*given) or 0
                except Exception as error:  # told by the call's answer and by `cuGetErrorString`
                    machine.fault = error
                    return 719

            function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(guarded)
            setattr(Library, name, function)
        return Library

    def cuCtxSetCurrent(self, context): self.here.context = context
    def cuDeviceGetCount(self, out): out[0] = 1
    def cuDriverGetVersion(self, out): out[0] = 12040
    def cuDeviceGetAttribute(self, out, number, device): out[0] = {75: 8, 76: 0, 16: 132, 10: 32, 39: 2048, 82: 65536, 8: 49152, 38: 50 << 20}[number]
    def cuDeviceTotalMem_v2(self, out, device): out[0] = self.memory.bytes.size
    def cuDevicePrimaryCtxRetain(self, out, device): out[0] = 1
    def cuStreamCreate(self, out, flags): out[0] = STREAM
    def cuEventCreate(self, out, flags): out[0] = 3
    def cuFuncGetAttribute(self, out, number, function): out[0] = 32
    def cuMemFree_v2(self, address): self.release(address)
    def cuMemFreeHost(self, address): self.release(address)

    def cuMemGetInfo_v2(self, free, total):
        total[0] = self.memory.bytes.size
        free[0] = total[0] - self.next

    def cuGetErrorName(self, number, out): out[0] = _ERRORS.get(number, _ERRORS[719])[0]

    def cuGetErrorString(self, number, out):
        self.kept.append(text := _ERRORS.get(number, ("", str(self.fault).encode()))[1] or str(self.fault).encode())
        out[0] = text

    def cuMemAlloc_v2(self, out, size):
        out[0] = self.allocate(size)
        return 0 if out[0] else 2

    def cuMemHostAlloc(self, out, size, flags):
        out[0] = self.allocate(size)
        self.host(out[0], size, True)

    def cuMemcpyHtoD_v2(self, to, source, size, stream=None):
        self.host(to, size, True)
        ctypes.memmove(to, source, size)

    def cuMemcpyDtoH_v2(self, to, source, size, stream=None):
        self.host(source, size, False)
        ctypes.memmove(to, source, size)

    cuMemcpyHtoDAsync_v2, cuMemcpyDtoHAsync_v2 = cuMemcpyHtoD_v2, cuMemcpyDtoH_v2

    def cuModuleLoadDataEx(self, out, text, count, options, values):
        self.modules.append(self.load(text.decode()))
        out[0] = len(self.modules)

    def cuModuleGetFunction(self, out, module, name):
        out[0] = self.entry(self.modules[module - 1], name.decode())

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, places, extra):
        if not gx or not bx or bx > 1024:
            return 1
        kernel = self.kernels[function - 1]
        parameters = kernel.program.parameters
        pointers = (ctypes.c_void_p * len(parameters)).from_address(places)
        arguments = bytearray(kernel.program.ends["param"])
        for pointer, each in zip(pointers, parameters):
            start = kernel.program.variables[next(name for name in kernel.program.variables if name.rpartition(".")[0] == each.name)][1]
            arguments[start : start + each.size] = ctypes.string_at(pointer, each.size)
        self.last = bytes(arguments), gx, bx
        self.launch(kernel, gx, bx, bytes(arguments))


class Run:
    """Some blocks of a launch."""

    def __init__(self, machine: Machine, kernel: Kernel, first: int, count: int, blocks: int, threads: int, arguments: bytes) -> None:
        self.machine, self.kernel, self.arguments = machine, kernel, arguments
        self.count, self.threads, n = count, threads, count * threads
        program, writer = kernel.program, kernel.writer
        self.thread, self.block = np.arange(n) % threads, first + np.arange(n) // threads
        self.near, self.warp = np.arange(n) // threads, np.arange(n) // threads * -(-threads // WARP) + np.arange(n) % threads // WARP
        self.barriers = np.zeros(n, "i8")
        self.tokens = who(machine.launches, self.block, self.barriers, self.thread)
        self.pc = np.zeros(n, "i4")
        self.spaces = {"global": (machine.memory, 0, 0)}
        for space, each, copies in (("shared", self.near, count), ("local", np.arange(n), n)):
            if size := -(-program.ends[space] // 128) * 128:
                memory = Memory(size * copies)
                for start, stop in program.spans[space]:
                    memory.known.reshape(copies, size)[:, start:stop] = EMPTY
                self.spaces[space] = memory, each * size, size
        stores = {name: np.zeros(n, bool if kind == "pred" else f"u{SIZES[kind]}") for name, kind in program.registers.items() if name in {register for register, _ in writer.used.values()}}
        names = {name: stores[register] if kind == "pred" else stores[register].view(TYPES[kind]) for name, (register, kind) in writer.used.items()}
        grid = {"thread": self.thread.astype("u4"), "block": self.block.astype("u4"), "threads": np.full(n, threads, "u4"), "blocks": np.full(n, blocks, "u4")}
        self.names = {**globals(), **names, **grid, **writer.constants, "pc": self.pc, "carry": np.zeros(n, "i8"), "those": self.those, "place": self.place, "load": self.load, "store": self.store, "multiply": self.multiply, "parameter": self.parameter, "address": kernel.places.__getitem__}
        exec(kernel.compiled, self.names)  # the kernel, written by Writer
        self.steps = [self.names[f"step{k}"] for k in range(len(writer.lengths))]

    def go(self) -> None:
        """Run until all threads have ended."""
        everyone, n, pc, counts = slice(None), len(self.pc), self.pc, self.machine.counts
        with np.errstate(all="ignore"):
            while True:
                low = int(pc.min())
                if low == DONE:
                    return
                if low >= WAITING:
                    self.pass_barrier()
                    continue
                there = np.flatnonzero(pc == low)
                if counts is not None:
                    counts["instructions"] += self.kernel.writer.lengths[low] * len(np.unique(self.warp[there]))
                self.steps[low](everyone if len(there) == n else there)

    def pass_barrier(self) -> None:
        """Every thread waits or has ended: those of a block must all be at one barrier."""
        places = self.pc.reshape(self.count, self.threads)
        stuck = np.flatnonzero((places != places[:, :1]).any(1))
        if len(stuck):
            k = stuck[0]
            raise Fault(f"{self.kernel.name[:80]}: a barrier is reached by {int((places[k] == places[k].min()).sum())} of {self.threads} threads of block {self.block[k * self.threads]}")
        waiting = self.pc < DONE
        self.pc[waiting] -= WAITING
        self.barriers[waiting] += 1
        self.tokens = who(self.machine.launches, self.block, self.barriers, self.thread)

    def those(self, m: object, guard: np.ndarray) -> np.ndarray:
        """The threads of m that a guard lets through."""
        return np.arange(len(self.pc))[m][guard]

    def parameter(self, place: int, kind: np.dtype) -> object:
        """A launch argument."""
        return np.frombuffer(self.arguments, kind, 1, place)[0]

    def _fail(self, number: int, what: str, m: object, which: np.ndarray, address: np.ndarray) -> None:
        k = int(np.flatnonzero(which)[0])
        lane = np.arange(len(self.pc))[m][k]
        raise Fault(
            f"{what}, by {int(np.count_nonzero(which))} threads; the first is thread {self.thread[lane]} of block {self.block[lane]} at {int(address[k]):#x}: "
            f"{self.kernel.program.code[number].text[:160]} in {re.sub('B[0-9].*', '', self.kernel.name)}"
        )

    def place(self, number: int, space: str, m: object, address: object, size: int, parts: int, write: bool) -> np.ndarray:
        """Where in a space's memory an access begins, after it was checked."""
        memory, base, most = self.spaces[space]
        lanes = self.tokens[m]
        address = np.broadcast_to(np.asarray(address, "i8"), lanes.shape)
        at = address - self.machine.origin if space == "global" else address + base[m]
        if (wrong := address % size != 0).any():
            self._fail(number, f"misaligned access to {space} memory", m, wrong, address)
        outside = (address < 0) | (address > most - size) if most else (at < 0) | (at > memory.bytes.size - size)
        if not outside.any():
            known = memory.known[at[:, None] + np.arange(size)]
            outside = (known == OUTSIDE).any(1)
            if not write and not outside.any() and (empty := (known != WRITTEN).any(1)).any():
                self._fail(number, f"{space} memory is read that nobody wrote", m, empty, address)
        if outside.any():
            self._fail(number, f"{'write' if write else 'read'} outside of {space} memory", m, outside, address)
        if self.machine.counts is not None:
            self._count(space, m, address, size, write)
        return at

    def _count(self, space: str, m: object, address: np.ndarray, size: int, write: bool) -> None:
        counts, warps = self.machine.counts, self.warp[m]
        name = f"{space} {'stores' if write else 'loads'}"
        counts[name] += len(np.unique(warps))
        if space == "global":
            counts[f"{name} sectors"] += len(np.unique(warps << 44 | (address - self.machine.origin) >> 5))
        elif space == "shared":  # words of 4 bytes in 32 banks; a warp's words of one bank come one after the other
            words = np.unique(np.concatenate([warps << 32 | (address >> 2) + k for k in range(max(size // 4, 1))]))
            banks = np.unique(words >> 32 << 32 | words & 31, return_counts=True)
            most: dict[int, int] = defaultdict(int)
            for key, several in zip(*banks):
                most[int(key) >> 32] = max(most[int(key) >> 32], int(several))
            counts[f"{name} passes"] += sum(most.values())

    def multiply(self, number: int, m: object, shape: str, kind: str, *fragments: list[np.ndarray]) -> np.ndarray:
        """`mma` by the warps of m, all of whose threads must be there."""
        lanes, instruction = np.arange(len(self.pc))[m], self.kernel.program.code[number].text[:160]
        if len(lanes) % WARP or (self.warp[lanes].reshape(-1, WARP) != self.warp[lanes[::WARP], None]).any():
            raise Fault(f"{instruction}: some threads of a warp are not there")
        words = [np.stack([np.broadcast_to(each, lanes.shape) for each in registers], -1).reshape(-1, WARP, len(registers)) for registers in fragments]
        return matrices(shape, kind, *words).reshape(len(lanes), -1)

    def load(self, number: int, space: str, m: object, at: np.ndarray, kind: np.dtype, part: int) -> np.ndarray:
        """The elements at places of a space, the part-th after each."""
        memory, at = self.spaces[space][0], at + part * kind.itemsize
        if space != "local":
            mine = self.tokens[m]
            if (wrong := meet(memory.writers[at], mine)).any():
                self._fail(number, f"race: {space} memory is read that another thread wrote, with no barrier between", m, wrong, at)
            before = memory.readers[at]
            alone = before >> 44 != mine >> 44
            memory.readers[at] = np.where(alone | ~meet(before, mine), mine, mine | np.where(before >> 24 == mine >> 24, 0x7FF, 0xFFFFF << 24))
            several = memory.readers[at] ^ mine  # threads of one instruction that read one place
            if (several := (several != 0) & (several >> 44 == 0)).any():
                memory.readers[at[several]] |= np.where(memory.readers[at[several]] >> 24 == mine[several] >> 24, 0x7FF, 0xFFFFF << 24)
        return memory.bytes.view(kind)[at // kind.itemsize]

    def store(self, number: int, space: str, m: object, at: np.ndarray, kind: np.dtype, part: int, values: object) -> None:
        """Write elements at places of a space."""
        memory, at = self.spaces[space][0], at + part * kind.itemsize
        data, place = memory.bytes.view(kind), at // kind.itemsize
        values = np.broadcast_to(values, at.shape)
        if space != "local":
            mine = self.tokens[m]
            if (wrong := meet(memory.readers[at], mine)).any():
                self._fail(number, f"race: {space} memory is written that another thread read, with no barrier between", m, wrong, at)
            if (wrong := meet(memory.writers[at], mine) & (data[place].view(f"u{kind.itemsize}") != values.astype(kind).view(f"u{kind.itemsize}"))).any():
                self._fail(number, f"race: {space} memory is written that another thread wrote, with no barrier between", m, wrong, at)
            memory.writers[at] = mine
        data[place] = values
        if space != "local" and (wrong := (memory.writers[at] != mine) & (data[place].view(f"u{kind.itemsize}") != values.astype(kind).view(f"u{kind.itemsize}"))).any():
            self._fail(number, f"race: {space} memory is written by several threads at once", m, wrong, at)
        memory.known[at[:, None] + np.arange(kind.itemsize)] = WRITTEN
