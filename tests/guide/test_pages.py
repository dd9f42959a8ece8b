"""The guide: the examples of each page run, its links lead somewhere, and each environment variable is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import check_page

import numod

GUIDE = Path(numod.__file__).parent / "guide"
README = Path(numod.__file__).parents[1] / "README.md"
ELSEWHERE = {
    "export.md",
    "distributed.md",
    "onnx.md",
}  # pages with a test of their own, as their examples need tools or are slow
PAGES = sorted(GUIDE.glob("*.md"))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ELSEWHERE], ids=lambda page: page.stem)
def test_examples_run_and_give_the_outputs_shown(page: Path, tmp_path: Path) -> None:
    check_page(page, tmp_path)


@pytest.mark.parametrize("page", [*PAGES, README], ids=lambda page: page.stem)
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith(("http://", "https://")):
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), f"{page.name}: {link}"
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            assert heading in slugs, f"{page.name}: {link}"


def test_every_environment_variable_is_documented() -> None:
    source = (Path(numod.__file__).parent / "config.py").read_text(encoding="utf-8")
    names = set(re.findall(r'"(NUM[A-Z_]+)"', source))
    text = (GUIDE / "devices.md").read_text(encoding="utf-8")
    assert names and not [name for name in names if f"`{name}`" not in text]


def test_files_that_the_guide_names_exist() -> None:
    for page in PAGES:
        for name in re.findall(r"`(numod/[\w/]+(?:\.\w+)?/?)`", page.read_text(encoding="utf-8")):
            path = README.parent / name
            assert path.exists(), f"{page.name} names {name}, which does not exist"
