"""HTML for notebooks: what `_repr_html_` methods return. Plain elements in the page's own colours, light or dark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

_LINE = "1px solid rgba(128,128,128,.35)"


def escaped(text: object) -> str:
    """Text for HTML, also in an attribute."""
    import html  # here, since it reads a table of entities

    return html.escape(str(text))


def element(tag: str, content: str, style: str = "") -> str:
    """An element around HTML."""
    return f'<{tag} style="{style}">{content}</{tag}>' if style else f"<{tag}>{content}</{tag}>"


def preformatted(text: object, caption: str = "") -> str:
    """Text in its lines, under a caption."""
    head = element("div", escaped(caption), "opacity:.7;font-size:90%") if caption else ""
    return element("div", head + element("pre", escaped(text), "margin:0;overflow-x:auto;max-height:40em"))


def table(head: Sequence[str], rows: Sequence[Sequence[object]], note: str = "") -> str:
    """A table with names in the first column and numbers in the others."""
    titles = "".join(_cell("th", title, k) for k, title in enumerate(head))
    body = "".join(element("tr", "".join(_cell("td", cell, k) for k, cell in enumerate(row))) for row in rows)
    foot = element("div", escaped(note), "opacity:.7;font-size:90%;white-space:pre-line") if note else ""
    inner = element("thead", element("tr", titles)) + element("tbody", body)
    return element("div", element("table", inner, "border-collapse:collapse") + foot, "overflow-x:auto")


def _cell(tag: str, content: object, column: int) -> str:
    # long names break where the page is narrow, so that the numbers beside them are in sight
    style = "right;white-space:pre" if column else "left;white-space:pre-wrap;overflow-wrap:anywhere;min-width:8em"
    return element(tag, escaped(content), f"text-align:{style};padding:2px 8px;border-bottom:{_LINE}")


def tree(title: str, inner: str, is_open: bool = True) -> str:
    """A line that opens to show its contents; the title is text, `inner` HTML."""
    if not inner:
        return element("div", escaped(title), "margin-left:1.1em;font-family:monospace")
    summary = element("summary", escaped(title), "font-family:monospace;cursor:pointer")
    body = element("div", inner, f"margin-left:1.2em;border-left:{_LINE}")
    return f"<details{' open' if is_open else ''}>{summary}{body}</details>"


def bar(share: float | None, text: str) -> str:
    """A progress bar with its text; without a share of work done, one of unknown length."""
    value = "" if share is None else f' value="{share:.4f}"'
    return element("div", f"<progress{value}></progress> {escaped(text)}", "font-family:monospace;white-space:pre")


class Text(str):
    """Text that a notebook shows in its lines."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return preformatted(self)


def in_notebook() -> bool:
    """Whether the code runs in the kernel of a notebook."""
    return hasattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "kernel")


def live_display() -> Callable[[object], object] | None:
    """A function that shows an object in the running cell, and again in the same place; None outside notebooks."""
    display = sys.modules.get("IPython.display")
    if display is None or not in_notebook():
        return None
    handle = None

    def show(thing: object) -> None:
        nonlocal handle
        if handle is None:
            handle = display.display(thing, display_id=True)
        else:
            handle.update(thing)

    return show
