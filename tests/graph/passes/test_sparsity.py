"""`options={"sparsity": True}`: which weights are packed without their zeros, and that results stay those of the weight."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod import nn
from numod.graph.passes import sparsity
from numod.nn.utils import prune
from numod.kernel.registers.vectors import host
from numod.ops.matmul import sparse, sparse_windows


OPTIONS = {"freezing": True, "sparsity": True}


@pytest.fixture
def chosen(monkeypatch):
    """Sparse products are always the faster ones; the list of packings that were chosen."""
    packings = []

    def faster(op, layouts, attributes, weight, packing, dense):
        packings.append(packing)
        return True

    monkeypatch.setattr(sparsity, "_is_faster", faster)
    monkeypatch.setattr(sparsity, "_measured", {})
    return packings


def network(zeros):
    numod.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 50), nn.ReLU(), nn.Linear(50, 3, bias=False)).requires_grad_(False)
    for layer in (model[0], model[2]):
        layer.weight.mul_(numod.rand(*layer.weight.shape) > zeros)
    return model


def compiled(model, **options):
    return numod.compile(model, options={**OPTIONS, **options}, fullgraph=True)


@pytest.mark.parametrize("batch", [1, 6])
def test_results_are_those_of_the_model(chosen, batch):
    model, x = network(0.8), numod.randn(batch, 40)
    function = compiled(model)
    for _ in range(3):
        numod.testing.assert_close(function(x), model(x))
    forms = [sparse.pack_sparse, *([sparse_windows.pack_windows] if batch == 1 and host().width == 64 else [])]
    assert [packing.op for packing in chosen] == forms * 2


def test_weights_of_numbers_are_not_measured(chosen):
    model, x = network(0.2), numod.randn(2, 40)
    function = compiled(model)
    function(x)
    numod.testing.assert_close(function(x), model(x))
    assert not chosen


def test_a_write_that_adds_numbers_counts(chosen):
    model, x = network(0.9), numod.randn(2, 40)
    function = compiled(model)
    function(x), function(x)
    assert chosen
    model[0].weight.normal_()
    numod.testing.assert_close(function(x), model(x))
    model[0].weight.mul_(numod.rand(50, 40) > 0.95)
    numod.testing.assert_close(function(x), model(x))


def test_masks_of_pruning_are_frozen_with_the_weight(chosen):
    model, x = nn.Linear(30, 20), numod.randn(3, 30)
    prune.l1_unstructured(model, "weight", 0.9)
    function = compiled(model)
    with numod.no_grad():
        function(x)
        numod.testing.assert_close(function(x), model(x))
    assert len(chosen) == 1


def test_the_faster_form_is_measured():
    weight = numod.zeros(256, 256)
    weight[::2, 3] = 1.0
    layouts = numod.ones(1, 256)._layout, weight._layout, type(None)
    dense = numod.ops.matmul.matmul.linear.prepack(layouts, ())
    linear = numod.ops.matmul.matmul.linear
    packing = sparsity.sparse_packing(linear, layouts, (), weight, dense)
    assert packing is None or packing.attributes == (sparse.capacity_of(weight.numpy()),)
    key = linear, (1, 256), (256, 256), sparse.capacity_of(weight.numpy()), False
    assert isinstance(sparsity._measured[key], int)


def test_capacity_is_the_longest_row_of_each_group():
    from numod.kernel.registers.vectors import host

    lanes = host().lanes(4)
    weight = np.zeros((2 * lanes + 1, 10), np.float32)
    weight[2, :7] = weight[5:7, :4] = weight[0, :2] = 1
    weight[lanes:, :3] = 1  # the rows of 3 fill the second group, those of 4 and 7 are above them
    counts = np.sort(np.count_nonzero(weight, axis=1))
    assert sparse.capacity_of(weight) == counts[lanes - 1] + counts[2 * lanes - 1] + 7


@pytest.mark.parametrize("first", [False, True])
def test_a_form_for_one_size_is_not_taken_for_all(chosen, first):
    """A row of x has a form that programs for all sizes do not have."""
    model, x = network(0.8), numod.randn(1, 40)
    for dynamic in (first, not first):
        numod.testing.assert_close(numod.compile(model, dynamic=dynamic, options=OPTIONS)(x), model(x))
