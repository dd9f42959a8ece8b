"""mypy and pyright accept the examples, every public name, and code in the style of public scripts (`tests/typed`).

mypy takes 25 s without a cache, pyright 8 s.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import numod

PACKAGE, TYPED = Path(numod.__file__).parent, Path(__file__).parent / "typed"
HOMES = (
    "", "nn.functional", "special", "linalg", "fft", "nn", "nn.init", "nn.utils", "optim", "optim.lr_scheduler",
    "utils.data", "autograd", "amp", "func", "cuda", "random", "jit", "distributions", "serialization", "Tensor",
)  # fmt: skip
pytestmark = pytest.mark.types


def needs(checker: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(checker) is None, reason=f"needs the package {checker}")


def public_names() -> Iterator[str]:
    for home in HOMES:
        owner = numod
        for part in home.split(".") if home else ():
            owner = getattr(owner, part)
        for name in getattr(owner, "__all__", None) or dir(owner):
            if name[0] != "_" and name != "annotations" and not inspect.ismodule(getattr(owner, name)):
                yield ".".join(["torch", *([home] if home else []), name])


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that names everything public."""
    path = tmp_path_factory.mktemp("types") / "names.py"
    imports = (
        "import numod as torch\nimport numod.nn.utils.rnn\nimport numod.optim.lr_scheduler\nimport numod.utils.data"
    )
    path.write_text(
        "\n".join([imports, "from typing import reveal_type", *map("reveal_type({})".format, public_names())])
    )
    return path


@needs("mypy")
def test_mypy_accepts_examples_and_scripts(names: Path) -> None:
    cache = names.parent / "cache"
    options = ["--follow-imports=silent", "--check-untyped-defs", "--disallow-untyped-defs", "--cache-dir", str(cache)]
    paths = [str(names), str(TYPED), str(PACKAGE / "examples")]
    run = subprocess.run([sys.executable, "-m", "mypy", *options, *paths], capture_output=True, text=True)
    assert [line for line in run.stdout.splitlines() if ": error:" in line] == []
    assert run.returncode == 0, run.stdout + run.stderr


@needs("pyright")
def test_pyright_accepts_examples_and_scripts_and_knows_every_name(names: Path) -> None:
    paths = [str(names), str(TYPED), str(PACKAGE / "examples")]
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *paths]
    run = subprocess.run(command, capture_output=True, text=True)
    if not run.stdout.startswith("{"):
        pytest.skip("pyright cannot fetch what it runs on")
    messages = json.loads(run.stdout)["generalDiagnostics"]
    assert [message["message"] for message in messages if message["severity"] == "error"] == []
    erased = ('is "Unknown"', 'is "(...) -> Unknown"')
    assert [message["message"] for message in messages if message["message"].endswith(erased)] == []
    assert sum(message["file"] == str(names) for message in messages) > 1500
