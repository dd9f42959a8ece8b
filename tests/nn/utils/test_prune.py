"""Pruning: masks against the expected ones, stacking, and where an error leaves the module."""

import copy

import pytest

import numod
from numod import nn
from numod.nn.utils import prune


def layer():
    linear = nn.Linear(3, 2)
    linear.weight.data = numod.tensor([[1.0, -5.0, 3.0], [-2.0, 4.0, -6.0]])
    return linear


@pytest.mark.parametrize("method, expected", [
    (lambda m: prune.l1_unstructured(m, "weight", 2), [[0, 1, 1], [0, 1, 1]]),
    (lambda m: prune.l1_unstructured(m, "weight", 0.5), [[0, 1, 0], [0, 1, 1]]),
    (lambda m: prune.l1_unstructured(m, "weight", 2, importance_scores=numod.arange(6.0).reshape(2, 3)), [[0, 0, 1], [1, 1, 1]]),
    (lambda m: prune.ln_structured(m, "weight", 1, n=1, dim=1), [[0, 1, 1], [0, 1, 1]]),
    (lambda m: prune.ln_structured(m, "weight", 0.5, n=2, dim=0), [[0, 0, 0], [1, 1, 1]]),
    (lambda m: prune.custom_from_mask(m, "weight", numod.tensor([[1, 0, 1], [0, 1, 1]])), [[1, 0, 1], [0, 1, 1]]),
    (lambda m: prune.identity(m, "weight"), [[1, 1, 1], [1, 1, 1]]),
])  # fmt: skip
def test_masks(method, expected):
    linear = layer()
    weight = linear.weight
    assert method(linear) is linear and linear.weight_mask.tolist() == expected
    assert linear.weight_orig is weight and linear.weight.tolist() == (weight * numod.tensor(expected)).tolist()
    assert [name for name, _ in linear.named_parameters()] == ["bias", "weight_orig"] and prune.is_pruned(
        nn.Sequential(linear)
    )
    prune.remove(linear, "weight")
    assert (
        linear.weight is weight
        and weight.tolist() == (weight * numod.tensor(expected)).tolist()
        and not prune.is_pruned(linear)
    )


def test_methods_stack_and_each_sees_what_is_left():
    linear = layer()
    prune.ln_structured(linear, "weight", 1, n=1, dim=1)  # the first column
    prune.l1_unstructured(linear, "weight", 0.5)  # two of the four that are left
    assert linear.weight_mask.tolist() == [[0, 1, 0], [0, 0, 1]]
    (hook,) = linear._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and [type(method).__name__ for method in hook] == [
        "LnStructured",
        "L1Unstructured",
    ]
    prune.random_unstructured(linear, "weight", 2)
    assert linear.weight_mask.sum().item() == 0 and len(next(iter(linear._forward_pre_hooks.values()))) == 3


@pytest.mark.parametrize("amount, left", [(0, 6), (2, 4), (0.5, 3), (1.0, 0)])
def test_random_methods_prune_that_many(amount, left):
    linear = layer()
    prune.random_unstructured(linear, "weight", amount)
    assert linear.weight_mask.sum().item() == left
    numod.manual_seed(0)
    masks = {str(prune.RandomUnstructured(3).compute_mask(numod.ones(6), numod.ones(6)).tolist()) for _ in range(20)}
    assert len(masks) > 3
    linear = layer()
    prune.random_structured(linear, "weight", 2, dim=-1)
    assert sorted(linear.weight_mask.sum(0).tolist()) == [0, 0, 2]


def test_global_pruning_counts_over_all():
    first, second = layer(), layer()
    second.weight.data = first.weight * 10
    prune.global_unstructured([(first, "weight"), (second, "weight")], prune.L1Unstructured, amount=7)
    assert first.weight_mask.sum().item() == 0 and second.weight_mask.tolist() == [[0, 1, 1], [1, 1, 1]]
    scores = {(first, "weight"): numod.full((2, 3), 100.0)}
    first, second = layer(), layer()
    scores = {(first, "weight"): numod.full((2, 3), 100.0)}
    prune.global_unstructured(
        [(first, "weight"), (second, "weight")], prune.L1Unstructured, importance_scores=scores, amount=0.5
    )
    assert first.weight_mask.sum().item() == 6 and second.weight_mask.sum().item() == 0


def test_training_and_copies_keep_the_zeros():
    linear = layer()
    prune.l1_unstructured(linear, "weight", 3)
    optimizer = numod.optim.SGD(linear.parameters(), lr=0.1)
    linear(numod.ones(1, 3)).sum().backward()
    optimizer.step()
    twin = copy.deepcopy(linear)
    assert twin(numod.ones(1, 3)).tolist() == linear(numod.ones(1, 3)).tolist()
    assert ((twin.weight == 0) == (linear.weight_mask == 0)).all()
    assert linear.weight_orig.grad.tolist() == linear.weight_mask.tolist()


def test_a_refused_pruning_leaves_the_module_as_it_was():
    linear = layer()
    prune.l1_unstructured(linear, "weight", 1)
    state = {name: tensor.tolist() for name, tensor in linear.state_dict().items()}
    with pytest.raises(ValueError, match="amount=7 should be smaller than the number of parameters to prune=5"):
        prune.l1_unstructured(linear, "weight", 7)
    with pytest.raises(ValueError, match="Structured pruning can only be applied to multidimensional tensors"):
        prune.ln_structured(linear, "bias", 1, n=2, dim=0)
    assert {name: tensor.tolist() for name, tensor in linear.state_dict().items()} == state and len(
        linear._forward_pre_hooks
    ) == 1


def test_wrong_arguments():
    linear = layer()
    with pytest.raises(TypeError, match="Invalid type for amount: a. Must be int or float."):
        prune.l1_unstructured(linear, "weight", "a")
    with pytest.raises(
        ValueError, match=r"amount=1.5 should either be a float in the range \[0, 1\] or a non-negative integer"
    ):
        prune.l1_unstructured(linear, "weight", 1.5)
    with pytest.raises(
        ValueError, match="Parameter 'weight' of module .* has to be pruned before pruning can be removed"
    ):
        prune.remove(linear, "weight")
    with pytest.raises(AssertionError, match="importance_scores should have the same shape"):
        prune.l1_unstructured(linear, "weight", 1, importance_scores=numod.ones(3))
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE supported'):
        prune.global_unstructured([(linear, "weight")], prune.LnStructured, amount=1, n=2)


def test_a_missing_parameter_is_named():
    with pytest.raises(TypeError, match="Parameter 'bias' of module Linear.* is None, expected a tensor to prune"):
        prune.l1_unstructured(nn.Linear(2, 2, bias=False), "bias", 0.5)
