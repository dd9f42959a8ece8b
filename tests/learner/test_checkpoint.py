"""Checkpoint: training that is killed at any moment goes on to the same weights, bit for bit.

Processes are killed with SIGKILL at random moments: twice in the default suite; with the marker `learner` twenty times
eagerly, twenty times compiled, and twice with each other kind of loader and callback.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import numod
from numod import nn
from numod.learner import EMA, SWA, Callback, Checkpoint, DataLoaders, GradientClip, Learner, Recorder
from numod.nn import functional as F
from numod.utils.data import DataLoader, TensorDataset
from small_training import batches, learner, same

SCRIPT = textwrap.dedent("""
    import sys
    import numod
    from numod import nn
    from numod.learner import *
    from numod.optim.lr_scheduler import OneCycleLR, StepLR
    from numod.utils.data import DataLoader, IterableDataset, TensorDataset

    numod.manual_seed(0)
    X, Y = numod.randn(48, 4), numod.randint(0, 3, (48,))
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 3))

    class Stream(IterableDataset):
        def __iter__(self):
            for number in range(24):
                yield numod.randn(4), numod.tensor(number % 3)

    class Infinite:
        def __iter__(self):
            while True:
                yield numod.randn(4, 4), numod.randint(0, 3, (4,))

    class EndPass(Callback):
        order, needs_pred = 98, False

        def after_batch(self):
            if self.training and self.iter == 11:
                raise CancelTrainException

    class Tell(Callback):
        order, needs_pred = 200, False

        def after_batch(self):
            if self.training:
                print(self.train_iter, flush=True)

    folder, kind, compiled = sys.argv[1], sys.argv[2], sys.argv[3] == "compiled"
    inside = [MixedPrecision(init_scale=64.0, growth_interval=3), MixUp(), GradientAccumulation(8)]
    average = [EMA(0.9), ReduceLROnPlateau(patience=1)]
    loader, cbs = {
        "usual": (None, average if compiled else inside + average),
        "stochastic average": (None, [SWA(0.3)]),
        "bfloat16": (None, [MixedPrecision("bf16"), GradientClip()]),
        "scheduler by epoch": (None, [OptimScheduler(lambda opt: StepLR(opt, 1, 0.5))]),
        "scheduler by batch": (None, [OptimScheduler(lambda opt: OneCycleLR(opt, 0.01, total_steps=36), by_batch=True)]),
        "workers": (DataLoader(TensorDataset(X, Y), 4, shuffle=True, num_workers=2), []),
        "stream": (DataLoader(Stream(), 4, num_workers=2), []),
        "infinite": (Infinite(), [EndPass()]),
    }[kind]
    if loader is None:
        loader = DataLoader(TensorDataset(X, Y), 4, shuffle=True)
    dls = DataLoaders(loader, DataLoader(TensorDataset(X, Y), 48))
    cbs = [*cbs, CSVLogger(), Checkpoint(every=2), Tell()]
    learn = Learner(dls, model, nn.CrossEntropyLoss(), path=folder, cbs=cbs, compile=compiled)
    (learn.fit if "scheduler" in kind else learn.fit_one_cycle)(3, 1e-2, resume=True)
    numod.save(model.state_dict(), folder + "/final.pth")
""")
KINDS = "stochastic average", "bfloat16", "scheduler by epoch", "scheduler by batch", "workers", "stream", "infinite"


def run(folder: Path, kind: str, how: str, kill_after: int | None = None) -> None:
    """Run the script; with `kill_after`, kill it after so many lines of progress, at some moment of the next batch."""
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT, str(folder), kind, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        seen = 0
        for line in process.stdout:
            seen += line.strip().isdigit()
            if seen == kill_after:
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == (0 if kill_after is None or process.returncode == 0 else -signal.SIGKILL)


def kill_and_resume(tmp_path: Path, kind: str, how: str, times: int, seed: int) -> None:
    draw = random.Random(seed)
    run(tmp_path / "whole", kind, how)
    expected = numod.load(tmp_path / "whole" / "final.pth")
    for number in range(times):
        folder = tmp_path / f"killed {number}"
        run(folder, kind, how, draw.randrange(1, 37))
        run(folder, kind, how)
        weights = numod.load(folder / "final.pth")
        assert all(numod.equal(weights[name], expected[name]) for name in expected)
        assert (folder / "history.csv").read_text().count("\n") == 4


def test_killed_training_resumes_to_the_same_weights(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "usual", "eager", 1, seed=0)


@pytest.mark.learner
@pytest.mark.parametrize("how", ["eager", "compiled"])
def test_killed_training_resumes_to_the_same_weights_twenty_times(how: str, tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "usual", how, 20, seed=1)


@pytest.mark.learner
@pytest.mark.parametrize(
    ("kind", "how"),
    [(kind, how) for kind in KINDS for how in ("eager", "compiled") if (kind, how) != ("bfloat16", "compiled")],
)
def test_killed_training_of_other_kinds_resumes_to_the_same_weights(kind: str, how: str, tmp_path: Path) -> None:
    kill_and_resume(tmp_path, kind, how, 2, seed=2)


class Stop(Exception):
    """What interrupts training here."""


def shuffled(tmp_path: Path, stop_at: int | None = None, **options: object) -> Learner:
    numod.manual_seed(5)
    x, y = numod.randn(12, 4), numod.tensor([0, 1, 2] * 4)
    generator = numod.Generator().manual_seed(7)
    dls = DataLoaders(DataLoader(TensorDataset(x, y), 4, shuffle=True, generator=generator))
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    learn = Learner(
        dls, model, F.cross_entropy, path=tmp_path, default_cbs=False, cbs=[Recorder, Checkpoint(every=1)], **options
    )
    learn.logger = lambda row: None
    if stop_at is not None:

        def stop() -> None:
            if learn.train_iter == stop_at and learn.training:
                raise Stop

        learn.checkpoint.before_batch = stop
    return learn


def test_a_loader_with_a_generator_and_every_position(tmp_path: Path) -> None:
    whole = shuffled(tmp_path / "whole")
    whole.fit(2)
    for stop_at in range(6):
        broken = shuffled(tmp_path / str(stop_at), stop_at)
        with pytest.raises(Stop):
            broken.fit(2)
        resumed = shuffled(tmp_path / str(stop_at))
        resumed.fit(2, resume=True)
        assert same(resumed.model, whole.model), stop_at
        assert resumed.recorder.losses == whole.recorder.losses and resumed.recorder.values == whole.recorder.values


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    first = shuffled(tmp_path)
    first.fit(2)
    again = shuffled(tmp_path, stop_at=0)
    again.fit(2, resume=True)
    assert same(first.model, again.model)


def test_a_finished_average_keeps_its_statistics(tmp_path: Path) -> None:
    def trained(resume: bool) -> nn.Module:
        numod.manual_seed(3)
        x, y = numod.randn(12, 4), numod.tensor([0, 1, 2] * 4)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
        loader = DataLoader(TensorDataset(x, y), 4, shuffle=True)
        learn = Learner(DataLoaders(loader), model, path=tmp_path, default_cbs=False, cbs=[SWA(0.3), Checkpoint()])
        learn.fit(2, resume=resume)
        return model

    first, again = trained(False).state_dict(), trained(True).state_dict()
    assert all(numod.equal(first[name], again[name]) for name in first)


def test_a_finished_average_that_is_trained_on_has_new_statistics(tmp_path: Path) -> None:
    numod.manual_seed(3)
    x, y = numod.randn(12, 4), numod.tensor([0, 1, 2] * 4)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    loader = DataLoader(TensorDataset(x, y), 12)
    learn = Learner(DataLoaders(loader), model, path=tmp_path, default_cbs=False, cbs=[SWA(0.3), Checkpoint()])
    learn.fit(2)
    learn.fit(4, resume=True)
    assert numod.allclose(model[1].running_mean, model[0](x).mean(0), atol=1e-6)


def test_errors_when_training_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs the callback Checkpoint"):
        learner().fit(1, resume=True)
    shuffled(tmp_path).fit(1)
    other = learner(path=tmp_path, cbs=Checkpoint())
    with pytest.raises(ValueError, match="the run had the callbacks"):
        other.fit(1, resume=True)
    with pytest.raises(ValueError, match="every must be positive"):
        Checkpoint(every=0)
    numod.save({"a": 1}, tmp_path / "models" / "checkpoint.pth")
    with pytest.raises(ValueError, match="was not written by Checkpoint"):
        other.fit(1, resume=True)
    numod.save({"numod.learner.checkpoint": 1, "epoch": 0}, tmp_path / "models" / "checkpoint.pth")
    with pytest.raises(ValueError, match="was not written by Checkpoint"):
        other.fit(1, resume=True)


def test_without_a_file_training_starts(tmp_path: Path) -> None:
    learn = learner(batches(1), path=tmp_path, cbs=Checkpoint(minutes=5))
    learn.fit(1, resume=True)
    assert learn.train_iter == 1 and learn.checkpoint.file.exists()


@pytest.mark.learner
@pytest.mark.parametrize("callbacks", [(), (EMA,), (GradientClip,)], ids=["plain", "average", "inside the step"])
def test_a_compiled_run_goes_on_bit_by_bit(callbacks: tuple, tmp_path: Path) -> None:
    """Where a function is recorded it runs eagerly, with other roundings, so a resumed run records before it goes on.

    With a callback inside the step the roundings may differ.
    """

    def run(folder: Path, at: int | None) -> list | None:
        numod.manual_seed(1)
        x = numod.randn(42, 8)
        data = TensorDataset(x, (x.sum(1) > 0).long())
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))

        def stop(callback: Callback) -> None:
            if callback.learn.training and callback.learn.train_iter == at:
                raise Stop

        learn = Learner(
            DataLoaders(DataLoader(data, 8, shuffle=True), DataLoader(data, 20)), model, path=folder, compile=True,
            cbs=[Checkpoint(every=2), Callback(before_batch=stop), *[callback() for callback in callbacks]],
        )  # fmt: skip
        try:
            with learn.no_bar(), learn.no_logging():
                learn.fit_one_cycle(3, 1e-2, resume=True)
        except Stop:
            return None
        return [*model.state_dict().values(), numod.tensor(learn.recorder.raw_losses)]

    expected = run(tmp_path / "whole", None)
    for at in (1, 7, 14):
        assert run(tmp_path / "parts", at) is None
    result = run(tmp_path / "parts", None)
    if GradientClip in callbacks:  # Adam enlarges roundings of weights whose gradient is 0, so the losses count
        assert numod.allclose(result[-1], expected[-1], atol=1e-5)
    else:
        assert all(map(numod.equal, result, expected))


class Whitened(nn.Module):
    """Raises for zeros, which have no inverse of their second moments."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return self.linear(x @ numod.linalg.inv(x.T @ x))


def test_a_compiled_step_that_cannot_compute_with_zeros_goes_on(tmp_path: Path) -> None:
    def run(folder: Path, at: int | None) -> nn.Module:
        numod.manual_seed(1)
        x = numod.randn(40, 3)
        loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), 8)

        def stop(callback: Callback) -> None:
            if callback.learn.training and callback.learn.train_iter == at:
                raise Stop

        cbs = [Checkpoint(every=2), Callback(before_batch=stop)]
        learn = Learner(DataLoaders(loader, loader), Whitened(), path=folder, compile=True, cbs=cbs)
        with learn.no_bar(), learn.no_logging(), contextlib.suppress(Stop):
            learn.fit(2, 1e-2, resume=True)
        return learn.model

    expected = run(tmp_path / "whole", None)
    run(tmp_path / "parts", 7)
    model = run(tmp_path / "parts", None)
    for name, value in expected.state_dict().items():
        assert numod.allclose(model.state_dict()[name], value, atol=1e-5)
