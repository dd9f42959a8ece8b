"""Equalization across layers keeps the function, and gives neighbours the same ranges."""

import copy

import pytest

import numod as torch
from numod import nn
from numod.ao.quantization import _equalize as equalization


def network():
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 3), nn.ReLU(), nn.Conv2d(5, 4, 1)
    return nn.Sequential(*layers)


def test_the_network_computes_the_same():
    model, x = network(), torch.randn(2, 3, 9, 9)
    result = equalization.equalize(copy.deepcopy(model), [["0", "2", "4"]], 1e-5)
    torch.testing.assert_close(result(x), model(x), rtol=1e-4, atol=1e-5)
    first, second = result[0].weight, result[2].weight
    ranges = equalization.channel_range(first, 0), equalization.channel_range(second, 1)
    torch.testing.assert_close(ranges[0], ranges[1], rtol=1e-3, atol=1e-4)


def test_modules_stand_for_their_paths():
    model = network()
    equalization.equalize(model, [[model[0], model[2]]])
    assert equalization.get_name_by_module(model, model[2]) == "2"


def test_fused_layers():
    from numod.ao.nn.intrinsic import LinearReLU

    model, x = nn.Sequential(LinearReLU(nn.Linear(3, 6), nn.ReLU()), nn.Linear(6, 2)), torch.randn(4, 3)
    result = equalization.equalize(model, [["0", "1"]], inplace=False)
    torch.testing.assert_close(result(x), model(x), rtol=1e-4, atol=1e-5)
    assert not torch.equal(result[1].weight, model[1].weight)


def test_mistakes():
    model = network()
    with pytest.raises(ValueError, match="module type not supported"):
        equalization.cross_layer_equalization(model[0], model[1])
    with pytest.raises(TypeError, match="do not match"):
        equalization.cross_layer_equalization(model[0], model[4])
    with pytest.raises(ValueError, match="at least two"):
        equalization.equalize(model, [["0"]])
    with pytest.raises(ValueError, match="not in the model"):
        equalization.equalize(model, [[nn.Linear(1, 1), "0"]])
    with pytest.raises(TypeError, match="must be a nn.Module or a string"):
        equalization.equalize(model, [[1, "0"]])


def test_channels_of_zeros_stay():
    """PyTorch divides by their range, and does not return."""
    model, x = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2)), torch.randn(4, 3)
    with torch.no_grad():
        model[0].weight[1].zero_()
        model[2].weight[:, 2].zero_()
    expected = model(x)
    equalization.equalize(model, [["0", "2"]])
    torch.testing.assert_close(model(x), expected, rtol=1e-4, atol=1e-5)
    assert not model[0].weight[1].any()


def test_weights_that_are_no_numbers_end():
    model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
    model[0].weight.data[0, 0] = float("nan")
    equalization.equalize(model, [["0", "2"]])
    assert model[0].weight.isnan().any()
