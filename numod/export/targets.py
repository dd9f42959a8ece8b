"""The targets of `aot_compile`, a row per target with the properties of a machine that the compiler needs."""

from __future__ import annotations

from dataclasses import dataclass

from ..device.target import LEVELS, Machine

_V2 = "+cx16,+popcnt,+sahf,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2"
_V3, _V4 = LEVELS["x86-64-v3"], LEVELS["x86-64-v4"]
_LINUX = "x86_64-unknown-linux-gnu"


@dataclass(frozen=True)
class Target:
    """A target.

    `object`, `library`: suffixes of its files; a target without a library is linked by the user. `linker`: the target's
    name for clang and zig.

    `levels`: the targets among which the code chooses at run time, lowest first.

    `bare`: no operating system or C library; the object contains every function that its code calls.
    """

    name: str
    machine: Machine
    object: str = ".o"
    library: str | None = ".so"
    linker: str = ""
    bare: bool = False
    levels: tuple[str, ...] = ()


def _x86(name: str, processor: str, features: str) -> Target:
    return Target(name, Machine(_LINUX, processor, features), linker="x86_64-linux-gnu")


def _cortex(name: str, triple: str, processor: str, features: str) -> Target:
    machine = Machine(
        triple, processor, features, bits=32, alignment=8, shares=False, floats=bool(features), vectors=False
    )
    return Target(name, machine, library=None, bare=True)


_ROWS = (
    _x86("x86-64-v2", "x86-64-v2", _V2),
    _x86("x86-64-v3", "x86-64-v3", _V3),
    _x86("x86-64-v4", "x86-64-v4", _V4),
    Target("x86-64", Machine(_LINUX, "x86-64-v2", _V2), linker="x86_64-linux-gnu",
        levels=("x86-64-v2", "x86-64-v3", "x86-64-v4")),
    Target("aarch64", Machine("aarch64-unknown-linux-gnu", "generic", LEVELS["aarch64"]), linker="aarch64-linux-gnu"),
    Target("armv7", Machine("armv7-unknown-linux-gnueabihf", "generic", "+neon,+vfp4", bits=32, alignment=16),
        linker="arm-linux-gnueabihf"),
    _cortex("cortex-m0", "thumbv6m-unknown-none-eabi", "cortex-m0", ""),
    _cortex("cortex-m4", "thumbv7em-unknown-none-eabihf", "cortex-m4", "+vfp4d16sp"),
    _cortex("cortex-m7", "thumbv7em-unknown-none-eabihf", "cortex-m7", "+fp-armv8d16"),
    _cortex("cortex-m33", "thumbv8m.main-unknown-none-eabihf", "cortex-m33", "+fp-armv8d16sp,+dsp"),
    _cortex("cortex-m55", "thumbv8.1m.main-unknown-none-eabihf", "cortex-m55", "+fp-armv8d16,+dsp,+mve.fp"),
    Target("riscv64",
        Machine("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c", abi="lp64d", alignment=16),
        linker="riscv64-linux-gnu"),
    Target(
        "riscv32",
        Machine("riscv32-unknown-none-elf", "generic-rv32", "+m,+a,+c", bits=32, alignment=8, shares=False,
            abi="ilp32", floats=False, vectors=False),
        library=None, bare=True,
    ),
    Target(
        "wasm",
        Machine("wasm32-unknown-unknown", "generic", "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext", bits=32,
            alignment=16, shares=False),
        library=".wasm", linker="wasm32-freestanding", bare=True,
    ),
    Target(
        "wasm-scalar",
        Machine("wasm32-unknown-unknown", "generic", "+bulk-memory,+nontrapping-fptoint,+sign-ext", bits=32,
            alignment=16, shares=False),
        library=".wasm", linker="wasm32-freestanding", bare=True,
    ),
    Target("windows-x86-64", Machine("x86_64-pc-windows-msvc", "x86-64-v3", _V3), object=".obj", library=".dll",
        linker="x86_64-windows-gnu"),
    Target("macos-arm64", Machine("arm64-apple-macosx11.0.0", "apple-m1", "+neon,+fp-armv8"), library=".dylib",
        linker="aarch64-macos"),
)  # fmt: skip
_BY_NAME = {row.name: row for row in _ROWS}


def names() -> list[str]:
    """The names of all targets."""
    return ["native", *_BY_NAME]


def target(name: str) -> Target:
    """The target of this name. Raises ValueError for an unknown name."""
    if name == "native":
        return _native()
    if name not in _BY_NAME:
        raise ValueError(f"aot_compile: there is no target {name!r}; known targets are {', '.join(names())}")
    return _BY_NAME[name]


def _native() -> Target:
    """This machine, with all features of its processor."""
    import sys

    from ..device import target as machine

    suffixes = {"win32": (".obj", ".dll"), "darwin": (".o", ".dylib")}.get(sys.platform, (".o", ".so"))
    return Target("native", Machine(machine.triple(), machine.processor(), machine.features()), *suffixes)
