"""Checkpoint: the whole state of training in a file, from which `fit(resume=True)` goes on bit by bit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..serialization import load, save
from .compiled import Batches, load_optimizer
from .events import Callback
from .randomness import random_state, set_random_state

_FORMAT = 1
_ENTRIES = {
    "epoch", "done", "train_iter", "pct_train", "model", "opt", "grads", "requires_grad", "callbacks", "epoch_random",
    "random",
}  # fmt: skip


class Checkpoint(Callback):
    """Write the state of training to `path/model_dir/fname.pth` every `every` batches or `minutes`, and after each
    epoch.

    The state is weights, optimizer, callbacks (schedule, scaler, averages, trackers, recorder), random numbers, and the
    position in the epoch's batches. The file is replaced as a whole, so that one that was interrupted leaves the one
    before. `fit(..., resume=True)` starts from it: it draws the epoch's batches again, skips those that were done, and
    goes on with the same weights, bit for bit, as a run that was not interrupted. It needs the same code and data;
    randomness must come from numod, `random` or NumPy's global generator. A finished run has nothing left to do.
    """

    order, only_fit, needs_pred = 100, True, False

    def __init__(self, every: int | None = None, minutes: float | None = None, fname: str = "checkpoint") -> None:
        for name, value in (("every", every), ("minutes", minutes)):
            if value is not None and value <= 0:
                raise ValueError(f"Checkpoint: {name} must be positive, got {value}")
        self.every, self.minutes, self.fname = every, minutes, fname
        self._state: dict[str, Any] | None = None  # the state from which training resumes
        self._epoch_random: dict[str, Any] = {}
        self._skip = 0
        self._batches = Batches()

    @property
    def file(self) -> Path:
        """The file's path."""
        return (self.learn.path / self.learn.model_dir / self.fname).with_suffix(".pth")

    # ---- writing

    def before_fit(self) -> None:
        """Read the state to resume from, if resuming is requested and there is a file."""
        self._state, self._skip, self._last = None, 0, time.monotonic()
        self._batches = Batches()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if self.learn.resume and self.learn.same_on_all_ranks(self.file.exists()):
            self._restore(load(self.file))

    def after_batch(self) -> None:
        """Write the state if it is time to."""
        if self.learn.compile:
            self._batches.count(self.learn)
        if not self.learn.training:
            return
        count = self.every is not None and self.learn.train_iter % self.every == 0
        late = self.minutes is not None and time.monotonic() - self._last >= 60 * self.minutes
        if count or (self.minutes is not None and self.learn.same_on_all_ranks(late)):
            self._write(self.learn.epoch, self.learn.iter + 1)

    def after_epoch(self) -> None:
        """Write the state."""
        self._epoch_random = random_state(*self.learn.dls.loaders)
        self._write(self.learn.epoch + 1, 0)

    def after_fit(self) -> None:
        """Mark training as finished, also after an early stop."""
        self._write(self.learn.n_epoch, 0)

    def _write(self, epoch: int, done: int) -> None:
        learn = self.learn
        state = {
            "numod.learner.checkpoint": _FORMAT, "epoch": epoch, "done": done, "train_iter": learn.train_iter,
            "pct_train": learn.pct_train, "model": learn.bare_model.state_dict(), "opt": learn.opt.state_dict(),
            "grads": [parameter.grad for parameter in learn.bare_model.parameters()],
            "requires_grad": [parameter.requires_grad for parameter in learn.bare_model.parameters()],
            "callbacks": [[callback.name, callback.state_dict()] for callback in learn.ordered_cbs()],
            "epoch_random": self._epoch_random, "random": random_state(*learn.dls.loaders),
        }  # fmt: skip
        if learn.compile:
            state["batches"] = self._batches.as_list()
        if learn._trainer is not None:
            state["ranks"] = learn._trainer.gathered([state["epoch_random"], state["random"]])
        if not learn.rank:
            save(state, self.file)
        self._last = time.monotonic()

    # ---- going on

    def _restore(self, state: Any) -> None:
        """Restore the learner's state. Raises ValueError if the run had other callbacks."""
        learn = self.learn
        if not isinstance(state, dict) or state.get("numod.learner.checkpoint") != _FORMAT or _ENTRIES - state.keys():
            raise ValueError(f"Checkpoint: {self.file} was not written by Checkpoint")
        if learn._trainer is not None or "ranks" in state:
            _choose_rank(state, 1 if learn._trainer is None else len(learn._trainer.gathered(None)), learn.rank)
        names = [callback.name for callback in learn.ordered_cbs()]
        saved = [name for name, _ in state["callbacks"]]
        if names != saved:
            raise ValueError(f"fit(resume=True): the run had the callbacks {saved}, this one has {names}")
        self._batches = Batches(state.get("batches", ()))
        is_warm = learn.compile and self._batches.repeat(learn)
        learn.bare_model.load_state_dict(state["model"])
        load_optimizer(learn.opt, state["opt"], in_place=is_warm)
        for parameter, wanted, grad in zip(learn.bare_model.parameters(), state["requires_grad"], state["grads"]):
            parameter.requires_grad_(wanted)
            parameter.grad = None if grad is None else grad.to(parameter.device)
        for callback, (_, callback_state) in zip(learn.ordered_cbs(), state["callbacks"]):
            callback.load_state_dict(callback_state)
        learn.start_epoch = learn.epoch = state["epoch"]
        learn.train_iter, learn.pct_train, self._skip = state["train_iter"], state["pct_train"], state["done"]
        set_random_state(state["random"], *learn.dls.loaders)
        self._state = state

    def before_train(self) -> None:
        """Record the random state for the epoch's batches, and skip batches that are done."""
        learn, state, self._state = self.learn, self._state, None
        if state is None or not self._skip:
            self._epoch_random = random_state(*learn.dls.loaders)
            return
        self._epoch_random = state["epoch_random"]
        set_random_state(self._epoch_random, *learn.dls.loaders)
        learn.pct_train, learn.train_iter = state["pct_train"], state["train_iter"]
        if hasattr(learn, "recorder"):
            learn.recorder.restore_metrics()
        learn.dl = _Resumed(learn.dl, self._skip, state["random"], learn.dls.loaders)


def _choose_rank(state: dict[str, Any], count: int, rank: int) -> None:
    """Let the random numbers of a state be a rank's. Raises ValueError if as many ranks did not write it."""
    ranks = state.get("ranks", [None])
    if len(ranks) != count:
        raise ValueError(f"fit(resume=True): the run had {len(ranks)} ranks, this one has {count}")
    state["epoch_random"], state["random"] = ranks[rank]


class _Resumed:
    """The rest of a loader's pass."""

    def __init__(self, loader: Iterable, skip: int, random: dict[str, Any], loaders: list) -> None:
        self.loader, self.first, self._random, self._loaders = loader, skip, random, loaders

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator:
        batches = iter(self.loader)
        for _ in range(self.first):
            next(batches)
        set_random_state(self._random, *self._loaders)
        yield from batches
