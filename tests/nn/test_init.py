"""nn.init: bounds and moments of the random ones, values of the others, gains, errors; and the helpers over many
parameters.
"""

import math

import numpy as np
import pytest

import numod
from numod import nn
from numod.nn import init


def filled(name, *shape, **settings):
    numod.manual_seed(0)
    tensor = nn.Parameter(numod.empty(*shape))
    assert getattr(init, name)(tensor, **settings) is tensor and tensor.requires_grad and tensor.grad_fn is None
    return tensor.detach().numpy()


def test_constants():
    assert (
        (filled("constant_", 2, 3, val=4) == 4).all()
        and (filled("ones_", 2) == 1).all()
        and (filled("zeros_", 2) == 0).all()
    )
    assert (filled("eye_", 2, 3) == np.eye(2, 3)).all()


def test_uniform_and_normal():
    uniform = filled("uniform_", 100, 100, a=-1, b=3)
    assert (
        uniform.min() >= -1
        and uniform.max() < 3
        and abs(uniform.mean() - 1) < 0.05
        and abs(uniform.var() - 16 / 12) < 0.05
    )
    normal = filled("normal_", 100, 100, mean=2, std=3)
    assert abs(normal.mean() - 2) < 0.1 and abs(normal.std() - 3) < 0.1


@pytest.mark.parametrize(("mean", "std", "a", "b"), [(0, 1, -2, 2), (1, 2, 0, 1.5), (0, 1, 1.5, 4), (0, 1, 4, 6)])
def test_trunc_normal(mean, std, a, b):
    far = mean < a - 2 * std
    with pytest.warns(UserWarning, match="mean is more than 2 std") if far else no_warning():
        values = filled("trunc_normal_", 100, 100, mean=mean, std=std, a=a, b=b)
    grid = np.linspace(a, b, 100_001)
    density = np.exp(-(((grid - mean) / std) ** 2) / 2)
    expected = (grid * density).sum() / density.sum()
    spread = math.sqrt(((grid - expected) ** 2 * density).sum() / density.sum())
    assert values.min() >= a and values.max() <= b
    assert abs(values.mean() - expected) < 0.05 * spread and abs(values.std() - spread) < 0.05 * spread


class no_warning:
    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False


@pytest.mark.parametrize("shape", [(300, 200), (20, 30, 5, 3)])
def test_xavier_and_kaiming(shape):
    field = math.prod(shape[2:])
    fan_in, fan_out = shape[1] * field, shape[0] * field
    for name, settings, deviation in [
        ("xavier", {"gain": 2}, 2 * math.sqrt(2 / (fan_in + fan_out))),
        ("kaiming", {}, math.sqrt(2 / fan_in)),
        ("kaiming", {"a": 1, "mode": "fan_out"}, math.sqrt(1 / fan_out)),
        ("kaiming", {"nonlinearity": "tanh"}, 5 / 3 / math.sqrt(fan_in)),
    ]:
        uniform, normal = filled(f"{name}_uniform_", *shape, **settings), filled(f"{name}_normal_", *shape, **settings)
        assert abs(uniform.std() / deviation - 1) < 0.05 and abs(normal.std() / deviation - 1) < 0.05
        assert abs(uniform).max() <= math.sqrt(3) * deviation * 1.0001 < abs(normal).max()


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (3, 2, 2, 3), (3, 2, 1, 1)])
def test_orthogonal(shape):
    matrix = filled("orthogonal_", *shape, gain=2).reshape(shape[0], -1)
    rows, columns = matrix.shape
    product = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(min(rows, columns)), atol=1e-5)


def test_sparse():
    values = filled("sparse_", 50, 20, sparsity=0.31, std=2)
    assert ((values == 0).sum(axis=0) == math.ceil(0.31 * 50)).all() and 1.5 < values[values != 0].std() < 2.5
    assert len({tuple(column) for column in (values == 0).T}) > 1


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("shape", [(4, 3, 3), (4, 2, 3, 5), (2, 4, 3, 3, 3)])
def test_dirac(shape, groups):
    values = filled("dirac_", *shape, groups=groups)
    expected = np.zeros(shape)
    for row in range(shape[0]):
        channel = row % (shape[0] // groups)
        if channel < shape[1]:
            expected[(row, channel, *(size // 2 for size in shape[2:]))] = 1
    assert (values == expected).all()


def test_gains():
    gains = {"linear": 1, "conv2d": 1, "conv_transpose3d": 1, "sigmoid": 1, "tanh": 5 / 3, "relu": 2**0.5, "selu": 0.75}
    for name, gain in gains.items():
        assert init.calculate_gain(name) == gain
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / (1 + 0.01**2)) and init.calculate_gain(
        "leaky_relu", 2
    ) == math.sqrt(2 / 5)
    with pytest.raises(ValueError, match="negative_slope True not a valid number"):
        init.calculate_gain("leaky_relu", True)
    with pytest.raises(ValueError, match="Unsupported nonlinearity swish"):
        init.calculate_gain("swish")


def test_errors():
    for name, shape, settings, message in [
        ("eye_", (2,), {}, "Only tensors with 2 dimensions are supported"),
        ("sparse_", (2,), {"sparsity": 0.1}, "Only tensors with 2 dimensions are supported"),
        ("dirac_", (2, 2), {}, "Only tensors with 3, 4, or 5 dimensions are supported"),
        ("dirac_", (3, 2, 2), {"groups": 2}, "dim 0 must be divisible by groups"),
        ("orthogonal_", (2,), {}, "Only tensors with 2 or more dimensions are supported"),
        ("xavier_uniform_", (2,), {}, "Fan in and fan out can not be computed"),
        ("kaiming_normal_", (2, 2), {"mode": "fan"}, "Mode fan not supported, please use one of"),
    ]:
        with pytest.raises(ValueError, match=message):
            getattr(init, name)(numod.empty(*shape), **settings)


def test_meta_tensors_have_no_values_to_fill():
    weight = numod.empty(3, 4, device="meta")
    assert all(
        fill(weight) is weight for fill in (init.trunc_normal_, init.xavier_uniform_, init.kaiming_normal_, init.zeros_)
    )


def test_empty_tensors():
    for name in ("kaiming_uniform_", "kaiming_normal_"):
        with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
            getattr(init, name)(numod.empty(0, 3))
    assert init.orthogonal_(numod.empty(0, 3)).shape == (0, 3)


def test_generator_repeats():
    for name in ("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "kaiming_normal_", "orthogonal_"):
        first, second = (
            getattr(init, name)(numod.empty(4, 4), generator=numod.Generator().manual_seed(7)) for _ in range(2)
        )
        assert first.tolist() == second.tolist()


def test_old_names_warn():
    with pytest.warns(
        FutureWarning, match="`nn.init.xavier_normal` is now deprecated in favor of `nn.init.xavier_normal_`"
    ):
        init.xavier_normal(numod.empty(2, 2))
    assert init.orthogonal.__name__ == "orthogonal"


def test_linear_starts_within_its_bound():
    numod.manual_seed(0)
    layer = nn.Linear(100, 50)
    for values in (layer.weight.detach().numpy(), layer.bias.detach().numpy()):
        assert 0.08 < abs(values).max() <= 0.1


# ---- nn.utils


def with_gradients(*gradients):
    parameters = [nn.Parameter(numod.zeros(len(gradient))) for gradient in gradients] + [nn.Parameter(numod.zeros(1))]
    for parameter, gradient in zip(parameters, gradients, strict=False):
        parameter.grad = numod.tensor(gradient)
    return parameters


@pytest.mark.parametrize(("norm_type", "norm"), [(2.0, 13.0), (1.0, 19.0), (float("inf"), 12.0)])
def test_clip_grad_norm(norm_type, norm):
    parameters = with_gradients([3.0, 4.0], [-12.0])
    total = nn.utils.clip_grad_norm_(parameters, 2.0, norm_type)
    assert total.shape == () and abs(total.item() - norm) < 1e-4
    assert np.allclose(parameters[0].grad.numpy(), np.array([3, 4]) * 2 / norm) and np.allclose(
        parameters[1].grad.numpy(), -24 / norm
    )
    assert abs(nn.utils.get_total_norm([parameter.grad for parameter in parameters[:2]], norm_type).item() - 2) < 1e-4
    before = parameters[0].grad.tolist()
    nn.utils.clip_grad_norm_(iter(parameters), 100.0, norm_type)
    assert np.allclose(parameters[0].grad.tolist(), before)


def test_clip_grad_norm_without_gradients_and_not_finite():
    assert nn.utils.clip_grad_norm_(nn.Parameter(numod.zeros(2)), 1.0).item() == 0
    with pytest.warns(UserWarning, match="`parameters` is an empty generator"):
        nn.utils.clip_grad_norm_((parameter for parameter in ()), 1.0)
    parameters = with_gradients([float("nan"), 1.0])
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert math.isnan(nn.utils.clip_grad_norm_(parameters, 1.0).item())


def test_clip_grad_value():
    parameters = with_gradients([3.0, -4.0, 0.5])
    nn.utils.clip_grad_value_(parameters, 1)
    assert parameters[0].grad.tolist() == [1, -1, 0.5]


def test_vectors():
    layer = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.tolist() == [*layer.weight.reshape(-1).tolist(), *layer.bias.tolist()] and vector.requires_grad
    weight = layer.weight
    nn.utils.vector_to_parameters(numod.arange(9, dtype=numod.float32), layer.parameters())
    assert layer.weight is weight and weight.tolist() == [[0, 1], [2, 3], [4, 5]] and layer.bias.tolist() == [6, 7, 8]
    with pytest.raises(TypeError, match="expected a Tensor, but got: list"):
        nn.utils.vector_to_parameters([1], layer.parameters())
