"""Objects of public scripts in checkpoints: with `weights_only=False`, and under `safe_globals` with their classes;
refused without. Python 2's names too.
"""

from __future__ import annotations

import _compat_pickle
import functools
import io

import pytest

import numod
from numod import nn
from numod.serialization import CheckpointError, safe_globals
from numod.serialization.safe_globals import renamed
from objects import described, objects

OBJECTS = objects(numod)


def file_of(value):
    file = io.BytesIO()
    numod.save({"value": value}, file)
    file.seek(0)
    return file


@pytest.mark.parametrize("case", OBJECTS)
def test_objects_are_loaded_where_their_classes_are_allowed(case):
    value, classes = OBJECTS[case]
    with safe_globals(classes):
        assert described(numod.load(file_of(value), weights_only=True)["value"]) == described(value)
    assert described(numod.load(file_of(value), weights_only=False)["value"]) == described(value)
    with pytest.raises(CheckpointError):
        numod.load(file_of(value))


def test_a_loaded_module_computes_and_its_hooks_are_its_own():
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5)).eval()
    with safe_globals([nn.Sequential, nn.Linear, nn.Dropout]):
        result = numod.load(file_of(model))["value"]
    x = numod.randn(4, 2)
    assert result(x).tolist() == model(x).tolist() and not result.training
    result.register_forward_hook(lambda module, inputs, output: output + 1)
    assert result(x).tolist() == (model(x) + 1).tolist()


def test_hooks_that_are_functions_are_refused():
    model = nn.Linear(2, 3)
    model.register_forward_hook(print)
    with safe_globals([nn.Linear]), pytest.raises(CheckpointError, match="builtins.print"):
        numod.load(file_of(model))


@pytest.mark.parametrize(
    "value",
    [range(3), int, str, chr, zip, map, filter, functools.reduce, BlockingIOError, range(1, 10, 3), {int: str}],
    ids=repr,
)
def test_names_of_python_2(value):
    assert numod.load(file_of(value), weights_only=False)["value"] == value


def test_every_name_of_python_2_is_todays():
    assert all(renamed(*old) == new for old, new in _compat_pickle.NAME_MAPPING.items())
    assert renamed("__builtin__", "set") == ("builtins", "set") and renamed("copy_reg", "_reconstructor") == (
        "copyreg",
        "_reconstructor",
    )
    assert renamed("numpy.core.multiarray", "scalar") == ("numpy._core.multiarray", "scalar")


def test_a_generator_is_saved_and_loads_where_it_is_allowed(tmp_path):
    generator = numod.Generator().manual_seed(5)
    numod.rand(3, generator=generator)
    numod.save({"generator": generator, "state": generator.get_state()}, tmp_path / "g.pt")
    with pytest.raises(CheckpointError, match=r"numod.core.create.random.Generator.*add_safe_globals"):
        numod.load(tmp_path / "g.pt")
    expected = numod.rand(4, generator=generator.clone_state()).tolist()
    with numod.serialization.safe_globals([numod.Generator]):
        allowed = numod.load(tmp_path / "g.pt")
    for actual in (allowed, numod.load(tmp_path / "g.pt", weights_only=False)):
        assert (
            actual["state"].equal(generator.get_state())
            and numod.rand(4, generator=actual["generator"]).tolist() == expected
        )
