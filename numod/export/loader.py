"""NAME.py, which runs an exported network without numod, and `load_native`, which runs it in a process with numod.

Both use the code of `native`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from . import native
from .targets import Target

_SYSTEMS = {"linux": "linux", "windows": "win32", "apple": "darwin"}
_LINUX_NAMES = {  # Linux's names of features that LLVM names differently
    "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "sahf": "lahf_lm", "lzcnt": "abm", "bmi": "bmi1",
    "avx512vnni": "avx512_vnni", "avx512vbmi2": "avx512_vbmi2", "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq", "avx512bf16": "avx512_bf16", "avx512fp16": "avx512_fp16",
    "avx512vp2intersect": "avx512_vp2intersect", "avxvnni": "avx_vnni",
}  # fmt: skip
_INSTRUCTIONS = re.compile(r"s*se\d?|sse4\.\d|sahf|cx16|popcnt|avx|fma|f16c|bmi|lzcnt|movbe|gfni|vaes|vpclmul|amx")


def load_native(folder: str | os.PathLike, target: str | None = None) -> native.Network:
    """The network that `aot_compile` wrote to a folder, as native code: `load_native("build").run(x)`.

    `run` accepts NumPy arrays, buffers or nested lists and returns the same kind. `target`: None selects the best one
    for this machine. NAME.py in the folder does the same without numod.
    """
    descriptions = [*map(_description, sorted(Path(folder).glob("*.json")))]
    descriptions = [about for about in descriptions if about]
    if len(descriptions) != 1:
        raise FileNotFoundError(
            "load_native: expected a folder with the NAME.json of one exported network, "
            f"got {len(descriptions)} in {folder}"
        )
    return native.Network(descriptions[0], os.fspath(folder), target)


def _description(path: Path) -> dict | None:
    about = json.loads(path.read_text(encoding="utf-8"))
    return about if isinstance(about, dict) and "targets" in about and "abi" in about else None


def python_file(about: dict) -> str:
    """NAME.py."""
    source = Path(native.__file__).read_text(encoding="utf-8").replace("\n\n\n", "\n\n")
    source = re.sub(r"(?<=\w)\nimport ", ", ", source)
    source = re.sub(r"\n\n( *def |class |DESC|import |network )", r"\n\1", source)
    # one file of at most 200 lines: a condition and its only statement share a line if they fit
    source = re.sub(r"(\n( *)(?:if|else|try)[^\n]*:)\n\2    (\w[^\n]*[^\n:])(?=\n)(?!\n\2    )", _on_one_line, source)
    about = {key: value for key, value in about.items() if key not in ("weights", "checks", "hash", "flops")}
    about["targets"] = {name: row for name, row in about["targets"].items() if row["system"][0]}
    return re.sub(r"^DESCRIPTION = None.*$", lambda _: f"DESCRIPTION = {about!r}", source, count=1, flags=re.M)


def _on_one_line(match: re.Match) -> str:
    joined = f"{match[1]} {match[3]}"
    return joined if len(joined) <= 120 and match[3][-1] not in "([{," else match[0]


def where_it_runs(row: Target) -> dict:
    """A target's entry for `native`: operating system and processor, needed features, suffixes of loadable files."""
    triple = row.machine.triple
    system = next((platform for vendor, platform in _SYSTEMS.items() if vendor in triple), "")
    processor = {"arm64": "aarch64", "armv7": "armv7l"}.get(triple.split("-")[0], triple.split("-")[0])
    suffixes = [row.library] if row.library else []
    if system == "linux" and processor in ("x86_64", "aarch64"):
        suffixes.append(row.object)
    return {"system": [system, processor], "needs": _needs(row, system, processor), "suffixes": suffixes}


def _needs(row: Target, system: str, processor: str) -> list[str]:
    """The abilities that the code may use, by the names in Linux's /proc/cpuinfo."""
    if processor != "x86_64":
        return sorted(native.abilities()) if row.name == "native" and system == "linux" else []
    features = [feature[1:] for feature in row.machine.features.split(",") if feature.startswith("+")]
    names = {_LINUX_NAMES.get(feature, feature) for feature in features if _INSTRUCTIONS.match(feature)}
    if system != "linux":
        return sorted(names & {"avx2"})
    return sorted(names & native.abilities() if row.name == "native" else names)
