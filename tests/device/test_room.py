"""Limits on memory: a process under one ends in results or in a MemoryError, never by a signal, and goes on after the
error. About 20 s.

A sweep over many limits is `python tests/device/test_room.py [first last step]` in megabytes, without a cache or with
that of NUMOD_CACHE_DIR. It prints a line for each program and limit, and ends with status 1 if any of them ended in
another way than the tests allow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from selection import every

import numod
from numod.device import cpu, host_memory, room

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems do not enforce limits on addresses"
)
PROGRAMS = {
    "eager": """
attempt(lambda: equal((torch.ones(1000) + 1).tolist(), [2.0] * 1000))
attempt(lambda: torch.rand(100).exp().sin().sum().item())
attempt(lambda: equal((torch.ones(1 << 20) + 1).sum().item(), 2 << 20))
attempt(lambda: torch.rand(1000).sort())
""",
    "compiled": """
function = torch.compile(lambda a: torch.nn.functional.softmax(a.sin() * a.exp() + 1, 1) @ a)
for n in (64, 64, 80):
    attempt(lambda: equal(function(torch.zeros(n, n)).sum().item(), 0))
""",
    "training": """
nn = torch.nn
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
optimizer = torch.optim.AdamW(model.parameters())
def train():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.rand(8, 3, 16, 16)), torch.arange(8)).backward()
    optimizer.step()
for _ in range(2):
    attempt(train)
""",
    "tensors": """
def fill(size):
    held = []
    try:
        while len(held) < 2000:
            held.append(torch.full((size,), 1.0) + 1)
    except MemoryError:
        if held:
            equal(held[-1][-1].item(), 2)
        del held
        equal((torch.ones(1000) * 3).relu().sum().item(), 3000)
attempt(lambda: equal((torch.ones(1000) * 3).relu().sum().item(), 3000))
for size in (1 << 26, 1 << 22, 1 << 18):
    attempt(lambda: fill(size))
attempt(lambda: equal((torch.ones(1 << 20) + 1).sum().item(), 2 << 20))
attempt(lambda: torch.ones(1 << 16).tanh().cumsum(0))
""",
    "small reuse": """
held = [torch.ones(1 << 21) + 1 for _ in range(20)]
kept = held[3]
held.clear()  # 160 MB that the pool keeps
attempt(lambda: [torch.ones(1 << 16) for _ in range(LEFT >> 19)])  # half of all that was left, in pieces that the pool does not hold
attempt(lambda: [torch.ones(1 << 12) for _ in range(LEFT >> 15)])
attempt(lambda: equal(kept.sum().item(), 1 << 22))
""",
    "reuse": """
held = [torch.ones(1 << 21) + 1 for _ in range(20)]
kept = held[3]
attempt(lambda: held.clear())  # 160 MB that the pool keeps
attempt(lambda: equal(torch.ones(LEFT >> 3)[-1].item(), 1))  # half of all that was left: there is room if the pool gives its own back
attempt(lambda: equal(kept.sum().item(), 1 << 22))
""",
}
START = """
import sys
outcomes = []
def equal(found, expected):
    assert found == expected, (found, expected)
def attempt(function):
    try:
        function()
        outcomes.append("done")
    except MemoryError as error:
        outcomes.append("memory")
        sys.last_message = str(error)
try:
    import numod as torch
    from numod.device import room
    (torch.ones(10) + 1).sum()
    LEFT = room.addresses_left() or 0
except MemoryError as error:
    outcomes.append("memory")
    LEFT = 0
"""


def run(name: str, megabytes: int, cache: str) -> tuple[int, list[str], str]:
    """The exit status of a program under a limit, the outcome of each of its steps, and what it printed as an error."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    source = (
        f"{START}\nif 'numod' in sys.modules:\n    try:\n{_indented(PROGRAMS[name])}\n    except MemoryError:\n  "
        "      outcomes.append('memory')\nprint(*outcomes)"
    )
    environment = {**os.environ, "NUMOD_CACHE_DIR": cache, "PYTHONPATH": str(Path(numod.__file__).parents[1])}
    completed = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, env=environment, preexec_fn=limit, timeout=300
    )
    return completed.returncode, completed.stdout.split(), completed.stderr


def _indented(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.splitlines())


@pytest.mark.parametrize(
    "name, megabytes",
    every(
        2, [("eager", 350), ("eager", 484), ("training", 500), ("compiled", 490), ("tensors", 700)], pytest.mark.fuzz
    ),
)
def test_a_limited_process_ends_in_results_or_memory_errors(name: str, megabytes: int) -> None:
    status, outcomes, error = run(name, megabytes, "")
    assert status == 0 and outcomes and set(outcomes) <= {"done", "memory"}, error


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in which programs find each other's kernels."""
    return str(tmp_path_factory.mktemp("cache"))


def test_pool_is_released_before_an_allocation_is_refused(cache: str) -> None:
    status, outcomes, error = run("reuse", 1000, cache)
    assert status == 0 and outcomes == ["done"] * 3, error


def test_small_allocations_are_tried_again_after_that(cache: str) -> None:
    status, outcomes, error = run("small reuse", 1000, cache)
    assert status == 0 and outcomes == ["done"] * 3, error


REFUSED = {
    "an op": lambda x: x + 1, "several results": lambda x: x.sort(0)[0],
    "a large result": lambda x: x.expand(1000, 8, 8) * 2, "scratch": lambda x: x.softmax(0).cumsum(0),
    "creation": lambda x: numod.full((3, 3), 2.0),
    "backward": lambda x: numod.autograd.grad((x.requires_grad_() * 2).sin().sum(), x)[0],
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_allocation_is_retried_after_a_release(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every allocation of an op fails once; it is repeated after all that is kept for later was given back."""
    expected, failures, released = REFUSED[case](numod.arange(64.0).reshape(8, 8)), [], []

    def forget() -> None:
        for callback in numod.dtypes.on_default_change:
            callback()

    def refuse(count: int, dtype: object) -> object:
        failures.append(count)
        raise MemoryError

    def checked(count: int, dtype: object) -> object:
        if len(released) < len(failures):
            raise MemoryError
        return np.empty(count, dtype)

    with monkeypatch.context() as patch:
        patch.setattr(cpu, "allocator", lambda size: refuse)
        patch.setattr(host_memory, "allocator", lambda size: refuse)
        patch.setattr(host_memory, "_checked", checked)
        patch.setattr(room, "_releases", [lambda: released.extend(failures[len(released) :])])
        forget()
        result = REFUSED[case](numod.arange(64.0).reshape(8, 8))
    forget()
    assert failures and len(released) == len(failures) and numod.equal(result, expected)


INJECTED = """
import _testcapi
import numod as torch
x, w = torch.rand(8, 8), torch.rand(8, 8, requires_grad=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
function = torch.compile(lambda a: (a.sin() * a.exp() + 1).sum(1))
def train():
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
for call in (lambda: x + 1, lambda: x.sort(), lambda: x[1:, ::2].t().reshape(-1), lambda: (w * x).sum().backward(), lambda: x.add_(0), lambda: torch.rand(3),
             lambda: torch.zeros(1 << 18) + 1, lambda: function(x), train):
    for _ in range(4):
        call()
    n = fine = failed = 0
    while fine < 20:  # calls that ask for less memory than that
        try:
            _testcapi.set_nomemory(n, n + 1)
            try:
                call()
            finally:
                _testcapi.remove_mem_hooks()
            fine += 1
        except MemoryError:
            fine, failed = 0, failed + 1
        n += 1
    call()
    assert failed, call
print(torch.equal((torch.ones(1 << 18) + 1).sum(), torch.tensor(float(1 << 19))), torch.allclose(function(x), (x.sin() * x.exp() + 1).sum(1)))
"""


def test_where_pythons_allocator_fails_a_memory_error_is_raised() -> None:
    """At every single allocation of an object in a call; never SystemError ("error return without exception set"), and
    what follows is right.
    """
    pytest.importorskip("_testcapi", reason="this Python is without its test module")
    completed = subprocess.run(
        [sys.executable, "-c", INJECTED],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(numod.__file__).parents[1])},
    )
    assert completed.returncode == 0 and completed.stdout.split() == ["True", "True"], completed.stderr


def test_the_error_names_need_room_and_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[bool] = []
    monkeypatch.setattr(room, "_releases", [lambda: called.append(True)])
    monkeypatch.setattr(room, "address_limit", lambda: 500 << 20)
    monkeypatch.setattr(room, "addresses_left", lambda: 7 << 20)
    with pytest.raises(
        numod.OutOfMemoryError,
        match=r"compile add: about 68 MB are needed, 7 MB are left of the 524 MB .*ulimit -v.*Free tensors, raise the "
        r"limit",
    ):
        room.require(65 << 20, "compile add")
    assert called == [True] and issubclass(numod.OutOfMemoryError, MemoryError)
    room.require(6 << 20, "compile add")


def group(tmp_path: Path, names: dict[str, str]) -> str:
    tmp_path.mkdir(parents=True, exist_ok=True)
    for name, text in names.items():
        (tmp_path / name).write_text(f"{text}\n")
    return str(tmp_path)


def test_limits_of_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group's own limit and those of the groups around it, in version 2; clean pages of files are no use of
    memory.
    """
    statistics = f"active_file {10 << 20}\ninactive_file {20 << 20}\nslab_reclaimable 0\nanon 5"
    group(tmp_path, {"memory.max": "max", "memory.current": "9", "memory.stat": statistics})
    group(tmp_path / "outer", {"memory.max": str(900 << 20), "memory.current": str(100 << 20), "memory.stat": ""})
    group(
        tmp_path / "outer" / "inner",
        {"memory.max": str(500 << 20), "memory.current": str(490 << 20), "memory.stat": statistics},
    )
    plain = room._read
    monkeypatch.setattr(room, "_GROUPS", str(tmp_path))
    monkeypatch.setattr(room, "_read", lambda path: "0::/outer/inner" if path == "/proc/self/cgroup" else plain(path))
    monkeypatch.setattr(room, "_group_folders", room._group_folders.__wrapped__)
    monkeypatch.setattr(room, "_releases", [])
    assert (room.group_limit(), room.group_left()) == (500 << 20, 40 << 20)
    with pytest.raises(MemoryError, match="about 50 MB are needed, 42 MB are left of the 524 MB of the control group"):
        room.require(96 << 20, "compile a kernel")
    (tmp_path / "outer" / "inner" / "memory.max").write_text("max")
    assert room.group_left() == 800 << 20
    monkeypatch.setattr(room, "_read", lambda path: "0::/elsewhere" if path == "/proc/self/cgroup" else plain(path))
    assert room.group_left() is None


def test_limits_of_control_groups_of_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "memory.limit_in_bytes": "1000",
        "memory.usage_in_bytes": "700",
        "memory.stat": "total_active_file 100\ntotal_inactive_file 0",
    }
    group(tmp_path / "memory" / "docker", names)
    plain = room._read
    monkeypatch.setattr(room, "_GROUPS", str(tmp_path))
    monkeypatch.setattr(
        room, "_read", lambda path: "5:cpu:/\n4:memory:/docker\n0::/" if path == "/proc/self/cgroup" else plain(path)
    )
    monkeypatch.setattr(room, "_group_folders", room._group_folders.__wrapped__)
    assert (room.group_limit(), room.group_left()) == (1000, 400)


def test_cause_of_an_error_decides_whether_it_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="to compile it"), room.compiling(0, "compile it"):
        try:
            raise MemoryError
        except MemoryError:
            raise ValueError("lowering failed") from None
    with pytest.raises(KeyError), room.compiling(0, "compile it"):
        raise KeyError("another")


def sweep(first: int = 100, last: int = 1300, step: int = 50) -> int:
    """How many programs fail under limits from `first` to `last` megabytes.

    At some sizes OpenMP's threads are what there is no room for.
    """
    failures = 0
    for name in PROGRAMS:
        for megabytes in range(first, last, step):
            try:
                status, outcomes, error = run(name, megabytes, os.environ.get("NUMOD_CACHE_DIR", ""))
            except subprocess.TimeoutExpired:
                status, outcomes, error = -1, ["hangs"], ""
            # NumPy itself does not start below 120 MB
            fails = (status != 0 or not set(outcomes) <= {"done", "memory"}) and "OpenBLAS error" not in error
            failures += fails
            print(
                name,
                megabytes,
                "FAILS" if fails else "ok",
                status,
                *outcomes,
                *(error.splitlines()[-3:] if fails else ()),
                flush=True,
            )
    return failures


if __name__ == "__main__":
    sys.exit(bool(sweep(*map(int, sys.argv[1:]))))
