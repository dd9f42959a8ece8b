"""vmap calls a function once for all examples; values, dtypes and gradients equal those of one call per example."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import numod
import numod.nn.functional as F
from numod import nn
from numod.autograd import Function
from numod.func import (
    batching,
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

SIZE = 3


def floats(*shape: int, seed: int = 0, dtype: numod.dtype = numod.float64) -> numod.Tensor:
    return numod.randn(*shape, generator=numod.Generator().manual_seed(seed), dtype=dtype)


def indices(*shape: int, below: int) -> numod.Tensor:
    return numod.randint(0, below, shape, generator=numod.Generator().manual_seed(1))


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> Iterator[list]:
    """The calls for all examples at once that were not given up."""
    calls, whole = [], batching._call_once

    def counted(*arguments: object) -> object:
        result = whole(*arguments)
        calls.append(arguments[0])
        return result

    monkeypatch.setattr(batching, "_call_once", counted)
    yield calls


def in_turn(func: Callable, in_dims: object, *args: object) -> object:
    """What calls for each example give, stacked."""
    dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
    rows = [func(*[x if dim is None else x.select(dim, k) for x, dim in zip(args, dims)]) for k in range(SIZE)]
    return tuple(map(numod.stack, zip(*rows))) if isinstance(rows[0], tuple) else numod.stack(rows)


# Each: a function of up to three tensors, and the shapes of one example (or a tuple (shape, bound) of indices).
CASES: dict[str, tuple[Callable, ...]] = {
    "broadcast": (lambda x, y: x * y + y.exp(), (4, 5), (5,)),
    "more dimensions": (lambda x, y: x - y, (5,), (2, 4, 5)),
    "scalars": (lambda x, y: x * y, (), (4,)),
    "where": (lambda x, y: numod.where(x > 0, x, y), (4,), (4,)),
    "sum": (lambda x: x.sum(0) + x.mean(1, keepdim=True).sum(), (4, 5)),
    "norms": (lambda x: x.norm(dim=1) + x.var(1) + x.std(1), (4, 5)),
    "prod": (lambda x: x.prod(1) + x.prod(), (2, 3)),
    "extremes": (lambda x: (*x.max(1), *x.min(0), x.argmax(), x.amax(1)), (4, 5)),
    "sorted numbers": (lambda x: (*x.sort(), x.argsort(), *x.kthvalue(1)), ()),
    "sorted": (lambda x: (*x.sort(1), *x.topk(2, 0), *x.kthvalue(2, 1), x.median()), (4, 5)),
    "running": (lambda x: x.cumsum(0) + x.cumprod(1) + x.cummax(1)[0] + x.logcumsumexp(0), (4, 5)),
    "softmax": (lambda x: x.softmax(0) + x.log_softmax(1) + x.logsumexp(1, keepdim=True), (4, 5)),
    "views": (lambda x: x.t().reshape(2, 10).unsqueeze(1)[:, :, ::2].expand(2, 3, 5).flatten()[3:] * 2, (4, 5)),
    "parts": (lambda x: x[1:3, ::2].transpose(0, 1) @ x[:2, 1:3] + x.diagonal()[:2], (4, 5)),
    "joined": (lambda x, y: numod.cat([x, y], 1).sum(0) + numod.stack([x, x], 2).sum(), (4, 2), (4, 3)),
    "flips": (lambda x: x.flip(0) + x.roll(1, 1) + x.tril() + x.triu(1), (4, 4)),
    "padded": (lambda x: F.pad(x, (1, 2)).sum(0) + F.pad(x[None], (1, 2), mode="reflect")[0].sum(0), (4, 5)),
    "products": (lambda x, y: x @ y, (4, 5), (5, 3)),
    "vector products": (lambda x, y: x @ y, (4, 5), (5,)),
    "dots": (lambda x, y: x.dot(y) + numod.outer(x, y).sum(), (5,), (5,)),
    "batched products": (lambda x, y: numod.bmm(x, y), (2, 4, 5), (2, 5, 3)),
    "broadcast products": (lambda x, y: x @ y, (2, 1, 4, 5), (3, 5, 2)),
    "einsum": (lambda x, y: numod.einsum("ij,kj->ik", x, y), (4, 5), (3, 5)),
    "addmm": (lambda x, y, z: numod.addmm(x, y, z), (3,), (4, 5), (5, 3)),
    "linear": (lambda x, y, z: F.linear(x, y, z), (4, 5), (3, 5), (3,)),
    "linear of a vector": (lambda x, y: F.linear(x, y), (5,), (3, 5)),
    "conv1d": (lambda x, y, z: F.conv1d(x, y, z, padding=1), (2, 3, 6), (4, 3, 3), (4,)),
    "conv2d": (lambda x, y: F.conv2d(x, y, stride=2, padding=1), (2, 3, 6, 6), (4, 3, 3, 3)),
    "grouped": (lambda x, y: F.conv2d(x, y, groups=2, dilation=2), (2, 4, 6, 6), (6, 2, 3, 3)),
    "transposed": (lambda x, y: F.conv_transpose2d(x, y, stride=2), (2, 3, 4, 4), (3, 2, 3, 3)),
    "one image": (lambda x, y: F.conv2d(x, y), (3, 6, 6), (4, 3, 3, 3)),
    "pooled": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2) + F.adaptive_avg_pool2d(x, 3), (2, 3, 6, 6)),
    "layer norm": (lambda x, y, z: F.layer_norm(x, (5,), y, z), (4, 5), (5,), (5,)),
    "group norm": (lambda x, y, z: F.group_norm(x, 2, y, z), (2, 4, 5), (4,), (4,)),
    "batch norm": (lambda x, y: F.batch_norm(x, None, None, y, training=True), (4, 3, 5), (3,)),
    "rms norm": (lambda x, y: F.rms_norm(x, (5,), y), (4, 5), (5,)),
    "attention": (lambda x, y, z: F.scaled_dot_product_attention(x, y, z), (2, 2, 5, 4), (2, 2, 6, 4), (2, 2, 6, 4)),
    "causal": (lambda x, y: F.scaled_dot_product_attention(x, x, y, is_causal=True), (2, 5, 4), (2, 5, 4)),
    "causal without heads": (lambda x, y: F.scaled_dot_product_attention(x, x, y, is_causal=True), (5, 4), (5, 4)),
    "masked": (lambda x, y: F.scaled_dot_product_attention(x, x, x, y > 0), (2, 5, 4), (5, 5)),
    "masked of many dimensions": (
        lambda x, y: F.scaled_dot_product_attention(x, x, x, y > 0),
        (2, 1, 2, 5, 4),
        (2, 5, 5),
    ),
    "interpolated": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (1, 2, 4, 4)),
    "unfolded": (lambda x: F.unfold(x, 2), (1, 2, 4, 4)),
    "grid": (lambda x, y: F.grid_sample(x, y.tanh(), align_corners=False), (1, 2, 4, 4), (1, 3, 3, 2)),
    "distances": (lambda x, y: numod.cdist(x, y), (4, 5), (3, 5)),
    "mse": (lambda x, y: F.mse_loss(x, y) + F.smooth_l1_loss(x, y), (4, 5), (4, 5)),
    "cross entropy": (lambda x, y: F.cross_entropy(x, y), (4, 5), ((4,), 5)),
    "each cross entropy": (lambda x, y: F.cross_entropy(x, y, reduction="none"), (4, 5), ((4,), 5)),
    "a class": (lambda x, y: F.cross_entropy(x, y), (5,), ((), 5)),
    "smoothed": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), (4, 5), ((4,), 5)),
    "nll": (lambda x, y: F.nll_loss(x.log_softmax(1), y), (4, 5), ((4,), 5)),
    "weighted nll": (
        lambda x, y, z: F.nll_loss(x, y, z.exp(), reduction="sum", ignore_index=1),
        (4, 5),
        ((4,), 5),
        (5,),
    ),
    "images of nll": (
        lambda x, y: F.nll_loss(x, y, x.new_tensor([1.0, 2.0, 3.0]), ignore_index=1),
        (2, 3, 4),
        ((2, 4), 3),
    ),
    "embedding": (lambda x, y: F.embedding(y, x), (6, 5), ((4, 2), 6)),
    "index select": (lambda x, y: x.index_select(1, y), (4, 6), ((3,), 6)),
    "gather": (lambda x, y: x.gather(1, y), (4, 6), ((4, 2), 6)),
    "index": (lambda x, y: x[y] + x[:, y].sum(), (6, 6), ((4,), 6)),
    "index of a number": (lambda x, y: x[y], (6, 5), ((), 6)),
    "scatter into a vector": (
        lambda x, y: x.scatter(0, y, 2.0) + x.scatter_add(0, y, x[:4]) + x.index_copy(0, y[:1], x[:1]),
        (9,),
        ((4,), 9),
    ),
    "scatter": (lambda x, y: x.scatter_add(1, y, x[:, :2]) + x.scatter(1, y, 2.0), (4, 6), ((4, 2), 6)),
    "index add": (lambda x, y: x.index_add(0, y, x[:4]) + x.index_fill(0, y, 1.0), (6, 5), ((4,), 6)),
    "scatter reduce": (lambda x, y: x.scatter_reduce(0, y, x[:2], "amax"), (4, 6), ((2, 6), 4)),
    "one hot": (lambda x, y: F.one_hot(y, 6).double() @ x, (6, 5), ((4,), 6)),
    "in place": (lambda x, y: x.clone().add_(y).mul_(2).sum(1), (4, 5), (5,)),
    "parts in place": (lambda x, y: _filled(x, y), (4, 5), (5,)),
    "like": (lambda x: numod.zeros_like(x).add_(x) + numod.ones_like(x) + x.new_ones(4, 5), (4, 5)),
    "solve": (lambda x, y: numod.linalg.solve(x + 9 * numod.eye(4, dtype=x.dtype), y), (4, 4), (4, 2)),
    "factors": (
        lambda x: (
            numod.linalg.cholesky(x @ x.mT + numod.eye(4, dtype=x.dtype)).logdet()
            + numod.linalg.inv(x @ x.mT + numod.eye(4, dtype=x.dtype))
        ),
        (4, 4),
    ),
    "spectrum": (lambda x: numod.fft.rfft(x, dim=0).abs(), (4, 5)),
    "complex": (lambda x, y: (numod.complex(x, y) * numod.complex(y, x)).abs(), (4,), (4,)),
    "branch on all": (lambda x: x * 2 if (x * x >= 0).all() else x, (4,)),
    "meshgrid": (lambda x, y: numod.meshgrid(x, y, indexing="ij")[0] * y, (4,), (5,)),
    "activations": (lambda x: F.gelu(x) + F.softplus(x) + F.glu(x, 0).sum() + F.prelu(x, x[0, :1]), (4, 5)),
    "clamp": (lambda x, y: x.clamp(min=y).lerp(y, 0.3), (4, 5), (5,)),
}
# over what all examples share, where these alone differ: PyTorch refuses, numod calls the function for each
WRITING = ("in place", "parts in place")


def _filled(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
    out = x * 1
    out[1] = y
    out[:, 2] += y[:4]
    out[2, 3] = 7
    return out


def made(shapes: tuple) -> list[numod.Tensor]:
    args = []
    for seed, shape in enumerate(shapes):
        args.append(
            indices(SIZE, *shape[0], below=shape[1])
            if shape and isinstance(shape[0], tuple)
            else floats(SIZE, *shape, seed=seed)
        )
    return args


def combinations(count: int) -> list[tuple]:
    return [tuple(0 if mask >> k & 1 else None for k in range(count)) for mask in range(1, 1 << count)]


@pytest.mark.parametrize("name", CASES)
def test_one_call_gives_what_calls_for_each_give(name: str, once: list) -> None:
    func, *shapes = CASES[name]
    for in_dims in combinations(len(shapes)):
        args = [x if dim == 0 else x[0] for x, dim in zip(made(shapes), in_dims)]
        expected = in_turn(func, in_dims, *args)
        once.clear()
        actual = vmap(func, in_dims)(*args)
        assert len(once) == (0 if in_dims[0] is None and name in WRITING else 1), in_dims
        numod.testing.assert_close(actual, expected, msg=lambda text: f"{in_dims}: {text}")  # noqa: B023


@pytest.mark.parametrize("name", CASES)
def test_gradients_inside_and_outside(name: str) -> None:
    func, *shapes = CASES[name]

    def total(*args: numod.Tensor) -> numod.Tensor:
        result = func(*args)
        return sum(
            (tensor * tensor).sum()
            for tensor in (result if isinstance(result, tuple) else (result,))
            if tensor.is_floating_point()
        )

    args = made(shapes)
    floating = tuple(k for k, x in enumerate(args) if x.is_floating_point())
    inside = vmap(grad(total, floating), 0)(*args)
    for k, actual in zip(floating, inside):
        expected = numod.stack(
            [grad(total, floating)(*[x[row] for x in args])[floating.index(k)] for row in range(SIZE)]
        )
        numod.testing.assert_close(actual, expected)
    for in_dims in combinations(len(shapes)):
        leaves = [
            (x if dim == 0 else x[0]).clone().requires_grad_(x.is_floating_point()) for x, dim in zip(args, in_dims)
        ]
        wanted = [x for x in leaves if x.requires_grad]
        gradients = numod.autograd.grad(
            vmap(total, in_dims)(*leaves).sum(), wanted, allow_unused=True, materialize_grads=True
        )
        expected = numod.autograd.grad(
            in_turn(total, in_dims, *leaves).sum(), wanted, allow_unused=True, materialize_grads=True
        )
        for one, other in zip(gradients, expected):
            numod.testing.assert_close(one, other, msg=lambda text: f"{in_dims}: {text}")  # noqa: B023


def test_gradients_per_example_of_a_network(once: list) -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LayerNorm(36), nn.Linear(36, 5)
    )
    parameters = {name: parameter.detach() for name, parameter in net.named_parameters()}
    images, classes = numod.randn(SIZE, 1, 8, 8), indices(SIZE, below=5)

    def loss(parameters: dict, image: numod.Tensor, target: numod.Tensor) -> numod.Tensor:
        return F.cross_entropy(functional_call(net, parameters, (image[None],)), target[None])

    result = vmap(grad(loss), (None, 0, 0))(parameters, images, classes)
    assert len(once) == 1
    for row in range(SIZE):
        numod.testing.assert_close(
            {name: gradient[row] for name, gradient in result.items()},
            grad(loss)(parameters, images[row], classes[row]),
        )


def test_an_ensemble(once: list) -> None:
    nets = [nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)) for _ in range(SIZE)]
    parameters, buffers = stack_module_state(nets)
    x, batches = numod.randn(4, 3), numod.randn(SIZE, 4, 3)
    call = lambda parameters, buffers, x: functional_call(nets[0], (parameters, buffers), (x,))  # noqa: E731
    numod.testing.assert_close(vmap(call, (0, 0, None))(parameters, buffers, x), numod.stack([net(x) for net in nets]))
    actual = vmap(call)(parameters, buffers, batches)
    numod.testing.assert_close(actual, numod.stack([net(batch) for net, batch in zip(nets, batches)]))
    assert len(once) == 2
    actual.sum().backward()
    expected = numod.stack(
        [numod.autograd.grad(net(batch).sum(), net[0].weight)[0] for net, batch in zip(nets, batches)]
    )
    numod.testing.assert_close(parameters["0.weight"].grad, expected)


def test_nested_calls_and_derivatives(once: list) -> None:
    w, x, y = floats(4, 5), floats(SIZE, 5, seed=1), floats(2, 5, seed=2)
    func = lambda x: (w @ x).tanh()  # noqa: E731
    pairs = vmap(lambda a: vmap(lambda b: (a * b).sin().sum())(y))(x)
    numod.testing.assert_close(pairs, (x[:, None] * y).sin().sum(-1))
    slopes = 1 - func(x[0]).square()
    numod.testing.assert_close(jacrev(func)(x[0]), slopes[:, None] * w)
    numod.testing.assert_close(vmap(jacrev(func))(x), numod.stack([jacrev(func)(row) for row in x]))
    numod.testing.assert_close(
        vmap(hessian(lambda x: func(x).sum()))(x), numod.stack([hessian(lambda x: func(x).sum())(row) for row in x])
    )
    numod.testing.assert_close(
        vmap(lambda a, b: jvp(func, (a,), (b,))[1])(x, x), numod.stack([jvp(func, (row,), (row,))[1] for row in x])
    )
    output, pull_back = vjp(func, x[0])
    rows = numod.eye(4, dtype=x.dtype)
    numod.testing.assert_close(vmap(pull_back)(rows)[0], slopes[:, None] * w)
    assert len(once) > 10


def test_a_gradient_of_gradients_per_example() -> None:
    x, w = floats(SIZE, 4), floats(4, seed=1).requires_grad_()
    norms = vmap(grad(lambda x: (w * x).sin().sum()))(x).square().sum(1)
    (actual,) = numod.autograd.grad(norms.sum(), w)
    expected = w.detach().clone().requires_grad_()
    (expected_grad,) = numod.autograd.grad(((expected * x).cos() * expected).square().sum(), expected)
    numod.testing.assert_close(actual, expected_grad)


def test_functions_of_batched_values_are_called_per_example(once: list) -> None:
    x = floats(SIZE, 4)
    assert numod.equal(
        vmap(lambda x: x * 2 if x[0] > x.mean() else -x)(x),
        numod.stack([row * 2 if row[0] > row.mean() else -row for row in x]),
    )
    assert numod.equal(vmap(lambda x: x + float(x.sum()))(x), x + x.sum(1, keepdim=True))
    assert numod.equal(vmap(lambda x: numod.from_numpy(x.numpy() + 1))(x), x + 1)
    assert once == []
    seen = []
    vmap(lambda x: (seen.append(x), x)[1])(x)
    with pytest.raises(RuntimeError, match="a call of vmap that has ended; return it"):
        seen[0].sum().item()


def test_writes_to_arguments_reach_them() -> None:
    x = numod.zeros(SIZE, 2, 2)
    vmap(lambda x: x.add_(1))(x)
    vmap(lambda x: x[0].mul_(3), 1)(x)
    expected = numod.ones(SIZE, 2, 2)
    expected[0] = 3
    assert numod.equal(x, expected)
    other = numod.zeros(2, SIZE)
    vmap(lambda x: x.add_(1), 1)(other)
    assert numod.equal(other, numod.ones(2, SIZE))


def test_a_call_that_is_given_up_leaves_nothing_behind() -> None:
    x, count, weight = numod.zeros(SIZE, 2), numod.zeros(()), numod.zeros(2, requires_grad=True)
    scaled = weight * 1

    def step(x: numod.Tensor, number: numod.Tensor) -> numod.Tensor:
        x.add_(1)
        if number == 0:  # which differs: calls for each begin here
            return x
        count.add_(1)
        scaled.mul_(2)
        return -x

    def write(x: numod.Tensor, number: numod.Tensor) -> numod.Tensor:
        count.add_(1)
        scaled.mul_(2)
        return x if number > 1 else -x

    with pytest.raises(RuntimeError, match="called for each"):
        vmap(write)(x, numod.arange(SIZE))
    assert count == 0
    with pytest.raises(RuntimeError, match="called for each"):
        vmap(step)(x, numod.arange(SIZE))
    assert count == 0 and numod.equal(x, numod.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]))
    scaled.sum().backward()
    assert weight.grad.tolist() == [1.0, 1.0]


def test_backward_inside_adds_numbers_to_leaves() -> None:
    weight, x = numod.zeros(2, requires_grad=True), floats(SIZE, 2, dtype=numod.float32)
    scaled = weight * 2
    scaled.retain_grad()
    vmap(lambda x: ((scaled * x).sum().backward(), x)[1])(x)
    numod.testing.assert_close(weight.grad, 2 * x.sum(0))
    numod.testing.assert_close(scaled.grad, x.sum(0))
    x.requires_grad_()
    vmap(lambda x: ((3 * x).sum().backward(), x)[1])(x)
    numod.testing.assert_close(x.grad, 3 * numod.ones_like(x))
    x.grad = None
    vmap(lambda x: (tripled := x * 1, tripled.register_hook(lambda g: g * 3))[0])(x).sum().backward()
    numod.testing.assert_close(x.grad, 3 * numod.ones_like(x))
    vmap(lambda x: (doubled := x * 1, doubled.grad_fn.register_prehook(lambda g: (g[0] * 2,)))[0])(x).sum().backward()
    numod.testing.assert_close(x.grad, 5 * numod.ones_like(x))
    x = x.detach()
    gradients = vmap(lambda x: ((leaf := x.detach().requires_grad_()).square().sum().backward(), leaf.grad)[1])(x)
    numod.testing.assert_close(gradients, 2 * x)


@pytest.mark.parametrize(
    "x, dim",
    [(floats(1, 7).expand(SIZE, 7), 0), (floats(7, SIZE), 1), (floats(9, 20)[::3, 6::2], 0), (floats(9)[::3], 0)],
)
def test_parts_of_arguments_that_are_not_dense(x: numod.Tensor, dim: int) -> None:
    part = lambda x: x[1::2] if x.ndim else x.expand(4)[1:]  # noqa: E731
    assert numod.equal(vmap(part, dim)(x), in_turn(part, dim, x))
    image = lambda x: F.interpolate(x.reshape(1, 1, -1), size=9, mode="linear")  # noqa: E731
    assert numod.equal(vmap(image, dim)(x), in_turn(image, dim, x))


def test_unbatched_values_stay_unbatched() -> None:
    x = floats(SIZE, SIZE)  # of the batch's size, which could be taken for it
    for func in (
        lambda x: (numod.ones_like(x) * 2).sum(),
        lambda x: numod.ones_like(x).outer(x.new_ones(SIZE)) + x,
        lambda x: (numod.ones_like(x) + 1).max(0)[0],
    ):
        assert numod.equal(vmap(func)(x), in_turn(func, 0, x))
    assert numod.equal(
        vmap(hessian(lambda x, y: (x * y).sum()))(floats(4, 4), floats(4, 4)), numod.zeros(4, 4, 4, dtype=x.dtype)
    )


def test_complex_numbers_without_dimensions_do_not_widen_floats() -> None:
    x, y = numod.complex(floats(SIZE), floats(SIZE, seed=1)), floats(SIZE, 4, dtype=numod.float32)
    numod.testing.assert_close(vmap(lambda x, y: x * y)(x, y), in_turn(lambda x, y: x * y, 0, x, y))


def test_random_numbers_for_each_example_or_all(once: list) -> None:
    x = numod.ones(SIZE, 64)
    for draw in (
        lambda x: numod.rand(64) + 0 * x,
        lambda x: F.dropout(x),
        lambda x: numod.bernoulli(x / 2),
        lambda x: numod.poisson(x),
        lambda x: x.clone().normal_(),
    ):
        numod.manual_seed(0)
        same = vmap(draw, randomness="same")(x)
        different = vmap(draw, randomness="different")(x)
        assert numod.equal(same[0], same[1]) and not numod.equal(different[0], different[1])
        with pytest.raises(RuntimeError, match="randomness"):
            vmap(draw)(x)
    numod.manual_seed(0)
    once.clear()
    first, second = vmap(lambda x: (F.dropout(x), F.dropout(x)), randomness="different")(x)
    assert len(once) == 1 and not numod.equal(first[1], second[0])


def test_random_draws_into_tensors_of_the_caller() -> None:
    x, query = numod.ones(64), floats(8, 16)
    drawn = (
        lambda y: numod.normal(x, 1.0),
        lambda y: numod.normal(x + 0 * y, x),
        lambda y: F.scaled_dot_product_attention(query, query, query, query @ query.T > 0, 0.5),
    )
    for draw in drawn:
        same = vmap(draw, randomness="same")(floats(SIZE, 64))
        different = vmap(draw, randomness="different")(floats(SIZE, 64))
        assert same[0].equal(same[1]) and not different[0].equal(different[1])


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_gradients_of_dropout_take_the_numbers_of_the_result(randomness: str) -> None:
    def slope_and_value(x: numod.Tensor, y: numod.Tensor) -> tuple:
        return grad_and_value(lambda x: (F.dropout(x) * y).sum())(x)

    for x, y, in_dims in (
        (numod.ones(64), floats(SIZE, 64).float(), (None, 0)),
        (numod.ones(SIZE, 64), numod.ones(64), (0, None)),
    ):
        slopes, values = vmap(slope_and_value, in_dims, randomness=randomness)(x, y)
        numod.testing.assert_close(slopes.sum(1), values)
        assert (slopes[0] != 0).equal(slopes[1] != 0) == (randomness == "same")


class Doubled(Function):
    @staticmethod
    def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
        return 2.0 * x

    @staticmethod
    def backward(ctx: object, gradient: numod.Tensor) -> numod.Tensor:
        return numod.ones(64)


def _hooked(x: numod.Tensor) -> numod.Tensor:
    x.register_hook(lambda gradient: numod.ones(64))
    return x * 2.0


@pytest.mark.parametrize("after", [numod.Tensor.clone, Doubled.apply, _hooked], ids=["seed", "function", "hook"])
def test_gradients_of_dropout_of_what_is_the_same_for_all_take_the_numbers_of_the_result(after: Callable) -> None:
    def value_and_slope(x: numod.Tensor) -> tuple:
        _, pull_back, dropped = vjp(
            lambda x: (lambda dropped: (after(dropped), dropped))(F.dropout(x)), x, has_aux=True
        )
        return dropped, pull_back(numod.ones(64))[0]

    values, slopes = vmap(value_and_slope, randomness="different")(numod.ones(SIZE, 64))
    numod.testing.assert_close(slopes, values)
    assert not values[0].equal(values[1])


def test_a_generator_of_the_caller() -> None:
    x, generator = numod.ones(SIZE, 64), numod.Generator().manual_seed(0)
    for draw in (lambda x: numod.rand(64, generator=generator) + x, lambda x: x.clone().normal_(generator=generator)):
        before = generator.get_state()
        with pytest.raises(RuntimeError, match="randomness"):
            vmap(draw)(x)
        assert generator.get_state().equal(before)
        same, different = vmap(draw, randomness="same", chunk_size=2)(x), vmap(draw, randomness="different")(x)
        assert same[0].equal(same[1]) and same[0].equal(same[2]) and not different[0].equal(different[1])


def test_chunks_and_places_of_results(once: list) -> None:
    x = floats(4, 7, 2)
    whole = vmap(lambda x: (x.sum(0), x), 1, (0, 2))(x)
    parts = vmap(lambda x: (x.sum(0), x), 1, (0, 2), chunk_size=4)(x)
    numod.testing.assert_close(parts, whole)
    assert whole[1].shape == (4, 2, 7) and len(once) == 3
    assert vmap(lambda x: numod.ones(2))(x).shape == (4, 2)


def test_own_functions_and_modes(once: list) -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: object, g: numod.Tensor) -> numod.Tensor:
            return 3 * g * ctx.saved_tensors[0] ** 2

    x = floats(SIZE, 4)
    numod.testing.assert_close(vmap(grad(lambda x: Cube.apply(x).sum()))(x), 3 * x**2)
    with numod.no_grad():
        numod.testing.assert_close(vmap(grad(lambda x: (x**3).sum()))(x), 3 * x**2)
    assert len(once) == 2
    # gradients by what comes of it: its own
    for dims, leaf in ((0, x.clone().requires_grad_()), ((None, 0), x[0].clone().requires_grad_())):
        vmap(lambda x, y: Cube.apply(x) * y, dims)(leaf, x).sum().backward()
        expected = 3 * leaf.detach() ** 2 * x
        numod.testing.assert_close(leaf.grad, expected if dims == 0 else expected.sum(0))
    step = numod.compile(vmap(lambda x, y: (x * y).sum().exp()))
    for _ in range(2):
        numod.testing.assert_close(step(x, x), (x * x).sum(1).exp())
    half = x.half()
    numod.testing.assert_close(
        vmap(lambda x: (x @ x).sqrt())(half),
        numod.stack([(matrix @ matrix).sqrt() for matrix in half]),
        rtol=2e-3,
        atol=2e-3,
    )


def test_the_walk_to_some_inputs_computes_no_other_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = nn.Linear(4, 3), numod.randn(2, 4, requires_grad=True)
    numod.autograd.grad(layer(x).sum(), x)
    names: list[str] = []
    monkeypatch.setattr(numod.core.apply, "listeners", [lambda op, *rest: names.append(op.name)])
    monkeypatch.setattr(numod.core.listeners, "listeners", numod.core.apply.listeners)
    numod.autograd.grad(layer(x).sum(), x)
    assert "linear_gradient" not in names and names.count("matmul") == 1


def test_rows_of_gradients_at_once(once: list) -> None:
    x, y = floats(4).requires_grad_(), floats(4, seed=1).requires_grad_()
    (by_x, by_y) = numod.autograd.grad(
        x.sin() * 2, (x, y), numod.eye(4, dtype=x.dtype), is_grads_batched=True, allow_unused=True
    )
    assert by_y is None
    numod.testing.assert_close(by_x, numod.diag(2 * x.detach().cos()))
    for function, inputs in (
        (lambda x: x.tanh().outer(x), x.detach()),
        (lambda x, y: (x * y, y.sum()), (x.detach(), y.detach())),
    ):
        rows = numod.autograd.functional.jacobian(function, inputs, vectorize=True)
        numod.testing.assert_close(rows, numod.autograd.functional.jacobian(function, inputs))
    squares = numod.autograd.functional.hessian(lambda x: x.pow(3).sum() * x[0], x.detach(), vectorize=True)
    numod.testing.assert_close(squares, numod.autograd.functional.hessian(lambda x: x.pow(3).sum() * x[0], x.detach()))
    assert len(once) == 4


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: x.add_(y), lambda x, y: x.copy_(y), lambda x, y: x[0].copy_(y[0]), lambda x, y: numod.add(y, y, out=x), lambda x, y: x.t().mul_(y),
        lambda x, y: vmap(lambda z: x.add_(z))(y.expand(2, 2)),
    ],
)  # fmt: skip
def test_batched_writes_into_unbatched_tensors_are_refused(write: Callable) -> None:
    x, y = numod.ones(2), numod.arange(6.0).view(3, 2)
    for function, values in ((lambda y: write(x, y), (y,)), (write, (x, y))):
        with pytest.raises(RuntimeError, match="values that differ between examples cannot be written"):
            vmap(function, (None, 0)[-len(values) :])(*values)
    assert numod.equal(x, numod.ones(2)) and numod.equal(x.add_(1), numod.full((2,), 2.0))


def test_batched_writes_into_new_tensors() -> None:
    y = numod.arange(6.0).view(3, 2)
    assert numod.equal(vmap(lambda y: numod.ones(2).add_(y))(y), y + 1)


@pytest.mark.parametrize("size, chunk", [(1, None), (3, None), (4, 1)])
@pytest.mark.parametrize("reads", [False, True])
def test_writing_what_differs_to_what_all_share_is_refused_whatever_the_size(size, chunk, reads):
    # a batch of one was called without a batch, and functions that read a value for each example: both wrote in turn,
    # as PyTorch does not
    shared, batch = numod.zeros(3), numod.ones(size, 3)

    def write(x, y):
        if reads:
            y.sum().item()
        return x.add_(y)

    with pytest.raises(RuntimeError, match="in-place"):
        numod.vmap(lambda y: write(shared, y), chunk_size=chunk)(batch)
    with pytest.raises(RuntimeError, match="in-place"):
        numod.vmap(write, (None, 0), chunk_size=chunk)(shared, batch)
    assert shared.tolist() == [0, 0, 0]


@pytest.mark.parametrize("size", [1, 2])
def test_a_function_called_for_each_example_writes_to_its_own_and_to_what_it_makes(size):
    points = numod.arange(3.0 * size).reshape(size, 3)
    expected = (points * 2 + 1).sum(1)

    def write(y):
        made, empty, passed = numod.zeros(3), numod.empty(3), numod.tensor([1.0, 1.0, 1.0])
        y.numpy()
        made.add_(y)
        empty.copy_(y).view(3).mul_(0)
        y.add_(1)
        return (made + empty + passed.mul_(y)).sum()

    assert numod.equal(numod.vmap(write)(points), expected) and points[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("size", [1, 2])
def test_a_shared_tensor_is_not_made_random_for_each_example(size):
    shared, batch = numod.zeros(3), numod.zeros(size, 3)
    draw = lambda x, y: x.normal_() + y  # noqa: E731
    with pytest.raises(RuntimeError, match="in-place"):
        numod.vmap(draw, (None, 0), randomness="different")(shared, batch)
    with pytest.raises(RuntimeError, match="random"):
        numod.vmap(draw, (None, 0))(shared, batch)
    assert shared.tolist() == [0, 0, 0]
    result = numod.vmap(draw, (None, 0), randomness="same")(shared, batch)
    assert all(numod.equal(draw_, shared) for draw_ in result) and shared.abs().sum() > 0


def test_backward_for_each_example_adds_to_a_gradient_that_was_there():
    weight = numod.ones(3, requires_grad=True)
    weight.grad = numod.ones(3)

    def step(y):
        (weight * y).sum().backward()
        return y.detach()

    numod.vmap(step)(numod.ones(2, 3))
    assert weight.grad.tolist() == [3, 3, 3]
