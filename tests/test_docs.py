"""The sources of the site that `python -m numod docs` writes. Sphinx itself is not needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from numod import docs


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    docs.write_sources(folder)
    return folder


def test_every_page_of_the_guide_has_its_place_in_the_reading_order() -> None:
    assert set(docs.PAGES) == {page.stem for page in docs.GUIDE.glob("*.md")}


def test_links_to_files_of_the_repository_become_names(sources: Path) -> None:
    assert "`CONTRIBUTING.md` has the" in (sources / "extending.md").read_text(encoding="utf-8")
    assert not [page for page in sources.glob("*.md") if "](../" in page.read_text(encoding="utf-8")]


def test_the_index_has_each_class_once(sources: Path) -> None:
    pages = [(sources / "reference" / f"{name}.rst").read_text(encoding="utf-8") for name in ("numod", "numod.amp")]
    entries = [re.search(r"autoclass:: \S+\.GradScaler\n(?:   :.*\n)*", page)[0] for page in pages]
    assert [":no-index:" in entry for entry in entries] == [False, True]


def test_docstrings_are_escaped_outside_of_code_and_examples() -> None:
    lines = ["x * y in add_ and `a * b_`: (*) -> |x|", "Example:", "", "    >>> 2 * 3"]
    docs.escape_docstring(None, "function", "f", None, None, lines)
    assert lines == [r"x \* y in add\_ and `a * b_`: (\*) -> \|x\|", "Example:", "", "    >>> 2 * 3"]
