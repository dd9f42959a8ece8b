"""vmap calls a function once for all examples: results, gradients and nesting equal those of separate calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from selection import every

import numod
import numod.nn.functional as F
from numod import nn
from numod.autograd import Function
from numod.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vjp, vmap

from batches import SIZE, floats, indices, made


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


def combinations(count: int, sample: bool) -> list[tuple]:
    """Which arguments have examples: all of them and the last alone, or the others."""
    masks = {(1 << count) - 1, 1 << (count - 1)}
    masks = masks if sample else set(range(1, 1 << count)) - masks
    return [tuple(0 if mask >> k & 1 else None for k in range(count)) for mask in sorted(masks)]


SHARES = pytest.mark.parametrize("sample", [True, pytest.param(False, marks=pytest.mark.fuzz)])


@SHARES
@pytest.mark.parametrize("name", CASES)
def test_one_call_gives_what_calls_for_each_give(name: str, sample: bool, once: list) -> None:
    func, *shapes = CASES[name]
    for in_dims in combinations(len(shapes), sample):
        args = [x if dim == 0 else x[0] for x, dim in zip(made(shapes), in_dims)]
        expected = in_turn(func, in_dims, *args)
        once.clear()
        actual = vmap(func, in_dims)(*args)
        assert len(once) == (0 if in_dims[0] is None and name in WRITING else 1), in_dims
        numod.testing.assert_close(actual, expected, msg=lambda text: f"{in_dims}: {text}")  # noqa: B023


@SHARES
@pytest.mark.parametrize("name", every(2, CASES, others=pytest.mark.fuzz))
def test_gradients_inside_and_outside(name: str, sample: bool) -> None:
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
    for in_dims in combinations(len(shapes), sample):
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
