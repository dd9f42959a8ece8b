"""Links object files to shared libraries, with `cc`, a cross compiler, `zig` or LLVM's `ld.lld`."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .targets import Target

_MINGW = "x86_64-w64-mingw32-gcc"
_SIZE_OPTIONS = ("-Wl,--gc-sections", "-s", "-Wl,-z,noseparate-code", "-Wl,--build-id=none")


def link(home: Path, name: str, symbols: Sequence[str], row: Target) -> str:
    """Make the shared library of a target in the folder, with the `symbols` visible.

    Returns "", or a sentence saying what to install.
    """
    command = _command(symbols, row)
    if command is None:
        return (
            f"no linker for {row.name}: install {'a C compiler (cc)' if row.name == 'native' else _wanted(row)}, "
            "and call aot_compile again"
        )
    made, code = home / f"{name}-{row.name}{row.library}", home / f"{name}-{row.name}{row.object}"
    libraries = ["-lm"] if row.library == ".so" and command[0] != "ld.lld" else []
    done = subprocess.run([*command, str(code), "-o", str(made), *libraries], capture_output=True, text=True)
    return f"{command[0]} could not link {made.name}: {done.stderr.strip()[-500:]}" if done.returncode else ""


def _wanted(row: Target) -> str:
    others = {".so": f"{row.linker}-gcc, lld, or ", ".dll": f"{_MINGW}, or ", ".wasm": "lld, or "}
    return f"{others.get(row.library, '')}ziglang (pip install ziglang)"


def _command(symbols: Sequence[str], row: Target) -> list[str] | None:
    """The link command without file names."""
    if row.library == ".wasm":
        return _for_wasm(symbols)
    here = row.name == "native" or (
        row.library == ".so" and sys.platform == "linux" and row.linker.split("-")[0] == platform.machine()
    )
    options = [] if row.library != ".so" else [*_SIZE_OPTIONS, *(f"-Wl,-u,{symbol}" for symbol in symbols)]
    if here and shutil.which("cc"):
        return ["cc", "-shared", *options]
    if row.library == ".so" and shutil.which(f"{row.linker}-gcc"):
        return [f"{row.linker}-gcc", "-shared", *options]
    if row.library == ".dll" and shutil.which(_MINGW):
        return [_MINGW, "-shared", "-s"]
    zig = _zig()
    if zig and row.linker:
        return [*zig, "cc", "-target", row.linker, "-shared"]
    if row.library == ".so" and shutil.which("ld.lld"):  # without libm: the program that loads the library has it
        return ["ld.lld", "-shared", *[word for option in options for word in option.removeprefix("-Wl,").split(",")]]
    return None


def _for_wasm(symbols: Sequence[str]) -> list[str] | None:
    exports = [f"--export={symbol}" for symbol in symbols]
    options = ["--no-entry", *exports, "--export=__heap_base", "--gc-sections", "--strip-all"]
    if shutil.which("wasm-ld"):
        return ["wasm-ld", *options]
    zig = _zig()
    return [*zig, "wasm-ld", *options] if zig else None


def _zig() -> list[str] | None:
    """The command that starts zig."""
    if shutil.which("zig"):
        return ["zig"]
    return [sys.executable, "-m", "ziglang"] if importlib.util.find_spec("ziglang") else None
