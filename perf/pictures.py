"""`python -m perf.pictures`: the pictures of the README and the guide.

`overview.svg` is drawn here. `profile.png` is a screenshot of the profiler's page, taken by headless Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "numod" / "guide" / "images"
CODE = """class Net(nn.Module):
    def forward(self, x):
        return self.out(
            F.relu(self.hidden(x)))

@torch.compile
def step(x, y):
    opt.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    return loss.item()"""
STAGES = ("record all operations of a step", "fuse, plan memory", "Python kernels → Numba → LLVM")
RESULTS = (
    ("one native function", "a step of a tiny network: 0.01 of PyTorch's time"),
    ("x86-64, AArch64, RISC-V, CUDA", "vector code for each processor"),
    ("C: .h, .o, .so", "no Python, no allocation, no globals"),
    ("Cortex-M", "a small network in 1 kB, its training step in 5 kB"),
    ("WebAssembly", "a page that runs without a server"),
)
FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"
MONO = "font-family='ui-monospace, SFMono-Regular, Menlo, Consolas, monospace'"


def overview() -> str:
    """The picture of the README: code, what numod does with it, and what comes out, from left to right."""
    width, height = 960, 300
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img' "
        "aria-label='A training step in Python becomes one native function, C code, firmware or a web page'>",
        f"<rect width='{width}' height='{height}' rx='10' fill='#fbfbfd'/>",
        "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' markerHeight='8' orient='auto'>"
        "<path d='M0 0L8 4L0 8z' fill='#5b6472'/></marker></defs>",
        _box(24, 24, 292, 252, "#ffffff", "#c9d1dc"),
    ]
    for number, line in enumerate(CODE.splitlines()):
        color = "#8250df" if line.startswith("@") else "#1f2937"
        parts.append(_text(40, 54 + 17.5 * number, line, 12.5, color, MONO))
    for number, stage in enumerate(STAGES):
        y = 54 + 70 * number
        parts += [_box(372, y, 236, 46, "#eef4ff", "#7aa2e3"), _text(490, y + 28, stage, 12.5, "#1e3a6e", middle=True)]
        if number:
            parts.append(_arrow(490, y - 24, 490, y - 2))
    parts.append(_arrow(320, 147, 366, 147))
    for number, (title, remark) in enumerate(RESULTS):
        y = 24 + 52 * number
        parts += [
            _arrow(612, 147, 658, y + 21),
            _box(664, y, 272, 42, "#effaf3", "#6fbf8b"),
            _text(678, y + 18, title, 12.5, "#14532d", weight=600),
            _text(678, y + 33, remark, 10.5, "#3f6b50"),
        ]
    return "\n".join([*parts, "</svg>\n"])


def _box(x: float, y: float, width: float, height: float, fill: str, stroke: str) -> str:
    return f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='8' fill='{fill}' stroke='{stroke}'/>"


def _text(
    x: float, y: float, text: str, size: float, color: str, font: str = FONT, weight: int = 400, middle: bool = False
) -> str:
    anchor = " text-anchor='middle'" if middle else ""
    return (
        f"<text x='{x}' y='{y}' {font} font-size='{size}' font-weight='{weight}' fill='{color}'{anchor} "
        f"xml:space='preserve'>{escape(text)}</text>"
    )


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"<path d='M{x1} {y1}L{x2} {y2}' stroke='#5b6472' stroke-width='1.3' marker-end='url(#tip)'/>"


def profile_page() -> None:
    """Profile the script of the guide's page on profiling, and take a picture of the page that this writes."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("the picture of the profiler's page needs Chromium")
    page = (IMAGES.parent / "profiling.md").read_text(encoding="utf-8")
    script = page.split("```python\n", 1)[1].split("```", 1)[0]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "slow.py").write_text(script, encoding="utf-8")
        for _ in range(2):  # the first run compiles
            subprocess.run([sys.executable, "-m", "numod", "profile", "slow.py"], cwd=folder, check=True)
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--hide-scrollbars",
                "--window-size=1280,900",
                "--virtual-time-budget=3000",
                f"--screenshot={IMAGES / 'profile.png'}",
                f"file://{folder}/slow_profile.html",
            ],
            check=True,
        )


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "overview.svg").write_text(overview(), encoding="utf-8")
    profile_page()
