"""`python -m numod docs`: the guide and the API reference as a static site, which needs no server.

Sphinx writes the site (the extra `docs`). This module only gives it pages: the guide as it is, and for each public
namespace a page that lists its functions and classes, whose text comes from their docstrings.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from .version import release

GUIDE = Path(__file__).parent / "guide"
# the guide's pages, in reading order
PAGES = (
    "getting-started", "from-pytorch", "compile", "learner", "profiling", "devices", "saving", "export", "onnx",
    "onnx-cases", "quantization", "distributed", "performance", "cold-start", "limits", "architecture", "extending",
    "glossary",
)  # fmt: skip
NAMESPACES = (
    "numod", "numod.nn", "numod.nn.functional", "numod.nn.init", "numod.nn.utils", "numod.optim",
    "numod.optim.lr_scheduler", "numod.autograd", "numod.func", "numod.linalg", "numod.fft", "numod.special",
    "numod.distributions", "numod.utils", "numod.utils.data", "numod.profiler", "numod.serialization", "numod.export",
    "numod.jit", "numod.cuda", "numod.amp", "numod.testing", "numod.datasets", "numod.learner",
)  # fmt: skip
SETTINGS = """
project, release, author = "numod", {release!r}, ""
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
napoleon_numpy_docstring, napoleon_use_rtype = False, False
myst_heading_anchors = 3
html_theme, html_title, html_show_copyright, html_show_sphinx = "furo", "numod " + release, False, False
default_role, autodoc_member_order, add_module_names = "code", "bysource", False
suppress_warnings = ["docutils", "myst.xref_missing", "misc.highlighting_failure"]


def setup(app):
    from numod.docs import escape_docstring

    app.connect("autodoc-process-docstring", escape_docstring, priority=400)  # before napoleon, at 500
"""
INDEX = """# numod

{summary}

```{{toctree}}
:caption: Guide
:maxdepth: 1

{guide}
```

```{{toctree}}
:caption: Reference
:maxdepth: 1

{reference}
```
"""


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register `docs`."""
    parser = commands.add_parser("docs", help="write the guide and the API reference as a static site")
    parser.add_argument("-o", "--output", metavar="FOLDER", default="docs", help="where to (default: %(default)s)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    missing = [name for name in ("sphinx", "furo", "myst_parser") if importlib.util.find_spec(name) is None]
    if missing:
        print(f'docs needs {", ".join(missing)}: pip install "numod[docs]"', file=sys.stderr)
        return 1
    status = build(Path(options.output))
    if status == 0:
        print(f"wrote {Path(options.output) / 'index.html'}")
    return status


def build(output: Path) -> int:
    """Write the site to the folder `output`. Returns Sphinx's exit status."""
    from sphinx.cmd.build import main as sphinx

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        write_sources(source)
        return sphinx(["-q", "-j", "auto", "-b", "html", "-d", str(source / "doctrees"), str(source), str(output)])


def write_sources(folder: Path) -> None:
    """Write what Sphinx reads: settings, the guide's pages, and a page per namespace."""
    (folder / "conf.py").write_text(SETTINGS.format(release=release), encoding="utf-8")
    pages = [*PAGES, *sorted({page.stem for page in GUIDE.glob("*.md")} - set(PAGES))]
    for page in pages:
        text = (GUIDE / f"{page}.md").read_text(encoding="utf-8")
        # the site has no files of the repository: their links become names
        text = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"`\1`", text)
        (folder / f"{page}.md").write_text(text, encoding="utf-8")
    if (GUIDE / "images").is_dir():
        shutil.copytree(GUIDE / "images", folder / "images")
    reference = folder / "reference"
    reference.mkdir()
    listed: set[type] = set()
    for name in NAMESPACES:
        (reference / f"{name}.rst").write_text(_reference_page(name, listed), encoding="utf-8")
    summary = inspect.getdoc(importlib.import_module("numod")) or ""
    index = INDEX.format(
        summary=summary, guide="\n".join(pages), reference="\n".join(f"reference/{name}" for name in NAMESPACES)
    )
    (folder / "index.md").write_text(index, encoding="utf-8")


def escape_docstring(app: object, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Escape what reStructuredText would read as markup, since docstrings are plain text with `code`.

    The example at the end is left as it is.
    """
    end = lines.index("Example:") if "Example:" in lines else len(lines)
    lines[:end] = map(_escaped, lines[:end])


def _escaped(line: str) -> str:
    parts = line.split("`")  # those with odd numbers are code
    parts[::2] = [re.sub(r"[*|]|_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    return "`".join(parts)


def _reference_page(name: str, listed: set[type]) -> str:
    """The page of a namespace. The index has each class once: `listed` holds those of earlier pages, and grows."""
    module = importlib.import_module(name)
    lines = [name, "=" * len(name), "", *(inspect.getdoc(module) or "").splitlines(), "", f".. module:: {name}", ""]
    classes, functions = [], []
    for member, value in public_members(module):
        if inspect.isclass(value):
            methods = [] if issubclass(value, BaseException) else ["   :members:"]
            index = ["   :no-index:"] if value in listed else []
            classes += [f".. autoclass:: {name}.{member}", *methods, *index, ""]
            listed.add(value)
        else:
            functions += [f".. autofunction:: {name}.{member}", ""]
    for title, entries in (("Functions", functions), ("Classes", classes)):
        if entries:
            lines += [title, "-" * len(title), "", *entries]
    return "\n".join(lines)


def public_members(module: ModuleType) -> Iterator[tuple[str, object]]:
    """The functions and classes of a namespace that have a docstring, by name. Modules and values are left out."""
    for name in sorted(getattr(module, "__all__", None) or dir(module)):
        value = getattr(module, name, None)
        if not name.startswith("_") and callable(value) and not isinstance(value, ModuleType) and inspect.getdoc(value):
            if inspect.isclass(value) or inspect.isroutine(value) or inspect.isfunction(value):
                yield name, value
