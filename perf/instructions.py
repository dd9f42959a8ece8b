"""The instructions that PyTorch's products of bytes may use beside numod's, which are VNNI's at best.

oneDNN would use AMX's tiles where the processor has them. Then the table is measured without them, which its heading
says, and the rows of bytes once more with them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence

VARIABLE = "ONEDNN_MAX_CPU_ISA"
WITHOUT_AMX, ALL = "AVX512_CORE_FP16", "ALL"  # oneDNN's names: all that comes before AMX, and all
ROWS = "quantized|dynamic|int8"  # whose products are of bytes


def flags() -> set[str]:
    """What the processor has, as Linux tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            match = re.search(r"^flags\s*:\s*(.+)", file.read(), re.MULTILINE)
    except OSError:
        match = None
    return set(match[1].split()) if match else set()


def limit(flags: Collection[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variable that holds oneDNN to what numod uses. Empty without AMX, and where the user has set it."""
    return {} if "amx_int8" not in flags or VARIABLE in environment else {VARIABLE: WITHOUT_AMX}


def note(flags: Collection[str], environment: Mapping[str, str]) -> str:
    """What the heading says of it: nothing without AMX."""
    if "amx_int8" not in flags:
        return ""
    value = environment.get(VARIABLE, ALL)
    use = "PyTorch is held to VNNI" if value == WITHOUT_AMX else "PyTorch may use it"
    return f"\nThis processor has AMX, which numod does not use. {use} ({VARIABLE}={value})."


def measure_with_amx(
    arguments: Sequence[str], rows: Sequence[str], flags: Collection[str], environment: Mapping[str, str]
) -> None:
    """Where PyTorch was held to VNNI, print those of these rows that are of bytes with AMX, from another process."""
    names = "|".join(re.escape(name) for name in rows if re.search(ROWS, name))
    if names and "amx_int8" in flags and environment.get(VARIABLE) == WITHOUT_AMX:
        choice = "--rows", f"^({names})$", "--peers", "PyTorch"
        command = [sys.executable, "-m", "perf", *_without_files(arguments), *choice]
        print(flush=True)
        subprocess.run(command, env={**os.environ, **environment, VARIABLE: ALL}, check=True)


def _without_files(arguments: Sequence[str]) -> list[str]:
    """Arguments without the files that the first table has written, and without its choice of rows."""
    others, names = [], ("--json", "--plot", "--rows", "--peers")
    for before, argument in zip([None, *arguments], arguments):
        if before not in names and argument.split("=")[0] not in names:
            others.append(argument)
    return others
