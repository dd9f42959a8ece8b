"""Browser files for a network exported for WebAssembly: NAME.wasm; NAME.js, an ES module that loads it; and NAME.html,
a self-contained page that runs the network.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path

_PARTS = Path(__file__).parent / "page"


def write(folder: Path, about: dict) -> list[str]:
    """Write the files for the network described by `about` (NAME.json) and return their names.

    Returns [] without a linked module.
    """
    name = about["name"]
    linked = [folder / f"{name}-{target}.wasm" for target in ("wasm", "wasm-scalar")]
    code = next((path.read_bytes() for path in linked if path.name in _linked_modules(folder, about)), None)
    if code is None:
        return []
    (folder / f"{name}.wasm").write_bytes(code)
    (folder / f"{name}.js").write_text(module(about), encoding="utf-8", newline="\n")
    if about["entries"]:  # a page can only show a network with one entry point
        return [f"{name}.wasm", f"{name}.js"]
    (folder / f"{name}.html").write_text(page(folder, about), encoding="utf-8", newline="\n")
    return [f"{name}.wasm", f"{name}.js", f"{name}.html"]


def _linked_modules(folder: Path, about: dict) -> list[str]:
    """The linked modules of this export; the folder may contain modules of an older one."""
    names = [f"{about['name']}-{target}.wasm" for target in about["targets"]]
    return [name for name in names if (folder / name).exists()]


def module(about: dict) -> str:
    """NAME.js."""
    fields = (
        "name", "abi", "arena_bytes", "weights_bytes", "embedded", "stateful", "inputs", "outputs", "sizes", "entries",
    )  # fmt: skip
    text = json.dumps({key: about[key] for key in fields if key in about}, separators=(",", ":"))
    source = _read("network.js").replace("NAME.", f"{about['name']}.")
    return source.replace("const DESCRIPTION = null;", f"const DESCRIPTION = {text};")


def page(
    folder: Path, about: dict, title: str = "", prompt: str | None = None, labels: Sequence[str] = (), fit: bool = False
) -> str:
    """NAME.html: the module, its code and weights, and elements for inputs and outputs. It needs no server.

    - `labels`: names of an output's elements; the greatest is shown as the answer.
    - `fit`: whether a drawing on an image input is scaled to fill the image.
    """
    name = about["name"]
    weights = folder / f"{name}.safetensors"
    options = {"labels": [*labels] or None, "fit": fit, "prompt": prompt}
    constants = {"CODE": _encoded(folder / f"{name}.wasm"),
        "WEIGHTS": "" if about["embedded"] else _encoded(weights), "OPTIONS": options}  # fmt: skip
    script = "".join(f"const {key} = {_literal(value)};\n" for key, value in constants.items())
    text = _read("page.html").replace("TITLE", html.escape(title or f"{name}: a network exported by numod"))
    return text.replace("/* NETWORK */", module(about)).replace("/* PAGE */", script + _read("page.js"))


def _literal(value: object) -> str:
    """A JavaScript literal, safe inside a script element."""
    return json.dumps(value).replace("</", "<\\/")


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _read(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")
