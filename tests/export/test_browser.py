"""An exported network in a browser: the module under node, the pages in headless Chromium.

Marker `export`: two small networks are compiled, which takes about ten seconds on two idle cores.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.demo import Network, train, write_page
from numod.export import Artifact, aot_compile, browser, export

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [pytest.mark.export, pytest.mark.skipif(shutil.which("wasm-ld") is None, reason="needs wasm-ld")]
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
SCRIPT = """
import { load } from "./net.js";
const net = await load(), x = [[1, 2, 3], [0.5, 0.25, -1]];
const told = (...inputs) => { try { net.run(...inputs); return ""; } catch (problem) { return problem.message; } };
const [y, k] = net.run(x, [7, -8]), [again] = net.run(new Float32Array(x.flat()), new BigInt64Array([7n, -8n]));
console.log(JSON.stringify({
  y: [...y], same: again.every((each, n) => each === y[n]), kind: y.constructor.name, k: [...k].map(Number), kindOfK: k.constructor.name,
  faults: [told(x), told([1, 2], [7, -8]), told(new Float64Array(6), [7, -8]), told(x, [7, 1009])],
}));
"""
DRAW = """<script type="module">
// Draws strokes, as a mouse would, and notes what is read.
const ready = () => document.body.dataset.ready === "yes";
while (!ready()) await new Promise((next) => setTimeout(next, 20));
const canvas = document.getElementById("draw"), box = canvas.getBoundingClientRect();
const send = (name, [x, y]) => canvas.dispatchEvent(new PointerEvent(name,
  { pointerId: 1, bubbles: true, clientX: box.left + x * box.width / 320, clientY: box.top + y * box.height / 320 }));
const found = STROKES.map((strokes) => {
  document.querySelector("button").click();
  for (const points of strokes) {
    send("pointerdown", points[0]);
    points.slice(1).forEach((point) => send("pointermove", point));
    send("pointerup", points.at(-1));
  }
  return document.getElementById("answer").textContent;
});
document.body.dataset.found = JSON.stringify([found, document.documentElement.scrollWidth <= innerWidth]);
</script></body>"""
STROKES = {
    "0": [[[160, 60], [110, 90], [95, 160], [110, 230], [160, 260], [210, 230], [225, 160], [210, 90], [160, 60]]],
    "2": [[[105, 110], [120, 75], [160, 60], [205, 80], [210, 120], [170, 180], [105, 255], [220, 255]]],
    "3": [[[105, 80], [150, 60], [200, 80], [205, 115], [150, 150], [205, 180], [210, 225], [160, 260], [100, 240]]],
    "4": [[[180, 60], [100, 190], [225, 190]], [[185, 130], [180, 265]]],
    "5": [[[210, 60], [120, 60], [110, 145], [160, 135], [205, 165], [205, 220], [160, 260], [105, 245]]],
}


class Net(nn.Module):
    """Floats, and whole numbers with a check."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.table = nn.Linear(3, 2), nn.Embedding(10, 1)

    def forward(self, x: torch.Tensor, k: torch.Tensor) -> tuple:
        return torch.tanh(self.layer(x)) + self.table(k % 10 + k // 1000).sum(), k * 3


@pytest.fixture(scope="module", params=["embedded", "file"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Net, Artifact]:
    torch.manual_seed(0)
    net = Net().eval()
    example = torch.zeros(2, 3), torch.tensor([7, -8])
    return net, aot_compile(export(net, example), tmp_path_factory.mktemp("web"), targets=("wasm",),
        weights=request.param)  # fmt: skip


def _dom(page: Path, folder: Path, width: int = 1280) -> str:
    """The page after its scripts, in a window of this width."""
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=6000 "
        f"--window-size={width},900"
    )
    command = [CHROMIUM, *flags.split(), f"--user-data-dir={folder / 'user'}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


@needs_node
def test_the_module_runs_the_network(written: tuple) -> None:
    net, artifact = written
    assert {"net.wasm", "net.js", "net.html"} <= {*artifact.files}
    (artifact.folder / "script.mjs").write_text(SCRIPT)
    (artifact.folder / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(["node", "script.mjs"], cwd=artifact.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    want, tripled = net(torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.25, -1.0]]), torch.tensor([7, -8]))
    np.testing.assert_allclose(printed["y"], want.flatten().tolist(), rtol=1e-4, atol=1e-6)
    assert printed["same"] and printed["k"] == tripled.tolist()
    assert printed["kind"] == "Float32Array" and printed["kindOfK"] == "BigInt64Array"
    for text, part in zip(printed["faults"],
        ("expected 2 inputs, got 1", "x must have 6 numbers", "x must be a Float32Array", "an index is out of range"),
        strict=True):  # fmt: skip
        assert part in text


@needs_chromium
def test_the_page_shows_inputs_and_outputs(written: tuple, tmp_path: Path) -> None:
    net, artifact = written
    text = _dom(artifact.folder / "net.html", tmp_path)
    assert 'data-ready="yes"' in text and text.count('type="number"') == 8
    shown = [float(number) for number in re.findall(r"<b>([^<]+)</b>", text)]
    want, tripled = net(torch.zeros(2, 3), torch.tensor([0, 0]))
    np.testing.assert_allclose(shown, want.flatten().tolist() + tripled.tolist(), rtol=1e-3)


def test_a_page_keeps_text_from_becoming_script(written: tuple) -> None:
    _, artifact = written
    about = json.loads((artifact.folder / "net.json").read_text())
    text = browser.page(artifact.folder, about, "<b>a</b>", "</script>", ["</script><b>"])
    assert text.count("</script>") == 1 and "&lt;b&gt;a" in text


@needs_chromium
def test_a_person_draws_digits_and_they_are_read(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = Network()
    train(network, 15, "cpu", lambda *_: None)
    assert write_page(network, str(tmp_path))
    page = tmp_path / "digits.html"
    assert page.stat().st_size < 100_000 and not re.search(r"(src|href)=", page.read_text(encoding="utf-8"))
    script = DRAW.replace("STROKES", json.dumps([*STROKES.values()]))
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", script), encoding="utf-8")
    for width in (1280, 390):
        match = re.search('data-found="([^"]*)"', _dom(page, tmp_path, width))
        digits, fits = json.loads(unescape(match[1]))
        assert fits and sum(a == b for a, b in zip(digits, STROKES)) >= 4, digits
