"""Operations of tensors whose kernels a pack holds: arithmetic, reductions, losses, gradients, optimizers, data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numod
import numod.nn.functional as F
from numod import Tensor, nn
from numod.utils.data import DataLoader, TensorDataset

from .training import OPTIMIZERS, RARER_OPTIMIZERS

_SHAPES = ((16, 24), (512, 1024))  # small, for the serial kernels, and large, for those divided among threads
_FUNCTIONS = (
    "exp", "log", "sqrt", "rsqrt", "square", "tanh", "sigmoid", "relu", "sin", "cos", "abs", "neg", "erf", "log1p",
    "expm1", "reciprocal", "sign", "floor", "ceil", "round", "isnan", "isinf", "isfinite", "log2", "exp2",
    "logical_not",
)  # fmt: skip
_SMOOTH = _FUNCTIONS[:16]
_ACTIVATIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    F.silu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.softplus, F.elu, F.leaky_relu, F.hardswish, F.relu6,
    F.mish, F.selu, F.logsigmoid, F.hardtanh, lambda x: x.softmax(-1), lambda x: x.log_softmax(-1),
)  # fmt: skip


def _layouts(shape: tuple[int, int]) -> Iterator[Tensor]:
    """Positive numbers of a shape: dense, transposed, part of another; and a row, a column, a number expanded."""
    rows, columns = shape
    for dense in (numod.rand(shape), numod.rand(columns, rows).mT, numod.rand(rows, columns + 3)[:, 1:-2]):
        yield dense + 0.5 if dense.is_contiguous() else dense
    for size in ((columns,), (rows, 1), (1, 1)):
        yield numod.rand(size).add(0.5).expand(shape)


def _arithmetic() -> None:
    """Pairs of layouts, numbers on both sides, comparisons, and the same in place."""
    for shape in _SHAPES:
        layouts = list(_layouts(shape))
        for x in layouts[:4]:
            for y in (*layouts, x.reshape(-1)[0], 2.0, 2):
                (x + y, x - y, x * y, x / y, x > y, x < y, x == y, x != y, x >= y, x <= y)
                numbers = isinstance(y, (float, int))
                (y + x, y - x, y * x, y / x) if numbers else (numod.minimum(x, y), numod.maximum(x, y))
            for name in _FUNCTIONS:
                getattr(x, name)()
            for activation in _ACTIVATIONS:
                activation(x)
            (x**2, x**3, x**0.5, x.clamp(0, 1), x.clamp(min=0), x.clamp(max=1), x.clone(), x.contiguous())
            (numod.where(x > 0, x, 0.0), x.masked_fill(x > 0, 0.0), x.double(), x.long(), x.bool(), x.to(numod.int32))
            (x.lerp(x, 0.5), x.addcmul(x, x), x.addcdiv(x, x), x.nan_to_num(), x.tril(), x.triu(), x.flip(0))
        x, y = numod.rand(shape), numod.rand(shape)
        for other in (y, 2.0, y[0], y[:, :1], y.sum()):
            (x.add_(other), x.sub_(other), x.mul_(other), x.div_(other), x.copy_(y))
        (x.relu_(), x.clamp_(0, 1), x.zero_(), x.fill_(1), x.normal_(), x.uniform_(), x.exp_(), x.sigmoid_(), x.tanh_())
        (F.relu6(x, inplace=True), F.leaky_relu(x, 0.2, inplace=True), F.elu(x, inplace=True), F.silu(x, inplace=True))


def _integers() -> None:
    """Counts, labels and masks, in both places of an operation, and what floats become of them."""
    for shape in ((16,), (16, 24), (512, 1024)):
        x, y = numod.randint(0, 9, shape), numod.randint(1, 9, shape)
        for other in (y, 2, y[..., :1], y.sum()):
            (x + other, x - other, x * other, x // other, x % other, x == other, x != other, x < other, x > other)
            (x <= other, x >= other, x / other)
        (x.sum(), x.sum(-1), x.float(), x.double(), x.bool(), x.max(), x.min(), x.max(-1), x.argmax(-1), x.clamp(0, 3))
        (x.float().mean(), numod.cat([x, y]), numod.stack([x, y]), x.clone(), -x, x.abs(), x.clamp_max(3))
        (numod.where(x > 3, x, y), x.sort(-1), numod.bincount(x.reshape(-1)), x.unique(), x.cumsum(-1))
        mask = x > 3
        (mask & (y > 3), mask | (y > 3), ~mask, mask.sum(), mask.any(), mask.all(), mask.float(), mask.float().mean())
        (mask.any(-1), mask.all(-1), mask.nonzero(), mask.long())
        F.one_hot(x, 10).float()


def _reductions() -> None:
    for shape in (*_SHAPES, (3, 40), (2, 5)):
        for x in (numod.rand(shape), numod.rand(shape[::-1]).mT, numod.rand(shape).double()):
            for name in ("sum", "mean", "std", "var", "amax", "amin", "norm", "logsumexp"):
                reduce = getattr(x, name)
                (reduce(dim=0), reduce(dim=1), reduce(dim=1, keepdim=True), reduce(dim=(0, 1)))
            (
                x.sum(),
                x.mean(),
                x.max(),
                x.min(),
                x.std(),
                x.var(),
                x.norm(),
                x.argmax(),
                x.argmin(),
                x.prod(),
                x.prod(0),
                x.prod(1),
            )
            (x.max(0), x.max(1), x.min(1), x.argmax(0), x.argmax(1), x.argmin(1), x.median(), x.all(), x.any())
            (x.cumsum(0), x.cumsum(1), x.sort(1), x.topk(min(3, shape[1])), numod.isfinite(x).all(), x.count_nonzero())
    for count, sizes in product(range(1, 9), ((40,), (9, 32), (70, 128))):  # few rows are added in one loop
        (numod.rand(count, *sizes).sum(0), numod.rand(sizes[0], count).sum(1), numod.rand(sizes[0], count).mean(1))
    for shape in ((4, 8, 16), (16, 32, 64), (2, 3, 8, 8), (16, 32, 16, 16)):
        x = numod.rand(shape)
        for dims in ((0, 1), (-2, -1), (0, 2), (0, 2, 3)[: len(shape) - 1], -1, 1):
            (x.sum(dims), x.mean(dims), x.var(dims, keepdim=True), x.amax(dims))


def _joins_and_parts() -> None:
    """Tensors joined, cut, copied, gathered and scattered."""
    for shape in ((6,), (6, 10), (300, 400), (2, 6, 10), (8, 64, 96)):
        for count, make in product((2, 3, 4, 8, 9), (numod.rand, lambda size: numod.randint(0, 9, size))):
            parts = [make(shape) for _ in range(count)]
            (numod.stack(parts), numod.stack(parts, -1))
            for dim in range(len(shape)):
                numod.cat(parts, dim)
        x = numod.rand(shape)
        for dim in range(len(shape)):
            (
                x.narrow(dim, 1, 1).contiguous(),
                x.flip(dim),
                x.roll(1, dim),
                x.movedim(dim, 0).contiguous(),
                x.unbind(dim),
            )
            (numod.cat([x.narrow(dim, 0, 1), x.narrow(dim, 1, 1)], dim), x.repeat_interleave(2, dim))
            places = numod.randint(0, shape[dim], (2,))
            (x.index_select(dim, places), x.index_add(dim, places, x.narrow(dim, 0, 2)))
            index = numod.zeros(x.narrow(dim, 0, 1).shape, dtype=numod.int64)
            (x.gather(dim, index), x.scatter(dim, index, 1.0), x.scatter_add(dim, index, x))
        (x[numod.randint(0, shape[0], (5,))], x[x > 0.5], x.expand(2, *shape).contiguous(), F.pad(x, (1, 1)))
        y = x.clone()
        y[0], y[1:3], y[..., -1], y[y > 0.5] = 0.0, x[1:3], 1.0, 2.0
        (str(x), repr(x.long()), x.tolist())
    for shape in ((20, 30), (2, 20, 30), (2, 4, 20, 8), (8, 4, 64, 32)):
        x = numod.rand(shape)
        (x.mT.contiguous(), x.transpose(0, 1).contiguous(), x @ x.mT, x.mT @ x, x[:1] @ x.mT, x.tril(), x == 0)
        (x + x.mT[..., :1, :1], x * x[..., :1], x + x[..., :1, :], x.softmax(-1), x.softmax(-2))
    (
        numod.arange(9),
        numod.arange(9.0),
        numod.arange(0.0, 9.0),
        numod.arange(0, 1, 0.1),
        numod.linspace(0, 1, 9),
        numod.eye(9),
        numod.full((9,), 2.0),
    )
    (
        numod.randperm(9),
        numod.rand(9),
        numod.randint(0, 9, (9,)),
        numod.multinomial(numod.rand(9), 2),
        numod.ones(9).long(),
    )
    (
        numod.ones(9).long(),
        numod.multinomial(numod.rand(3, 9), 1),
        numod.bernoulli(numod.rand(3, 9)),
        numod.normal(0.0, 1.0, (3, 9)),
    )


def _losses() -> None:
    for shape in ((16, 10), (700, 90), (512, 512), (16, 1), (300,)):
        x, y = numod.randn(shape, requires_grad=True), numod.rand(shape)
        losses = [
            loss(x, y, reduction=reduction)
            for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits)
            for reduction in ("mean", "sum", "none")
        ]
        losses += [F.binary_cross_entropy(x.sigmoid(), y, reduction=reduction) for reduction in ("mean", "sum")]
        losses += [((x - y) ** 2).mean(), (x - y).square().sum(), (x - y).abs().mean(), x.softmax(-1).square().mean()]
        if len(shape) == 2 and shape[1] > 1:
            labels, scores = numod.randint(0, shape[1], shape[:1]), x.log_softmax(1)
            losses += [F.cross_entropy(x, labels, label_smoothing=s) for s in (0.0, 0.1)]
            losses += [F.cross_entropy(x, labels, reduction=reduction) for reduction in ("sum", "none")]
            losses += [
                F.nll_loss(scores, labels),
                F.nll_loss(scores, labels, reduction="sum"),
                -scores[range(4), labels[:4]].mean(),
            ]
            losses += [F.kl_div(scores, y, reduction="batchmean"), F.cross_entropy(x, y.softmax(1))]
        for loss in losses:
            loss.sum().backward(retain_graph=True)
    x, labels = numod.randn(4, 5, 8, 8, requires_grad=True), numod.randint(0, 5, (4, 8, 8))
    F.cross_entropy(x, labels).backward()


def _gradients() -> None:
    """Gradients of arithmetic and functions, over vectors of the same size, rows, columns and numbers."""
    for shape in _SHAPES:
        x = numod.rand(shape).add(0.5).requires_grad_()
        sizes = (shape, shape[1:], (shape[0], 1), (1,), ())
        others = [numod.rand(size).add(0.5).requires_grad_() for size in sizes]
        results = [
            result for other in (*others, 2.0) for result in (x + other, x - other, x * other, x / other, other - x)
        ]
        results += [
            pair for y in others for pair in (numod.minimum(x, y), numod.maximum(x, y), numod.where(x > 1, x, y))
        ]
        results += [getattr(x, name)() for name in _SMOOTH] + [activation(x) for activation in _ACTIVATIONS]
        results += [x**2, x**3, x**0.5, x.clamp(0.7, 1.2), x.clamp(min=1), x.clamp(max=1), 1 - x, 1 / x, x.detach() * x]
        results += [x.sum(0), x.sum(1), x.mean(0), x.mean(1), x.max(1).values, x.std(1), x.norm(), x.mT @ x, x @ x.mT]
        results += [x.var(0), x.amax(0), x.logsumexp(1), x.max(), x.prod(1), x.cumsum(1), x.std(), x.norm(dim=1)]
        results += [
            x[1:],
            x[:, 1:],
            x[:, 0],
            x[0],
            x.reshape(-1),
            x.mT.reshape(-1),
            numod.cat([x, x]),
            numod.stack([x, x]),
        ]
        results += [
            x.unsqueeze(1).expand(-1, 2, -1),
            x.gather(1, numod.zeros(shape[0], 1).long()),
            x.masked_fill(x > 1, 0.0),
        ]
        results += [
            x[numod.randint(0, shape[0], (5,))],
            x.index_select(0, numod.arange(3)),
            x.tril(),
            x.flip(0),
            F.pad(x, (1, 1)),
        ]
        for result in results:
            (result * 1.0).sum().backward(retain_graph=True)
            result.mean().backward(retain_graph=True)
            (result * result).sum().backward()


def _optimizers() -> None:
    """Updates of several parameters at once are kernels by their number."""
    for make in (*OPTIMIZERS, *RARER_OPTIMIZERS):
        for count in range(1, 9):
            for size in (8, 1 << 18):
                parameters = [nn.Parameter(numod.randn(size)) for _ in range(count)]
                optimizer = make(parameters)
                for _ in range(2):
                    for parameter in parameters:
                        parameter.grad = numod.ones(size)
                    optimizer.step()
                if make is OPTIMIZERS[0]:
                    (nn.utils.clip_grad_norm_(parameters, 1.0), nn.utils.clip_grad_value_(parameters, 1.0))


def _data() -> None:
    """Loaders, and what steps do besides: shuffled batches, clipped gradients, norms, schedules."""
    for count in (100, 4000):
        dataset = TensorDataset(numod.randn(count, 1, 8, 8), numod.randint(0, 10, (count,)))
        for x, labels in DataLoader(dataset, batch_size=50, shuffle=True):
            (x.float().div(255), F.one_hot(labels, 10), x.mean(), x.std(), (labels == 1).float().mean().item())
            break
        layer = nn.Linear(64, count)
        layer(x.flatten(1)).square().mean().backward()
        nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        for start in (
            nn.init.xavier_uniform_, nn.init.kaiming_normal_, nn.init.zeros_, nn.init.ones_, nn.init.normal_,
            nn.init.uniform_, nn.init.trunc_normal_, nn.init.kaiming_uniform_, nn.init.xavier_normal_,
        ):  # fmt: skip
            start(layer.weight)
    (nn.init.orthogonal_(numod.empty(16, 8)), nn.init.orthogonal_(numod.empty(8, 16)))
    bytes_ = numod.randint(0, 256, (50, 28, 28), dtype=numod.uint8)
    (bytes_.float() / 255, bytes_[numod.randperm(50)[:9]], (bytes_ > 127).float(), bytes_ / 255)


CASES: dict[str, Callable[[], None]] = {
    "optimizers": _optimizers, "losses": _losses, "gradients": _gradients, "arithmetic": _arithmetic,
    "integers": _integers, "reductions": _reductions, "joins and parts": _joins_and_parts, "data": _data,
}  # fmt: skip
