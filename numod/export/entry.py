"""The functions that C calls, as LLVM IR: they check the arguments and call the kernel with addresses.

Also the constants of the object file. Each function and each constant has its own section, so that a linker can drop
those that a program does not use.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..device.cpu import CONSTANTS
from ..device.target import Machine
from .interface import ABI, ALIGNMENT, BATCH, CHECK, MISALIGNED, NULL, PACKED_ALIGNMENT, SELFTEST, SMALL_ARENA
from .interface import UNKNOWN, Arena, Interface, Port, aligned

_TOLERANCE = {
    "float32": 1e-3,
    "complex64": 1e-3,
    "float64": 1e-8,
    "complex128": 1e-8,
}  # tolerance of the self-test, relative to the largest value
_HALF_STEPS = 64  # units in the last place by which float16 and bfloat16 may differ in the self-test


@dataclass(frozen=True)
class Data:
    """Data of the object file: the embedded block of weights, if any, and a sample for the self-test."""

    weights: bytes
    table: tuple[int, ...]
    inputs: tuple[bytes, ...]
    outputs: tuple[bytes, ...]
    scales: tuple[float, ...]  # the largest absolute value of each floating-point output
    abi: int
    header: bytes = b""  # of the state's safetensors file
    packed: bytes = b""  # weights in the form that the kernels read


def _block(data: bytes) -> tuple[str, int]:
    """(an LLVM byte-string literal, its alignment)."""
    escaped = "".join(f"\\{byte:02x}" for byte in data or b"\0")
    return f'[{len(data) or 1} x i8] c"{escaped}"', 64 if len(data) >= 512 else ALIGNMENT


def declared_once(texts: Sequence[str]) -> str:
    """The texts joined, without repeated declarations and declarations of functions that are defined."""
    text = "\n".join(texts)
    defined = {
        *re.findall(r"^define .*?(@[\w.]+)\(", text, re.M),
        *re.findall(r"^(@[\w.]+) = (?!external)", text, re.M),
    }
    lines, seen = [], set()
    for line in text.split("\n"):
        if line.startswith("declare ") or " = external" in line:
            name = re.search(r"@[\w.]+", line)[0]
            if name in defined or name in seen:
                continue
            seen.add(name)
        lines.append(line)
    return "\n".join(lines)


class Entry:
    """Writes the functions of an interface for a machine. `arena`: bytes of local memory that the kernel needs.

    `kernel`: the kernel's function name; `entry`: the entry point's name, if there are several.
    """

    def __init__(
        self,
        interface: Interface,
        machine: Machine,
        arena: Arena,
        data: Data,
        sections: bool = True,
        kernel: str = "kernel",
        entry: str = "",
    ) -> None:
        self.kernel, self.samples = kernel, f"sample_{entry}_" if entry else "sample_"
        self.interface, self.machine, self.data, self.sections = interface, machine, data, sections
        self.size, self.name = f"i{machine.bits}", interface.name
        used = arena.fixed or arena.unit
        slack = max(machine.alignment - ALIGNMENT, 0) if used else 0
        self.arena = Arena(aligned(arena.fixed + slack), aligned(arena.unit))
        self.sample_arena = self.arena.bytes([size.size for size in interface.sizes])
        self.sizes = [f"size{k}" for k in range(len(interface.sizes))]
        self.ports = [
            *((f"input{k}", input) for k, input in enumerate(interface.inputs)),
            *((f"output{k}", output) for k, output in enumerate(interface.outputs)),
        ]

    @property
    def exported(self) -> list[str]:
        """The exported symbols."""
        mark = ["_fltused"] if "windows" in self.machine.triple else []  # MSVC's mark of code with floats
        return [*(f"{self.name}_{function}" for function in self.interface.functions), *mark]

    def text(self) -> str:
        """The module."""
        return "\n".join(
            [self._constants(), *(getattr(self, f"_{function}")() for function in self.interface.functions)]
        )

    @property
    def declaration(self) -> str:
        """The kernel's declaration."""
        kinds = ", ".join(["ptr", "ptr", *["i64"] * (2 + len(self.sizes) + len(self.ports))])
        return f"declare i32 @{self.kernel}({kinds})\n"

    # ---- constants

    def _constants(self) -> str:
        lines = (
            ["$_fltused = comdat any\n@_fltused = weak_odr constant i32 0, comdat"]
            if "windows" in self.machine.triple and "check" in self.interface.parts
            else []
        )
        lines.append(self.table())
        if self.interface.embedded and "check" in self.interface.parts:
            lines.append(self._array("numod_weights", *_block(self.data.weights), ""))
        elif self.interface.embedded:
            lines.append("@numod_weights = external constant i8")
        for kind, samples in (("input", self.data.inputs), ("output", self.data.outputs)):
            lines += [self._bytes(f"{self.samples}{kind}{k}", sample) for k, sample in enumerate(samples)]
        return "\n".join(lines)

    def table(self) -> str:
        """The constants of the kernel: packed weights, then numbers. They are visible until the modules are linked."""
        data = self.data.packed + b"".join(number.to_bytes(8, "little", signed=True) for number in self.data.table)
        alignment = PACKED_ALIGNMENT if self.data.packed else ALIGNMENT
        return self._array(CONSTANTS, _block(data)[0], alignment, "") if data else ""

    def _bytes(self, name: str, data: bytes) -> str:
        return self._array(f"numod_{name}", *_block(data))

    def _array(self, name: str, value: str, alignment: int, linkage: str = "internal") -> str:
        section = f', section ".rodata.{name}"' if self.sections else ""
        return f"@{name} = {linkage} constant {value}{section}, align {alignment}"

    def _define(self, name: str, result: str, arguments: Sequence[str], body: str) -> str:
        section = f' section ".text.{self.name}_{name}"' if self.sections else ""
        return f"define {result} @{self.name}_{name}({', '.join(arguments)}) nounwind{section} {{\n{body}\n}}\n"

    # ---- functions

    def _run(self) -> str:
        """net_run: NULL for weights means the embedded ones."""
        embedded, size = self.interface.embedded, self.size
        pointers = [name for name, port in self.ports if port.count]
        needed = [
            *pointers,
            *(["arena"] if self.arena != Arena(0) else []),
            *([] if not self.interface.weights or (embedded and not self.interface.stateful) else ["weights"]),
        ]
        lines = ["  %null0 = or i1 false, false"]
        for k, pointer in enumerate(needed):
            lines += [f"  %is_null{k} = icmp eq ptr %{pointer}, null", f"  %null{k + 1} = or i1 %null{k}, %is_null{k}"]
        lines += [f"  br i1 %null{len(needed)}, label %bad, label %there", "there:", f"  %odd0 = or {size} 0, 0"]
        alignments = {"arena": ALIGNMENT, "weights": ALIGNMENT} | {
            name: min(port.itemsize, ALIGNMENT) for name, port in self.ports
        }
        checked = [pointer for pointer in ("arena", "weights", *pointers) if alignments[pointer] > 1]
        for k, pointer in enumerate(checked):
            lines += [
                f"  %number{k} = ptrtoint ptr %{pointer} to {size}",
                f"  %rest{k} = and {size} %number{k}, {alignments[pointer] - 1}",
                f"  %odd{k + 1} = or {size} %odd{k}, %rest{k}",
            ]
        last, out_of_range = ("fitting", f", [ {BATCH}, %aligned ]") if self.sizes else ("aligned", "")
        lines += [
            f"  %even = icmp eq {size} %odd{len(checked)}, 0",
            "  br i1 %even, label %aligned, label %bad",
            "aligned:",
            *self._ranges(),
            *self._needed(),
            f"  %small = icmp ult {size} %arena_bytes, %needed",
            "  br i1 %small, label %bad, label %good",
            "good:",
            *self._call(),
            "bad:",
            f"  %code = phi i32 [ {NULL}, %0 ], [ {MISALIGNED}, %there ], [ {SMALL_ARENA}, %{last} ]{out_of_range}",
            "  ret i32 %code",
        ]
        arguments = ["ptr %weights", "ptr %arena", f"{size} %arena_bytes"]
        arguments += [*(f"i64 %{name}" for name in self.sizes), *(f"ptr %{name}" for name, _ in self.ports)]
        return self.declaration + self._define("run", "i32", arguments, "\n".join(lines))

    def _ranges(self) -> list[str]:
        """Instructions that check the sizes and begin the block `fitting`."""
        if not self.sizes:
            return []
        lines = ["  %beyond0 = or i1 false, false"]
        for k, (name, size) in enumerate(zip(self.sizes, self.interface.sizes)):
            lines += [
                f"  %past{k} = sub i64 %{name}, {size.low}",
                f"  %out{k} = icmp ugt i64 %past{k}, {size.high - size.low}",
                f"  %beyond{k + 1} = or i1 %beyond{k}, %out{k}",
            ]
        return [*lines, f"  br i1 %beyond{len(self.sizes)}, label %bad, label %fitting", "fitting:"]

    def _needed(self) -> list[str]:
        """Instructions that compute the bytes of arena for the first size."""
        size, fixed = self.size, self.arena.fixed
        if not self.arena.unit:
            return [f"  %needed = add {size} {fixed}, 0"]
        narrow = "bitcast" if size == "i64" else "trunc"
        return [
            f"  %rows = {narrow} i64 %size0 to {size}",
            f"  %grown = mul {size} %rows, {self.arena.unit}",
            f"  %needed = add {size} %grown, {fixed}",
        ]

    def _call(self) -> list[str]:
        """The call of the kernel. Its arguments are 64-bit addresses."""
        alignment = self.machine.alignment
        weights = "%weights"
        lines = []
        if self.interface.embedded and not self.interface.stateful:
            weights = "%own"
            lines = [
                "  %given = icmp ne ptr %weights, null",
                "  %own = select i1 %given, ptr %weights, ptr @numod_weights",
            ]
        lines += [
            f"  %weights_at = ptrtoint ptr {weights} to i64",
            "  %start = ptrtoint ptr %arena to i64",
            f"  %raised = add i64 %start, {alignment - 1}",
            f"  %arena_at = and i64 %raised, {-alignment}",
            *(f"  %{name}_at = ptrtoint ptr %{name} to i64" for name, _ in self.ports),
            "  %result = alloca i64",
            "  %exception = alloca ptr",
            "  store i64 0, ptr %result",
        ]
        arguments = ", ".join(
            [
                "ptr %result",
                "ptr %exception",
                "i64 %weights_at",
                "i64 %arena_at",
                *(f"i64 %{name}" for name in self.sizes),
                *(f"i64 %{name}_at" for name, _ in self.ports),
            ]
        )
        lines.append(f"  %status = call i32 @{self.kernel}({arguments})")
        if not self.interface.checks:
            return [*lines, f"  ret i32 {0}"]
        return [
            *lines,
            "  %failed = load i64, ptr %result",
            "  %fine = icmp eq i64 %failed, 0",
            "  %short = trunc i64 %failed to i32",
            f"  %shifted = add i32 %short, {CHECK - 1 + self.interface.first_check}",
            "  %final = select i1 %fine, i32 0, i32 %shifted",
            "  ret i32 %final",
        ]

    def _error(self) -> str:
        """net_error: messages lie one after the other, so that loading the library needs no relocated pointers."""
        messages = self.interface.messages()
        blob, places = b"", {}
        for code, text in [*messages.items(), (-1, UNKNOWN)]:
            places[code] = len(blob)
            blob += text.encode() + b"\0"
        cases = " ".join(f"i32 {code}, label %code{code}" for code in messages)
        lines = [f"  switch i32 %code, label %found [ {cases} ]"]
        for code in messages:
            lines += [f"code{code}:", "  br label %found"]
        choices = ", ".join([f"[ {places[-1]}, %0 ]", *(f"[ {places[code]}, %code{code} ]" for code in messages)])
        lines += [
            "found:",
            f"  %place = phi i32 {choices}",
            "  %text = getelementptr i8, ptr @numod_messages, i32 %place",
            "  ret ptr %text",
        ]
        return self._bytes("messages", blob) + "\n" + self._define("error", "ptr", ["i32 %code"], "\n".join(lines))

    def _arena_bytes(self) -> str:
        """net_arena_bytes: a batch size out of range is clamped."""
        lines, arguments = [], ["i64 %batch"]
        if self.sizes:
            low, high = self.interface.sizes[0].low, self.interface.sizes[0].high
            lines = [
                f"  %less = icmp slt i64 %batch, {low}",
                f"  %raised = select i1 %less, i64 {low}, i64 %batch",
                f"  %more = icmp sgt i64 %raised, {high}",
                f"  %size0 = select i1 %more, i64 {high}, i64 %raised",
            ]
        lines += [*self._needed(), f"  ret {self.size} %needed"]
        return self._define("arena_bytes", self.size, arguments, "\n".join(lines))

    def _check(self) -> str:
        """net_check: whether the header belongs to this library."""
        body = (
            f"  %same = icmp eq i32 %abi, {self.data.abi}\n  %code = select i1 %same, i32 0, i32 {ABI}\n  ret i32 %code"
        )
        return self._define("check", "i32", ["i32 %abi"], body)

    def _selftest(self) -> str:
        """net_selftest: results are written behind the arena."""
        size, embedded = self.size, self.interface.embedded
        lines = [
            "  %none = icmp eq ptr %arena, null",
            "  br i1 %none, label %null, label %there",
            "null:",
            f"  ret i32 {NULL}",
            "there:",
        ]
        lines += [f"  %small = icmp ult {size} %arena_bytes, {self.sample_arena + self.interface.sample_bytes}"]
        lines += ["  br i1 %small, label %less, label %enough", "less:", f"  ret i32 {SMALL_ARENA}", "enough:"]
        offset = self.sample_arena
        for k, output in enumerate(self.interface.outputs):
            lines.append(f"  %output{k} = getelementptr i8, ptr %arena, {size} {offset}")
            offset += aligned(output.nbytes)
        samples = []
        for k, port in enumerate(self.interface.inputs):
            samples.append(f"@numod_{self.samples}input{k}")
            if port.written:
                lines += self._copied(f"input{k}", offset, samples[-1], port.nbytes)
                samples[-1] = f"%input{k}"
                offset += aligned(port.nbytes)
        weights = "null" if embedded else "%weights"
        if self.interface.stateful:
            block = "@numod_weights" if embedded else "%weights"
            lines += self._copied("state", offset, block, self.interface.weights_bytes)
            weights = "%state"
        run_arguments = [f"ptr {weights}", "ptr %arena", f"{size} {self.sample_arena}"]
        run_arguments += [f"i64 {dynamic_size.size}" for dynamic_size in self.interface.sizes]
        run_arguments += [f"ptr {sample}" for sample in samples]
        run_arguments += [f"ptr %output{k}" for k in range(len(self.interface.outputs))]
        lines += [f"  %code = call i32 @{self.name}_run({', '.join(run_arguments)})", "  %good = icmp eq i32 %code, 0"]
        lines += [
            "  br i1 %good, label %compare0, label %failed",
            "failed:",
            "  ret i32 %code",
            "other:",
            f"  ret i32 {SELFTEST}",
        ]
        for k, port in enumerate(self.interface.outputs):
            lines += self._compare(k, port, self.data.scales[k])
        lines += [f"compare{len(self.interface.outputs)}:", "  ret i32 0"]
        arguments = (
            ["ptr %arena", f"{size} %arena_bytes"]
            if embedded
            else ["ptr %weights", "ptr %arena", f"{size} %arena_bytes"]
        )
        declared = f"declare void @llvm.memcpy.p0.p0.{size}(ptr, ptr, {size}, i1)\n"
        declared += "declare float @llvm.fabs.f32(float)\ndeclare double @llvm.fabs.f64(double)\n"
        return declared + self._define("selftest", "i32", arguments, "\n".join(lines))

    def _copied(self, name: str, offset: int, source: str, count: int) -> list[str]:
        """Instructions that copy bytes to an offset behind the arena."""
        return [
            f"  %{name} = getelementptr i8, ptr %arena, {self.size} {offset}",
            f"  call void @llvm.memcpy.p0.p0.{self.size}(ptr %{name}, ptr {source}, {self.size} {count}, i1 false)",
        ]

    def _state_init(self) -> str:
        """net_state_init: the initial state."""
        size = self.size
        lines = ["  %none = icmp eq ptr %state, null", "  br i1 %none, label %done, label %there", "there:"]
        lines.append(
            f"  call void @llvm.memcpy.p0.p0.{size}(ptr %state, ptr @numod_weights, {size} "
            f"{self.interface.weights_bytes}, "
            "i1 false)"
        )
        lines += ["  br label %done", "done:", f"  %code = phi i32 [ {NULL}, %0 ], [ 0, %there ]", "  ret i32 %code"]
        if not self.interface.embedded:
            lines = [f"  ret i32 {NULL}"]
        return self._define("state_init", "i32", ["ptr %state"], "\n".join(lines))

    def _state_header(self) -> str:
        """net_state_header: the header of the state's safetensors file."""
        lines = ["  %none = icmp eq ptr %bytes, null", "  br i1 %none, label %done, label %there", "there:"]
        lines += [f"  store {self.size} {len(self.data.header)}, ptr %bytes", "  br label %done", "done:"]
        lines.append("  ret ptr @numod_state_header")
        header = self._bytes("state_header", self.data.header)
        return header + "\n" + self._define("state_header", "ptr", ["ptr %bytes"], "\n".join(lines))

    def _compare(self, k: int, port: Port, scale: float) -> list[str]:
        """Basic blocks that compare output k with the sample's; they continue at `compare{k + 1}` or `other`."""
        kind = {"float": "float", "double": "double"}.get(port.c_type, f"i{8 * port.itemsize}")
        after, inexact = f"compare{k + 1}", port.dtype.startswith(("float", "bfloat", "complex"))
        if not port.count:
            return [f"compare{k}:", f"  br label %{after}"]
        return [
            f"compare{k}:", f"  br label %element{k}", f"element{k}:",
            f"  %i{k} = phi {self.size} [ 0, %compare{k} ], [ %next{k}, %same{k} ]",
            f"  %got_at{k} = getelementptr {kind}, ptr %output{k}, {self.size} %i{k}",
            f"  %got{k} = load {kind}, ptr %got_at{k}",
            f"  %want_at{k} = getelementptr {kind}, ptr @numod_{self.samples}output{k}, {self.size} %i{k}",
            f"  %want{k} = load {kind}, ptr %want_at{k}",
            *(self._close(k, kind, port, scale) if inexact else [f"  %close{k} = icmp eq {kind} %got{k}, %want{k}"]),
            f"  br i1 %close{k}, label %same{k}, label %other", f"same{k}:", f"  %next{k} = add {self.size} %i{k}, 1",
            f"  %done{k} = icmp eq {self.size} %next{k}, {port.c_count}",
            f"  br i1 %done{k}, label %{after}, label %element{k}",
        ]  # fmt: skip

    def _close(self, k: int, kind: str, port: Port, scale: float) -> list[str]:
        """Instructions for: two floats are close, both NaN, or the same infinity."""
        if kind.startswith("i"):  # 16-bit floats are compared by their bits
            return [
                f"  %apart{k} = sub {kind} %got{k}, %want{k}", f"  %up{k} = add {kind} %apart{k}, {_HALF_STEPS}",
                f"  %close{k} = icmp ule {kind} %up{k}, {2 * _HALF_STEPS}",
            ]  # fmt: skip
        import struct

        limit = _TOLERANCE[port.dtype] * scale
        limit = struct.unpack("<f", struct.pack("<f", limit))[0] if kind == "float" else limit
        bits = struct.unpack("<Q", struct.pack("<d", limit))[0]
        suffix = "f32" if kind == "float" else "f64"
        return [
            f"  %apart{k} = fsub {kind} %got{k}, %want{k}",
            f"  %distance{k} = call {kind} @llvm.fabs.{suffix}({kind} %apart{k})",
            f"  %near{k} = fcmp ole {kind} %distance{k}, 0x{bits:016X}",
            f"  %equal{k} = fcmp oeq {kind} %got{k}, %want{k}", f"  %strange{k} = fcmp uno {kind} %got{k}, %got{k}",
            f"  %strange_too{k} = fcmp uno {kind} %want{k}, %want{k}",
            f"  %both{k} = and i1 %strange{k}, %strange_too{k}", f"  %either{k} = or i1 %near{k}, %equal{k}",
            f"  %close{k} = or i1 %either{k}, %both{k}",
        ]  # fmt: skip
