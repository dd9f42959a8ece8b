"""Rows of what happens once per process: imports, the first step, the first call of a compiled function.

Each is timed in processes of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from time import perf_counter

from .measure import Folders, printed_seconds, wait_for_line
from .row import Bar, FreshRow

MODULES = {"numod": "numod", "PyTorch": "torch"}
CACHES = {
    "numod": ("NUMOD_CACHE_DIR",), "torch.compile": ("TORCHINDUCTOR_CACHE_DIR",),
    "JAX": ("JAX_COMPILATION_CACHE_DIR",), "PyTorch": (),
}  # fmt: skip
JAX_KEEPS_ALL = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
IMPORT = """
import time, numpy
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""
FIRST_STEP = """
import {module} as torch
from {module} import nn
import {module}.nn.functional as F
torch.set_num_threads({threads})
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
loss = F.cross_entropy(model(x), y)
optimizer.zero_grad()
loss.backward()
optimizer.step()
print(loss.item(), flush=True)
"""
# the seconds of a first call, or of what a program spends on kernels
COLD = {
    "first step, PPO, actor-critic 64-64, batch 64": """
import torch_or_numod as torch
from time import perf_counter
from perf.networks import actor_critic, draw
model, (x,) = actor_critic(64)(torch)
x, actions, advantage, old, returns = (torch.tensor(each) for each in (
    x, draw(64, 6, seed=1), draw(64, seed=2), draw(64, seed=3), draw(64, seed=4)))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
start = perf_counter()
mean, value = model(x)
policy = torch.distributions.Normal(mean, torch.ones(6))
ratio = (policy.log_prob(actions).sum(-1) - old).exp()
gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
loss = 0.5 * (value[:, 0] - returns).square().mean() - gain - 0.01 * policy.entropy().mean()
optimizer.zero_grad()
loss.backward()
torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
optimizer.step()
print(perf_counter() - start)
""",
    "first forward and backward, LSTM 32, T=16, batch 8": """
import torch_or_numod as torch
from time import perf_counter
from perf.networks import draw
layer, x = torch.nn.LSTM(32, 32), torch.tensor(draw(16, 8, 32))
start = perf_counter()
layer(x)[0].sum().backward()
print(perf_counter() - start)
""",
    "demo, seconds for kernels": """
import contextlib, io
from numod.__main__ import main
from numod.kernel import build
with contextlib.redirect_stdout(io.StringIO()):
    main(["demo"])
print(build.statistics.compile_seconds + build.statistics.load_seconds)
""",
}
# the first step after a change of width and batch: its kernels are there if sizes choose among forms that a pack has
OTHER_SIZES = """
from time import perf_counter
import numod as torch
from numod import nn
import numod.nn.functional as F
def step(width, count):
    model = nn.Sequential(
        nn.Conv2d(1, width, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, 2 * width + 3, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(25 * (2 * width + 3), 100), nn.ReLU(), nn.Linear(100, 10))
    recurrent = nn.LSTM(9, width, batch_first=True)
    optimizer = torch.optim.Adam([*model.parameters(), *recurrent.parameters()])
    x, y = torch.randn(count, 1, 28, 28), torch.randint(0, 10, (count,))
    loss = F.cross_entropy(model(x), y) + recurrent(torch.randn(count, 11, 9))[0][:, -1].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
step(10, 48)
start = perf_counter()
step(40, 100)
print(perf_counter() - start)
"""
FIRST_CALL = "from perf.starts import first_call; print(first_call({row!r}, {contender!r}))"


def first_call(name: str, contender: str) -> float:
    """Seconds from before a row's function is handed to the compiler to its first result.

    Libraries, weights and inputs are there already.
    """
    from .steps import STEPS

    row = next(row for row in STEPS if row.name == name)
    timed = row.contenders[contender]()
    start = perf_counter()
    exec(timed.statement, dict(timed.names))  # our own text
    return perf_counter() - start


def _cache(contender: str, folder: str) -> dict[str, str]:
    return {**dict.fromkeys(CACHES[contender], folder), **(JAX_KEEPS_ALL if contender == "JAX" else {})}


def _cold(contender: str, start: Callable[..., float], script: str, folders: Folders) -> float:
    return start(script, **_cache(contender, folders.empty(f"{contender} {script}")))


def _warm(contender: str, start: Callable[..., float], script: str, folders: Folders) -> float:
    return start(
        script,
        **_cache(
            contender,
            folders.filled(f"{contender} {script}", lambda folder: start(script, **_cache(contender, folder))),
        ),
    )


def _steps() -> list[FreshRow]:
    import numod

    scripts = {
        name: FIRST_STEP.format(module=module, threads=numod.get_num_threads()) for name, module in MODULES.items()
    }
    kinds = (("cold", _cold, None, 0.6), ("warm", _warm, Bar(seconds=1.0), 1.0))
    return [
        FreshRow(f"process start to first step, {kind}",
            {name: partial(how, name, wait_for_line, script) for name, script in scripts.items()}, bar, share)
        for kind, how, bar, share in kinds
    ]  # fmt: skip


def _first_calls() -> list[FreshRow]:
    rows = {
        "compiled step, MLP 4-3-1, batch 1": ("numod", "torch.compile", "JAX"),
        "compiled step, LeNet, batch 64": ("numod", "torch.compile", "JAX"),
        "compiled forward, ResNet-18 CIFAR, batch 1": ("numod", "torch.compile", "JAX"),
        "eager step, ResNet-18 CIFAR, batch 8": ("numod",), "eager step, LeNet, batch 64": ("numod",),
        "eager step, GPT 2×128, T=64, batch 4": ("numod",),
    }  # fmt: skip
    cold, warm = (2.0, 2.5, 3.0, 4.0, 2.5, 4.0), (0.3, 0.3, 0.3, 2.0, 0.3, 0.5)
    return [
        FreshRow(
            f"first {row}, {kind}",
            {name: partial(how, name, printed_seconds, FIRST_CALL.format(row=row, contender=name)) for name in names},
            Bar(seconds=most),
            share,
        )
        for bars in (zip(rows.items(), cold, warm),) for (row, names), *both in bars
        for kind, how, most, share in (("cold", _cold, both[0], 0.2), ("cached", _warm, both[1], 0.6))
    ]  # fmt: skip


def _cold_programs() -> list[FreshRow]:
    modules = {name: ("numod",) if name.startswith("demo") else tuple(MODULES) for name in COLD}
    return [
        FreshRow(
            f"{name}, cold",
            {
                library: partial(_cold, library, printed_seconds, script.replace("torch_or_numod", MODULES[library]))
                for library in modules[name]
            },
            Bar(seconds=2.0),
            0.2,
        )
        for name, script in COLD.items()
    ]


def _with_pack(script: str, folders: Folders) -> float:
    """Seconds that the script prints, where kernels come from a pack and nothing is kept."""
    return printed_seconds(script, NUMOD_CACHE_DIR="", NUMOD_KERNEL_PATH=folders.filled("packs", _build_pack))


def _build_pack(folder: str) -> None:
    command = [sys.executable, "-m", "numod", "cache", "build", "-o", os.path.join(folder, "kernels.pack")]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def _packed() -> list[FreshRow]:
    """First steps with a pack, which holds kernels of networks of the same kinds, of other sizes."""
    lenet, residual = "compiled step, LeNet, batch 64", "eager step, ResNet-18 CIFAR, batch 8"
    scripts = {
        f"first {lenet}": (FIRST_CALL.format(row=lenet, contender="numod"), 0.7),
        f"first {residual}": (FIRST_CALL.format(row=residual, contender="numod"), 1.0),
        "first step of LeNet and LSTM after a change of width and batch": (OTHER_SIZES, 0.3),
        "demo, seconds for kernels": (COLD["demo, seconds for kernels"], 0.3),
    }
    rows = []
    for name, (script, most) in scripts.items():
        contenders = {"numod": partial(_with_pack, script)}
        if name.endswith(lenet):
            contenders["JAX"] = partial(_cold, "JAX", printed_seconds, FIRST_CALL.format(row=lenet, contender="JAX"))
        rows.append(FreshRow(f"{name}, with a pack", contenders, Bar(seconds=most), 0.6))
    return rows


def imports() -> FreshRow:
    """Importing the library where NumPy is there already."""
    return FreshRow(
        "import, beyond import numpy",
        {
            name: (lambda folders, module=module: printed_seconds(IMPORT.format(module=module)))
            for name, module in MODULES.items()
        },
        Bar(seconds=0.15),
    )


STARTS = (imports(), *_steps(), *_first_calls(), *_cold_programs(), *_packed())
