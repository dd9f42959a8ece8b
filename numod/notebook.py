"""HTML for notebooks: what `_repr_html_` methods return. Plain elements in the page's own colours, light or dark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

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
    return element("div", f"<progress{value}></progress> {escaped(text)}", "font-family:monospace;white-space:pre-wrap")


_COLORS = ("#3b82f6", "#f97316", "#10b981", "#a855f7")  # readable on white and on black


def curves(series: Mapping[str, Sequence[tuple[float, float]]], last: float = 0.0, unit: str = "") -> str:
    """Curves of (x, y), each with its name, as a picture. The x axis reaches at least to `last`. Points that are not
    finite are left out.
    """
    finite = {name: [(x, y) for x, y in points if y - y == 0.0] for name, points in series.items()}
    points = [point for curve in finite.values() for point in curve]
    if not points:
        return ""
    right = max(last, *[x for x, _ in points]) or 1.0
    low, high = min([y for _, y in points]), max([y for _, y in points])
    span = high - low or 1.0
    parts = [_picture_text(0, 12, f"{high:.4g}", "start"), _picture_text(0, 148, f"{low:.4g}", "start")]
    parts.append(_picture_text(400, 166, f"{right:g} {unit}", "end"))
    parts.append('<path d="M52 4V150H400" fill="none" stroke="currentColor" stroke-opacity=".4"/>')
    for number, (name, curve) in enumerate(finite.items()):
        color = _COLORS[number % len(_COLORS)]
        step = -(-len(curve) // 400) or 1  # no more points than pixels
        places = [f"{54 + 344 * x / right:.1f},{146 - 138 * (y - low) / span:.1f}" for x, y in curve[::step]]
        if len(places) == 1:
            places *= 2  # the round ends of a line without length are a dot
        parts.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{color}" stroke-width="2" '
            'stroke-linejoin="round" stroke-linecap="round"/>'
        )
        parts.append(_picture_text(52 + 90 * number, 166, name, "start", color))
    return (
        f'<svg viewBox="0 0 404 172" style="display:block;width:100%;max-width:480px" role="img">{"".join(parts)}</svg>'
    )


def _picture_text(x: float, y: float, text: str, anchor: str, color: str = "currentColor") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{color}" font-size="12">{escaped(text)}</text>'


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
