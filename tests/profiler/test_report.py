"""The HTML report: its numbers are the table's, it is one file, and a browser draws it without an error (marker
`browser`, needs Chromium).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import numod
import numod.nn.functional as F
from numod import nn, optim
from numod.device import threads
from numod.profiler import profile
from numod.profiler.averages import time_text

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def profiled() -> profile:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    x, y = numod.randn(4, 8), numod.tensor([0, 1, 2, 0])
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True, with_jit=True) as prof:
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
            prof.step()
    return prof


@pytest.fixture(scope="module")
def page(profiled: profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    profiled.export_html(str(path), title="a <net> & its step", assembly=2)
    return path


def data_of(page: Path) -> dict:
    return json.loads(
        re.search(
            r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL
        )[1].replace("<\\/", "</")
    )


def test_the_page_is_one_file_that_asks_for_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"']?https?:|@import|url\(|fetch\(|XMLHttpRequest", text)
    assert "<title>a &lt;net> &amp; its step</title>" in text and not re.search(r"@(style|script|data|title)@", text)


def test_numbers_of_the_page_equal_the_tables(profiled: profile, page: Path) -> None:
    data, averages = data_of(page), profiled.key_averages()
    assert {row[0]: row[2:] for row in data["averages"]} == {
        average.key: [
            average.self_cpu_time_total,
            average.cpu_time_total,
            average.count,
            average.self_cpu_memory_usage,
            average.flops,
        ]
        for average in averages
    }
    assert (
        sum(time for _, time in data["kinds"])
        == pytest.approx(data["wall"])
        == pytest.approx(sum(average.self_cpu_time_total for average in averages))
    )
    assert len(data["slices"]["rows"]) == len(profiled.events()) and data["left_out"] == 0


def test_modules_hold_the_modules_in_them(profiled: profile, page: Path) -> None:
    modules = {row[0]: row for row in data_of(page)["modules"]}
    assert list(modules) == ["net", "net.0", "net.1", "net.2"]
    assert modules["net"][1:3] == ["Sequential", 3] and modules["net.0"][1:3] == ["Linear", 3]
    assert modules["net"][3] == pytest.approx(modules["net"][4] + sum(modules[f"net.{k}"][3] for k in range(3)))
    assert modules["net"][5] == pytest.approx(sum(modules[f"net.{k}"][5] for k in range(3)))
    assert modules["net"][8] == sum(event.flops for event in profiled.events() if event.module)


def test_steps_have_their_time_by_kind(profiled: profile, page: Path) -> None:
    rows = data_of(page)["steps"]
    assert [row[0] for row in rows] == [f"ProfilerStep#{k}" for k in range(4)]
    events = {event.name: event for event in profiled.events() if event.category == "step"}
    for name, _, length, kinds in rows[:3]:
        assert length == events[name].cpu_time_total and kinds["kernels"] > 0
        assert sum(kinds.values()) <= length + 1e-3


def test_the_flame_graph_adds_up(page: Path) -> None:
    rows = data_of(page)["flame"]
    assert [row[0] for row in rows if row[2] == 0] == ["profile"]
    for name, _, depth, start, length in rows:
        inner = [row for row in rows if row[2] == depth + 1 and start - 1e-6 <= row[3] < start + length]
        assert sum(row[4] for row in inner) <= length + 1e-3, name


def test_kernels_have_source_and_the_longest_their_machine_code(profiled: profile, page: Path) -> None:
    kernels = data_of(page)["kernels"]
    assert [kernel["name"] for kernel in kernels] == [kernel.kernel.name for kernel in profiled.kernels()]
    assert all("def kernel" in kernel["source"] for kernel in kernels)
    assert [("assembly" in kernel) for kernel in kernels] == [True, True] + [False] * (len(kernels) - 2)
    assert all(0 <= kernel["roofline"] < 3 for kernel in kernels)
    for kernel in kernels[:2]:
        first, last = kernel["hot"]
        assert (
            len(kernel["lines"]) == len(kernel["assembly"].splitlines())
            and max(kernel["lines"]) <= len(kernel["source"].splitlines())
            and any(kernel["lines"])
        )
        assert -1 <= last < len(kernel["lines"]) and 0 <= first


PROBE = """
<script>
const press = (key) => at("slices").dispatchEvent(new KeyboardEvent("keydown", {key}));
at("slices").focus();
press("n"); const first = at("slice").textContent;
press("d"); const inner = at("slice").textContent;
press("+"); press("ArrowRight"); press("0"); press("u"); const outer = at("slice").textContent;
at("find").value = "linear"; at("find").dispatchEvent(new Event("input"));
const hits = at("hits").textContent;
at("find").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"})); const hit = at("slice").textContent;
at("find").dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"})); const next = at("hits").textContent;
at("slices").dispatchEvent(new PointerEvent("pointermove", {clientX: at("slices").getBoundingClientRect().left + 40, clientY: at("slices").getBoundingClientRect().top + 30}));
const hover = at("tip").textContent;
const theme = document.documentElement.dataset.theme; at("theme").click(); const other = document.documentElement.dataset.theme;
const focus = document.activeElement.id;
location.hash = "#modules"; at("modules").scrollIntoView();
const covered = document.querySelector("#modules h2").getBoundingClientRect().top < document.querySelector("nav").getBoundingClientRect().bottom;
at("more").click();
document.querySelectorAll("#averages th button")[4].click();
document.getElementById("kernel-0").open = true;
const openCode = async () => {
  await new Promise((resolve) => setTimeout(resolve, 100));
  const source = document.querySelector("#kernel-0 pre");
  source.focus();
  for (let k = 0; k < 2; k++) source.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown"}));
  const [lines, machine] = document.querySelectorAll("#kernel-0 pre");
  document.body.append(element("pre", {id: "code"}, JSON.stringify({
    source: [...lines.querySelectorAll(".chosen .mark")].map((each) => +each.textContent), machine: [...machine.querySelectorAll(".chosen .mark")].map((each) => +each.textContent),
    said: document.querySelector("#kernel-0 [aria-live]").textContent})));
};
openCode();
document.body.append(element("pre", {id: "probe"}, JSON.stringify({first, inner, outer, hits, hit, next, hover, theme, other, covered, wide: document.documentElement.scrollWidth > innerWidth, focus})));
</script>
"""


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
@pytest.mark.parametrize("dark, width", [(False, 1280), (True, 500)], ids=["light", "dark_and_narrow"])
def test_a_browser_draws_it_and_its_keys_work(
    profiled: profile, page: Path, tmp_path: Path, dark: bool, width: int
) -> None:
    probed = tmp_path / "page.html"
    probed.write_text(page.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8")
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync"
    )
    command = [
        CHROMIUM,
        *flags.split(),
        *(["--force-dark-mode"] if dark else []),
        f"--user-data-dir={tmp_path / 'user'}",
        f"--window-size={width},900",
        "--enable-logging=stderr",
        "--virtual-time-budget=4000",
    ]
    finished = subprocess.run([*command, "--dump-dom", probed.as_uri()], capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in finished.stderr
    text = finished.stdout
    assert 'data-ready="yes"' in text
    for key_average in profiled.key_averages():
        if key_average.self_cpu_time_total > 100:
            assert f"<td>{time_text(key_average.self_cpu_time_total)}</td>" in text, key_average
    assert text.count('class="point"') == sum(
        bool(kernel.flops and kernel.bytes_moved) for kernel in profiled.kernels()
    )
    assert "its hot loop marked" in text
    code = json.loads(re.search(r'<pre id="code">(.*?)</pre>', text)[1])
    ((line,), machine_code) = code["source"], code["machine"]
    assert set(machine_code) == {line} and code["said"].startswith(f"line {line}: {len(machine_code)} instructions, ")
    probe = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', text)[1].replace("&amp;", "&"))
    assert probe["first"].startswith("profile: ") and probe["outer"] == probe["first"] != probe["inner"]
    assert probe["hits"].endswith(" slices") and probe["focus"] == "slices"
    assert "linear" in probe["hit"].lower() and probe["next"] == f"2 of {probe['hits']}"
    assert probe["hover"].startswith("profile: ") and not probe["covered"] and not probe["wide"]
    assert (probe["theme"], probe["other"]) == (("dark", "light") if dark else ("light", "dark"))


def test_the_command_profiles_a_script_with_its_arguments(tmp_path: Path) -> None:
    script = tmp_path / "work.py"
    script.write_text(
        "import sys\nimport numod\nfrom numod import nn\nnet = nn.Linear(3, 2)\nnet(numod.ones(4, "
        "3)).sum().backward()\nprint(sys.argv[1:])\nsys.exit(3)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-m", "numod", "profile", "--rows", "200", str(script), "--fast", "7"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert finished.returncode == 3 and finished.stderr == ""
    assert (
        "['--fast', '7']" in finished.stdout
        and "numod::linear" in finished.stdout
        and "\nnet  " in finished.stdout
        and "work.py(5)" in finished.stdout
    )
    assert data_of(tmp_path / "work_profile.html")["modules"][0][0] == "net"
    assert json.loads((tmp_path / "work_profile.trace.json").read_text())["traceEvents"]
    missing = subprocess.run(
        [sys.executable, "-m", "numod", "profile", "nowhere.py"], capture_output=True, text=True, cwd=tmp_path
    )
    assert missing.returncode == 2 and "no file nowhere.py" in missing.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("options", [[], ["--compile"]])
def test_a_process_that_the_script_forks_has_its_own_exit_code_and_no_report(tmp_path: Path, options: list) -> None:
    script = "import os\nimport numod\nif not os.fork():\n    raise SystemExit(3)\nprint('code', os.wait()[1] >> 8)\n"
    (tmp_path / "work.py").write_text(script + "raise SystemExit(['no', 5])\n")
    command = [sys.executable, "-m", "numod", "profile", *options, "work.py"]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert finished.returncode == 1 and finished.stderr == "['no', 5]\n"
    assert finished.stdout.startswith("code 3\n") and finished.stdout.count("work_profile.html") == 1


def test_lines_have_the_time_of_their_ops_and_gradients(profiled: profile, page: Path) -> None:
    rows = data_of(page)["lines"]
    assert all("test_report.py(" in row[0] for row in rows) and {row[1] for row in rows} == {"profiled"}
    assert {"optimizer.step()", "F.cross_entropy(net(x), y).backward()"} <= {row[6] for row in rows}
    gradients = [event for event in profiled.events() if event.category == "node"]
    inner = [cpu_child for gradient in gradients for cpu_child in gradient.cpu_children if cpu_child.category == "op"]
    first = sum(
        cpu_child.cpu_time_total for event in inner for cpu_child in event.cpu_children if cpu_child.category == "plan"
    )
    assert sum(row[4] for row in rows) == pytest.approx(sum(gradient.cpu_time_total for gradient in gradients) - first)
    assert all(row[5] >= 0 for row in rows)


def test_page_shows_time_lost_waiting_for_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    crew = threads.Crew()
    monkeypatch.setattr(threads, "_crew", crew)
    monkeypatch.setattr(threads, "_threads", 2)
    x = numod.ones(1 << 18)
    x.exp()
    before = crew.report(2).launches
    # as where others hold the cores
    monkeypatch.setattr(crew, "note", lambda count, lost: threads.Crew.note(crew, count, 2_000_000_000))
    crew.limit = crew.debt = 0
    with profile(with_jit=True) as prof:
        for _ in range(3):
            x.exp()
    assert prof.sharing() == (1, 1, 2_000_000_000, 2, 1, 2) and crew.launches == before + 1
    path = tmp_path / "report.html"
    prof.export_html(str(path), assembly=0)
    sharing = data_of(path)["sharing"]
    assert sharing["slower"] == 1 and sharing["text"].startswith(
        "1 parallel launches, of which 1 lost 2000.0 ms by waiting: other programs held the cores"
    )
