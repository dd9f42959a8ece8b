"""Rows of the Learner: what its loop costs per batch beyond the same loop written by hand."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from .measure import Folders, Result
from .networks import draw, perceptron
from .peers import SGD, network
from .row import Bar, Pace, Row, Timed

BATCHES = 2000  # of an epoch
SMALL = perceptron(4, 3, 1, batch=1, activation="Tanh")


@dataclass(frozen=True)
class DifferenceRow(Row):
    """numod's time per batch less that of the contender `by hand`, both at their best."""

    def prepare(self, peers: Collection[str]) -> dict[str, Timed]:
        """Both; the peers take no part."""
        return {name: make() for name, make in self.contenders.items()}

    def measure(self, peers: Collection[str], pace: Pace, folders: Folders) -> Result:
        """Time both in turns; the result is the difference."""
        result = super().measure(peers, replace(pace, seconds=0.1, budget=5 * pace.budget), folders)
        difference = (result.best("numod") - result.best("by hand")) / BATCHES
        return Result({"numod": [difference]})


def epochs(compiled: bool) -> dict[str, Callable[[], Timed]]:
    """An epoch of tiny batches by a Learner with a recorder and no metrics, and by hand."""
    data = [(draw(1, 4, seed=number), draw(1, 1, seed=number + 1)) for number in range(BATCHES)]

    def by_learner() -> Timed:
        torch, learning = importlib.import_module("numod"), importlib.import_module("numod.learner")
        model, batches, optimizer = _made(torch)
        learn = learning.Learner(
            learning.DataLoaders(batches), model, torch.nn.functional.mse_loss, lambda parameters, lr: optimizer,
            lr=SGD["lr"], cbs=learning.Recorder, compile=compiled, default_cbs=False,
        )  # fmt: skip
        learn.logger = lambda row: None
        return Timed("learn.fit(1)", {"learn": learn})

    def by_hand() -> Timed:
        torch = importlib.import_module("numod")
        model, batches, optimizer = _made(torch)
        measure = torch.nn.functional.mse_loss

        def step(x: object, y: object) -> object:
            pred = model(x)
            loss = measure(pred, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        step = torch.compile(step) if compiled else step

        def epoch() -> None:
            for x, y in batches:
                loss = step(x, y)  # noqa: F841, kept until the next, as in most loops

        return Timed("epoch()", {"epoch": epoch})

    def _made(torch: object) -> tuple:
        model, _ = network(SMALL, "numod")
        batches = [(torch.tensor(x), torch.tensor(y)) for x, y in data]
        return model, batches, torch.optim.SGD(model.parameters(), **SGD)

    return {"numod": by_learner, "by hand": by_hand}


LEARNING = (
    DifferenceRow("Learner, per batch beyond a loop by hand", epochs(False), Bar(seconds=2e-6)),
    DifferenceRow("Learner, per batch beyond a loop by hand, compiled", epochs(True), Bar(seconds=1e-6)),
)
