"""Schedules of sparsity: the order of their steps, and what is refused."""

from __future__ import annotations

import warnings

import pytest

import numod
from numod.ao import pruning


def sparsifier():
    model = numod.nn.Sequential(numod.nn.Linear(8, 8), numod.nn.Linear(8, 4))
    result = pruning.WeightNormSparsifier(sparsity_level=0.8)
    result.prepare(model, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "1.weight", "sparsity_level": 0.4}])
    return result


def test_the_order_of_steps_is_checked(capsys):
    ours = sparsifier()
    schedule = pruning.LambdaSL(ours, lambda epoch: 1.0, verbose=True)
    assert "Adjusting sparsity level of group 1 to 4.0000e-01." in capsys.readouterr().out
    with pytest.warns(UserWarning, match=r"before `sparsifier.step\(\)`"):
        schedule.step()
    with pytest.warns(UserWarning, match="get_last_sl"):
        schedule.get_sl()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.step(), schedule.step()
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas, but got 1"):
        pruning.LambdaSL(ours, [lambda epoch: 1.0])
    with pytest.raises(ValueError, match="Expected variable of length 2, but got 3"):
        pruning.CubicSL(ours, init_t=[0, 0, 0])
    with pytest.raises(TypeError, match="is not an instance of"):
        pruning.BaseScheduler(numod.nn.Linear(2, 2))
    with pytest.raises(NotImplementedError, match=r"BaseScheduler must define get_sl\(\)"):
        pruning.BaseScheduler(ours)


def test_even_and_large_numbers_of_diagonals_are_refused():
    for nearliness, text in ((2, "odd"), (9, "larger than the dimensions")):
        result = pruning.NearlyDiagonalSparsifier(nearliness)
        result.prepare(numod.nn.Sequential(numod.nn.Linear(6, 4)), None)
        with pytest.raises(ValueError, match=text):
            result.step()
