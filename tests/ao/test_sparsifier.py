"""WeightNormSparsifier: which weights become zero, and what training keeps zero."""

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.ao.pruning import WeightNormSparsifier

CASES = {
    "2:4": {"sparsity_level": 1.0, "sparse_block_shape": (1, 4), "zeros_per_block": 2},
    "blocks": {"sparsity_level": 0.5, "sparse_block_shape": (2, 4)},
    "elements": {"sparsity_level": 0.3, "sparse_block_shape": (1, 1), "norm": 1},
    "some of each": {"sparsity_level": 0.5, "sparse_block_shape": (1, 4), "zeros_per_block": 3},
    "dense": {"sparsity_level": 0.0},
    "all": {"sparsity_level": 1.0},
}


def layer(lib, weight):
    model = lib.nn.Sequential(lib.nn.Linear(weight.shape[1], weight.shape[0], bias=False))
    with lib.no_grad():
        model[0].weight.copy_(lib.from_numpy(weight))
    return model


def weights(shape=(6, 8)):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def squashed(lib, sparsifier, model):
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    sparsifier.step()
    sparsifier.squash_mask()
    return model[0].weight.detach().numpy()


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_masks_are_pytorchs(name):
    reference = pytest.importorskip("torch")
    import torch.ao.pruning as pruning

    theirs = squashed(reference, pruning.WeightNormSparsifier(**CASES[name]), layer(reference, weights()))
    assert np.array_equal(squashed(torch, WeightNormSparsifier(**CASES[name]), layer(torch, weights())), theirs)


def test_two_of_four():
    result = squashed(torch, WeightNormSparsifier(**CASES["2:4"]), layer(torch, weights()))
    greatest = np.sort(np.abs(weights()).reshape(-1, 4))[:, 2:]
    assert np.array_equal(np.sort(np.abs(result).reshape(-1, 4))[:, 2:], greatest)
    assert (result == 0).sum() == result.size // 2


def test_blocks_at_the_edges():
    result = squashed(torch, WeightNormSparsifier(0.5, (2, 4)), layer(torch, weights((5, 6))))
    blocks = [result[i : i + 2, j : j + 4] for i in (0, 2, 4) for j in (0, 4)]
    assert sum(not block.any() for block in blocks) == 3 and sum(block.all() for block in blocks) == 3


def test_zeros_stay_zero_in_training():
    model, sparsifier = nn.Sequential(nn.Linear(8, 6)), WeightNormSparsifier(**CASES["2:4"])
    sparsifier.prepare(model, None)
    sparsifier.step()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    assert (model[0].weight == 0).sum() == 24
    fresh, other = nn.Sequential(nn.Linear(8, 6)), WeightNormSparsifier()
    other.prepare(fresh, None)
    other.load_state_dict(sparsifier.state_dict())
    assert ((fresh[0].weight == 0) == (model[0].weight == 0)).all() and other.groups[0]["zeros_per_block"] == 2
    sparsifier.squash_mask(params_to_keep=("zeros_per_block",))
    assert model[0].sparse_params == {"zeros_per_block": 2} and isinstance(model[0].weight, nn.Parameter)
    assert "Group 0" in repr(sparsifier)


def test_wrong_arguments_are_refused():
    with pytest.raises(NotImplementedError, match="L-3"):
        WeightNormSparsifier(norm=3)
    with pytest.raises(AssertionError, match="tensor_fqn is a required argument"):
        WeightNormSparsifier().prepare(nn.Sequential(nn.Linear(2, 2)), ["0.weight"])
    with pytest.raises(AttributeError, match="no tensor '1.weight'"):
        WeightNormSparsifier().prepare(nn.Sequential(nn.Linear(2, 2)), [{"tensor_fqn": "1.weight"}])
    sparsifier, model = WeightNormSparsifier(zeros_per_block=5), nn.Sequential(nn.Linear(4, 2))
    sparsifier.prepare(model, None)
    with pytest.raises(ValueError, match="cannot be more than"):
        sparsifier.step()


@pytest.mark.parametrize("shape", [(4,), 4, (1, 0), (1, 2, 2), (1, 1.5)])
def test_a_block_has_rows_and_columns(shape):
    with pytest.raises(ValueError, match="sparse_block_shape must be .rows, columns., such as .1, 4., got"):
        WeightNormSparsifier(sparse_block_shape=shape)
