"""Predictions of models with several inputs and outputs, as tuples and dicts."""

from __future__ import annotations

from pathlib import Path

import pytest

import numod
from numod import nn
from numod.learner import DataLoaders, Learner, Recorder, accuracy, load_learner
from numod.nn import functional as F
from small_training import X, batches, learner


class Named(nn.Module):
    """Inputs and outputs by name."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, inputs: dict) -> dict:
        return {"scores": self.linear(inputs["x"]), "twice": inputs["x"] * 2}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_inputs_and_outputs_by_name(tmp_path: Path, compiled: bool) -> None:
    loader = [({"x": x}, y) for x, y in batches()]
    learn = Learner(
        DataLoaders(loader, loader), Named(), lambda pred, y: F.cross_entropy(pred["scores"], y), compile=compiled,
        metrics=lambda pred, y: accuracy(pred["scores"], y), default_cbs=False, cbs=Recorder,
        path=tmp_path,
    )  # fmt: skip
    learn.logger = lambda row: None
    learn.fit(2)
    inputs, preds, targets = learn.get_preds(with_input=True)
    assert numod.equal(inputs["x"], X) and numod.equal(preds["twice"], 2 * X) and targets.shape == (12,)
    assert preds["scores"].allclose(learn.model.linear(X))
    learn.export("named.pkl")
    again = load_learner(tmp_path / "named.pkl").model({"x": X})
    assert again["scores"].allclose(preds["scores"]) and numod.equal(again["twice"], 2 * X)


class Two(nn.Module):
    """Two inputs, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x: numod.Tensor, y: numod.Tensor) -> tuple:
        return self.linear(x), self.linear(y).sum(1)


def test_several_inputs_outputs_and_targets(tmp_path: Path) -> None:
    loader = [(x, x, y, x.sum(1)) for x, y in batches()]

    def loss(pred: tuple, classes: numod.Tensor, sums: numod.Tensor) -> numod.Tensor:
        return F.cross_entropy(pred[0], classes) + F.mse_loss(pred[1], sums)

    learn = Learner(DataLoaders(loader, loader, n_inp=2), Two(), loss, path=tmp_path, default_cbs=False)
    learn.fit(1)
    (scores, sums), (classes, wanted) = learn.get_preds()
    assert scores.shape == (12, 3) and sums.shape == wanted.shape == classes.shape == (12,)
    loaded = load_learner(learn.export("two.pt"))
    loaded.loss_func = loss
    (again, _), _ = loaded.get_preds(dl=loader)
    assert again.allclose(scores, atol=1e-6)


class Mixed(Two):
    """A list, None and a number beside the scores."""

    def forward(self, x: numod.Tensor) -> tuple:
        return self.linear(x), [x, {"twice": x * 2}], None, 1.5


def test_outputs_that_are_lists_or_no_tensors(tmp_path: Path) -> None:
    loader = batches()
    learn = Learner(DataLoaders(loader, loader), Mixed(), lambda pred, y: F.cross_entropy(pred[0], y), path=tmp_path)
    (scores, (same, inner), nothing, numbers), _ = learn.get_preds()
    assert scores.allclose(learn.model.linear(X)) and numod.equal(same, X) and numod.equal(inner["twice"], 2 * X)
    assert nothing is None and numbers == [1.5] * len(loader)
    learn.export("mixed.pkl")
    scores, (same, inner), _, _ = load_learner(tmp_path / "mixed.pkl").model(X)
    assert scores.allclose(learn.model.linear(X)) and numod.equal(same, X) and numod.equal(inner["twice"], 2 * X)


def test_batches_that_are_no_tuples() -> None:
    with pytest.raises(TypeError, match="expected tuples .*got dict"):
        learner([{"x": X}]).fit(1)
