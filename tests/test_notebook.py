"""What a notebook shows: HTML that is escaped, takes its colours from the page, and has the values of the text."""

from __future__ import annotations

import re
import sys
import types
from html.parser import HTMLParser

import pytest

import numod
from numod import nn
from numod.profiler import profile
from numod.utils import progress, summary


class Structure(HTMLParser):
    """The tags and the text of HTML. Raises AssertionError where tags are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def structure(thing: object) -> Structure:
    html = thing._repr_html_()
    assert not re.search(r"(?<!-)color:|background|<script|<style|url\(|on\w+=", html)  # the page's colours, no code
    return Structure(html)


class Odd(nn.Module):
    def extra_repr(self) -> str:
        return "<script>alert('&')</script>"


@pytest.mark.parametrize(
    "tensor",
    [numod.ones(2, 3), numod.tensor(4.0), numod.arange(5000), numod.empty(2, device="meta"), numod.zeros(0, 3)],
)
def test_a_tensor_shows_its_text_and_kind(tensor: numod.Tensor) -> None:
    shown = structure(tensor)
    assert repr(tensor) in shown.text and str(tensor.dtype).removeprefix("numod.") in shown.text
    assert len(shown.text) < 2000


def test_a_parameter_says_that_it_is_one() -> None:
    assert structure(nn.Parameter(numod.ones(2, 3))).text.startswith("Parameter, 2 x 3, float32, cpu")


def test_a_module_is_a_tree_and_its_text_is_escaped() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.Sequential(Odd(), nn.LazyLinear(4)))
    shown = structure(net)
    assert shown.tags.count("details") == 2 and "script" not in shown.tags
    for text in (
        "(0) Linear(in_features=3, out_features=2, bias=True)  8 parameters",
        "Odd(<script>alert('&')</script>)",
    ):
        assert text in shown.text


def test_a_summary_and_a_profile_are_tables() -> None:
    net = nn.Linear(3, 2)
    shown = structure(summary(net, (4, 3), verbose=0))
    assert shown.tags.count("tr") == 2 and "8 parameters" in shown.text
    with profile() as prof:
        net(numod.ones(4, 3))
    for thing in (prof, prof.events(), prof.key_averages()):
        table = structure(thing)
        assert table.tags.count("tr") == 1 + len(prof.key_averages()) and "numod::linear" in table.text


def test_explanations_and_programs_keep_their_lines() -> None:
    double = numod.compile(lambda x: x * 2)
    double(numod.ones(3))
    for thing in (double.explain(), double.graph):
        shown = structure(thing)
        assert shown.tags.count("pre") == 1 and str(thing) in shown.text
    assert isinstance(double.explain(), str)


def test_progress_is_a_bar_that_is_updated_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = types.SimpleNamespace(update=lambda thing: shown.append(thing._repr_html_()))

    def display(thing: object, display_id: bool) -> object:
        handle.update(thing)
        return handle

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    assert list(progress(range(4), description="<epoch>", interval=0)) == [0, 1, 2, 3]
    assert 'value="0.0000"' in shown[0] and 'value="1.0000"' in shown[-1] and "&lt;epoch&gt;: 100%" in shown[-1]
    list(progress(iter(()), leave=False))
    assert "progress" not in shown[-1]
    assert structure(progress(range(3))).tags == ["div", "progress"]


def test_a_summary_is_printed_outside_notebooks_only(monkeypatch, capsys) -> None:
    summary(nn.Linear(2, 3), (1, 2))
    assert "Linear" in capsys.readouterr().out
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    result = summary(nn.Linear(2, 3), (1, 2))
    assert capsys.readouterr().out == "" and "Linear" in str(result)
    summary(nn.Linear(2, 3), (1, 2), verbose=1)
    assert "Linear" in capsys.readouterr().out
