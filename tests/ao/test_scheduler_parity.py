"""Schedules of sparsity beside PyTorch's, and masks that are zero outside of diagonals."""

from __future__ import annotations

import pytest

import numod
from numod.ao import pruning

torch = pytest.importorskip("torch")
peers = pytest.importorskip("torch.ao.pruning")
pytestmark = pytest.mark.parity


def sparsifier(library, package):
    model = library.nn.Sequential(library.nn.Linear(8, 8), library.nn.Linear(8, 4))
    result = package.WeightNormSparsifier(sparsity_level=0.8)
    result.prepare(model, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "1.weight", "sparsity_level": 0.4}])
    return result


CASES = {
    "lambda": ("LambdaSL", {"sl_lambda": lambda epoch: 0.9**epoch}),
    "lambdas": ("LambdaSL", {"sl_lambda": [lambda epoch: epoch / 10, lambda epoch: 1.0]}),
    "cubic": ("CubicSL", {"init_sl": 0.1, "delta_t": 2, "total_t": 4}),
    "cubic from zero": ("CubicSL", {"init_sl": [0.1, 0.2], "init_t": 3, "total_t": 1, "initially_zero": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_levels_are_those_of_pytorch(name):
    kind, options = CASES[name]
    ours, theirs = sparsifier(numod, pruning), sparsifier(torch, peers)
    schedule, peer = getattr(pruning, kind)(ours, **options), getattr(peers, kind)(theirs, **options)
    for _ in range(8):
        assert schedule.get_last_sl() == pytest.approx(peer.get_last_sl())
        ours.step(), theirs.step()
        schedule.step(), peer.step()
    assert schedule.state_dict()["last_epoch"] == 8 and schedule.base_sl == [0.8, 0.4]
    again = getattr(pruning, kind)(sparsifier(numod, pruning), **options)
    again.load_state_dict(schedule.state_dict())
    assert again.last_epoch == 8


@pytest.mark.parametrize("nearliness", [0, 1, 3, 5])
def test_diagonals(nearliness):
    masks = []
    for library, package in ((numod, pruning), (torch, peers)):
        model = library.nn.Sequential(library.nn.Linear(6, 4))
        result = package.NearlyDiagonalSparsifier(nearliness)
        result.prepare(model, [{"tensor_fqn": "0.weight"}])
        result.step()
        masks.append(model[0].parametrizations.weight[0].mask.numpy())
    assert (masks[0] == masks[1]).all()
