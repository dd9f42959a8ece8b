"""Shapes, indexing, creation and pointwise functions side by side with PyTorch: each case is an expression that both
libraries evaluate.

In a case `torch` is the library; `x` (3, 4), `y` (4,), `p` (3, 4, positive), `c` (2, 3, 4) are floating tensors that
need a gradient, `i` (3, 4) int64, `m` (3, 4) bool, `n` indices (3,) below 3. Values, dtypes, shapes, strides of views
and the gradients of the floating results are compared, or the exceptions' types.
"""

from __future__ import annotations

import numpy as np
import pytest

import numod

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch")

GENERATOR = np.random.default_rng(7)
ARRAYS = {
    "x": GENERATOR.standard_normal((3, 4)),
    "y": GENERATOR.standard_normal(4),
    "p": GENERATOR.uniform(0.2, 3.0, (3, 4)),
    "c": GENERATOR.standard_normal((2, 3, 4)),
    "i": GENERATOR.integers(-5, 9, (3, 4)),
    "j": GENERATOR.integers(1, 5, (3, 4)),
    "m": GENERATOR.integers(0, 2, (3, 4)).astype(bool),
    "n": np.array([2, 0, 2]),
    "k": GENERATOR.integers(0, 3, (2, 4)),
    "z": np.array(1.5),
}

ARRANGEMENT = """
torch.tile(x, (2,)) | x.tile(2, 1, 3) | torch.tile(x, (2, 3)) | torch.tile(z, (2,)) | x.repeat(2, 2) | torch.repeat_interleave(x, 2)
torch.repeat_interleave(x, 3, dim=1)
x.repeat_interleave(n, dim=0) | torch.repeat_interleave(n) | x.repeat_interleave(torch.tensor([1, 0, 2]), 0)
x.repeat_interleave(torch.tensor([2]), 1) | x.repeat_interleave(n, 1)
x.repeat_interleave(n, 0, output_size=4) | x.repeat_interleave(-1) | torch.repeat_interleave(torch.tensor([1.0]))
x.repeat_interleave(torch.tensor([1, -1, 0]), 0)
torch.roll(x, 1) | torch.roll(x, (1, -2), (0, 1)) | torch.roll(x, 5, 1) | torch.roll(x, (1, 2), 0) | torch.rot90(x) | torch.rot90(x, 2)
torch.rot90(x, -1, (1, 0)) | torch.rot90(x, 4)
torch.rot90(c, 1, (0, 2)) | torch.rot90(y) | torch.rot90(x, 1, (0, 0)) | torch.flip(x, (0, 1)) | torch.flip(c, [1]) | torch.fliplr(x)
torch.flipud(y) | torch.fliplr(y) | torch.flip(x, (0, 0))
torch.meshgrid(y, n.to(y.dtype), indexing='ij') | torch.meshgrid(y, y * 2, indexing='xy') | torch.meshgrid(y, z, y, indexing='xy')
torch.meshgrid(x, y, indexing='ij')
torch.meshgrid([y, y], indexing='ab') | torch.meshgrid(y, n, indexing='ij') | torch.cartesian_prod(y, y) | torch.cartesian_prod(y)
torch.combinations(y) | torch.combinations(y, 3, True)
torch.combinations(y, 0) | torch.combinations(x) | x.unfold(0, 2, 1) | x.unfold(1, 3, 1) | c.unfold(2, 2, 2) | z.unfold(0, 1, 1) | x.unfold(0, 5, 1)
x.unfold(0, 2, 0)
torch.as_strided(x, (2, 2), (1, 2), 1) | torch.as_strided_scatter(x.detach(), x[:2, :2], (2, 2), (1, 2), 1) | torch.split(x, 2)
torch.split(x, [1, 2]) | torch.split(x, [1, 1]) | x.split_with_sizes([1, 2])
torch.tensor_split(x, 2) | torch.tensor_split(x, 3, dim=1) | torch.tensor_split(x, (1, 2), 1) | torch.tensor_split(x, torch.tensor([1, 2]))
torch.tensor_split(x, (2, 1), 1) | x.tensor_split((1, -1), 1)
torch.tensor_split(x, 0) | torch.tensor_split(z, 1) | torch.tensor_split(x, 7) | torch.hsplit(x, 2) | torch.hsplit(y, [1, 3]) | x.hsplit(3)
torch.vsplit(x, 3) | torch.vsplit(y, 2) | torch.dsplit(c, 2) | torch.dsplit(x, 2)
x.chunk(2, 1) | x.chunk(5) | x.chunk(0) | torch.stack((x, x), -1) | torch.hstack((x, x)) | torch.hstack((y, y)) | torch.hstack([z, z])
torch.vstack((y, x)) | torch.row_stack((y, y))
torch.dstack((x, x)) | torch.dstack((y, y)) | torch.column_stack((y, y)) | torch.column_stack((x, n.to(x.dtype))) | torch.column_stack((x[:, 0], x))
torch.vstack((z, z)) | torch.hstack((x, y)) | torch.hstack([])
torch.atleast_1d(z) | torch.atleast_2d(y) | torch.atleast_3d(x) | torch.atleast_3d(z, y, x, c) | torch.atleast_2d([z, y]) | torch.atleast_3d(y)
torch.block_diag(x, y, z) | torch.block_diag() | torch.block_diag(c)
torch.broadcast_tensors(x, y) | torch.broadcast_to(y, (2, 4)) | torch.broadcast_to(y, (2, 5)) | torch.broadcast_shapes((2, 1), (3,))
torch.broadcast_shapes((2,), (3,)) | torch.broadcast_shapes(2, (3, 1))
x.movedim(0, 1) | c.moveaxis((0, 1), (2, 0)) | c.swapaxes(0, 2) | c.swapdims(0, 1) | x.adjoint() | y.adjoint() | x.mH | c.mT | x.unflatten(1, (2, -1))
x.unflatten(1, (3, 2)) | torch.unflatten(x, -1, (2, 2)) | x.ravel()
x.narrow_copy(1, 1, 2) | x.narrow(0, 1, 3) | x.expand(2, 3, 4) | x.view_as(i) | torch.positive(x) | torch.positive(m) | x.diagonal(1)
x.view(torch.int64) | x.detach().to(torch.float32).view(torch.int32) | x.detach().view(torch.int32) | y.detach().view(torch.uint8)
x.detach().to(torch.int8).view(torch.int32) | y.detach()[1:].to(torch.int16).view(torch.int32) | x.is_same_size(i)
torch.unravel_index(torch.tensor([5, 11]), (3, 4)) | x.sum_to_size(1, 4)
"""

INDEXING = """
x[1] | x[-1] | x[:, 1] | x[::2] | x[..., 0] | x[None] | x[:, None, 1] | x[1, 2] | x[m] | x[m, None] | x[n] | x[n, 1] | x[[0, 2]] | x[[0, 2], [1, 3]]
x[range(2)] | x[(0, 1),] | x[np.array([1, 0])] | x[n, None, 1:3] | x[n.to(torch.int32)] | x[n.to(torch.int16)]
x[n.to(torch.uint8)] | x[True] | x[False] | x[None, True] | x[torch.tensor(True)] | x[torch.tensor(1)] | x[torch.tensor([[0, 1], [2, 0]])]
c[n[:2], :, n[:2]] | c[:, n, n] | c[:, n, 1] | c[0, :, n] | c[..., n] | c[None, n[:1], ...] | c[:, m[:, 0]] | c[:, m] | x[m[:, 0], 1:]
x[::-1] | x[5] | x[0, 0, 0] | x[7:] | x[1:1] | x[2:1] | x['a'] | x[1.0] | x[[5]] | x[n, n, n] | x[torch.tensor([0.5])] | z[()] | z[...] | z[None]
z[0] | z[True] | x[m[:2]] | x[..., ...] | x[[True, False, True]] | x[[[0, 1], [1, 0]]] | x[1:, [0, 0]] | x[-2:, -3:-1] | c[1, ..., [0, 1]]
c[[1, 0], ..., [0, 1]]
torch.take(x, n) | x.take(torch.tensor([[0, -1], [11, 5]])) | x.take(torch.tensor([12])) | torch.take_along_dim(x, i.argsort(1), 1)
torch.take_along_dim(x, n[:, None], 1) | torch.take_along_dim(x, n) | torch.take_along_dim(x, n, 1)
torch.take_along_dim(x, n.to(torch.int32)[:, None], 1)
torch.gather(x, 0, k) | torch.gather(x, 1, k) | torch.gather(x, 0, torch.tensor([[3]])) | torch.gather(z, 0, torch.tensor(0)) | torch.gather(x, 0, n)
x.index_select(1, n) | torch.index_select(z, 0, torch.tensor([0])) | x.index_select(0, k) | x.index_select(0, torch.tensor(1))
x.index_select(0, torch.tensor([3]))
x.index_fill(0, n, 7.5) | x.index_fill(0, n, z.detach()) | x.index_fill(1, torch.tensor(1), 2) | x.index_add(0, n, x, alpha=2)
x.index_copy(1, n, x[:, :3]) | x.index_add(0, n, x[:2]) | z.index_fill(0, torch.tensor([0]), 2.0) | z.index_add(0, torch.tensor([0]), y[:1])
z.index_copy(0, torch.tensor([0]), y[0])
x.scatter(0, k, x[:2]) | x.scatter(0, k, 2.5) | x.detach().scatter(0, k, 2.5, reduce='multiply') | x.scatter(dim=0, index=k, value=1.0)
x.detach().scatter(0, k, x.detach()[:2], reduce='add') | x.scatter(0, k, x[:1]) | x.scatter(0, k + 9, 1.0) | x.scatter_add(0, k, x[1:])
x.scatter(1, k, p) | x.detach().scatter(0, k, 1.0, reduce='max')
x.scatter_reduce(0, k, p[:2], 'sum') | x.scatter_reduce(0, k, p[:2], 'sum', include_self=False) | x.scatter_reduce(0, k, p, 'prod')
x.scatter_reduce(0, k, p[:2], 'prod', include_self=False) | x.scatter_reduce(0, k, p, 'mean') | x.scatter_reduce(0, k, p, 'mean', include_self=False)
x.scatter_reduce(0, k, p, 'amax')
x.scatter_reduce(0, k, p, 'amin', include_self=False) | x.scatter_reduce(0, k, -p[:2], 'amax', include_self=False)
x.scatter_reduce(1, k[:, :3], p, 'amax') | i.scatter_reduce(0, k, i, 'mean') | i.scatter_reduce(0, k, j, 'amin', include_self=False)
(x * 0).scatter_reduce(0, k, p, 'prod') | x.scatter_reduce(0, k, x[:2] * torch.tensor([[0.], [1.]]).to(x.dtype), 'prod')
(x * 0 + 1).scatter_reduce(0, k, p * 0 + 1, 'amax')
x.index_reduce(0, n, p, 'prod') | x.index_reduce(0, n, p, 'mean') | x.index_reduce(0, n, p, 'amax', include_self=False)
x.index_reduce(1, n, p[:, :3], 'amin') | x.index_reduce(0, n, p, 'sum') | x.index_reduce(0, n, p[:2], 'prod')
x.masked_scatter(m, p) | x.masked_scatter(m[0], p) | x.masked_scatter(m, p[0, :1]) | x.masked_scatter(i, p) | torch.masked_select(x, m)
torch.masked_select(x, m[0]) | torch.masked_select(x, i) | x.masked_fill(m, 2) | x.masked_fill(m, z) | x.masked_fill(i, 2) | torch.where(m, x, y)
torch.where(m, 1, x) | torch.where(m, 1.0, 2) | torch.where(m, 1, 2) | torch.where(m) | torch.where(m, i, x) | torch.where(i, x, x)
torch.where(m, x, 2.5) | x.where(m, 0) | torch.where(m, i, 1.5) | torch.where(m, True, False)
torch.nonzero(i > 0) | torch.argwhere(m) | i.nonzero(as_tuple=True) | torch.nonzero(z) | torch.nonzero_static(m, size=3)
torch.nonzero_static(m, size=14, fill_value=7)
x.put(n, y[:3]) | x.put(n, y[:3], accumulate=True) | x.put(n, y) | x.put(torch.tensor([12]), y[:1]) | x.t().put(n, y[:3])
torch.index_put(x, (n,), y) | torch.index_put(x, (n, n), y[:3], accumulate=True) | torch.index_put(x, (m,), z)
torch.select_scatter(x, y, 0, 1) | torch.select_scatter(x, y, 1, 0) | torch.slice_scatter(x, x[:2] * 2, start=1)
x.slice_scatter(x[:, :2], 1, 0, 4, 2) | torch.diagonal_scatter(x, y[:3]) | x.diagonal_scatter(y[:2], -1) | torch.diagonal_scatter(x, y)
"""

WRITES = """
x[1] = 2 | x[m] = 5 | x[m] = y[0] | x[n] = y | x[:, 1] = y[:3] | x[...] = 1.5 | x[n, n] = torch.ones(3).to(x.dtype) | x[None] = y | x[0, 0] = z
x[True] = 3 | x[False] = 3 | x[[0, 1]] = y | x[n.to(torch.int32)] = 7 | x[1:1] = y | x[np.array([0, 2])] = 0 | x[:, n] = p[:, :3] | x[0] = x[1]
x[5] = 1 | x[::-1] = 1 | x[0] = torch.ones(3) | x[m] = torch.ones(99) | x[1] = i[1]
x.t_() | x.transpose_(0, 1) | x.swapaxes_(0, 1) | x.swapdims_(-1, 0) | x.unsqueeze_(1) | x.unsqueeze_(0).squeeze_() | x.squeeze_(0)
x.as_strided_((2, 2), (1, 2)) | x.resize_(2, 6) | x.resize_((2, 2)) | x.resize_as_(y) | x.resize_(-1) | x.fill_diagonal_(3) | c.transpose_(0, 5)
c.t_()
x.set_(y) | x.set_() | x.set_(i) | x.apply_(lambda v: v * 2) | x.map_(p, lambda a, b: a + b) | x.put_(n, y[:3]) | x.masked_scatter_(m, p)
x.index_put_((n,), y, accumulate=True) | x.scatter_reduce_(0, k, p, 'amax') | x.index_reduce_(0, n, p, 'prod') | x.nan_to_num_()
x.index_fill_(0, n, 2) | x.scatter_(0, k, 1.0) | x.scatter_(0, k, 2.0, reduce='multiply')
x.eq_(p) | x.ne_(0) | x.lt_(p) | x.le_(0) | x.gt_(p) | x.ge_(0) | x.less_(0) | x.greater_equal_(p) | x.not_equal_(p) | i.logical_not_()
i.logical_and_(m) | i.logical_or_(m) | i.logical_xor_(m) | i.eq_(2) | i.bitwise_and_(6) | i.bitwise_left_shift_(2) | i.bitwise_not_() | i.gcd_(j)
i.lcm_(j) | x.subtract_(p) | x.divide_(p) | x.true_divide_(p) | x.divide_(p, rounding_mode='floor') | x.subtract_(p, alpha=2) | i.true_divide_(2)
p.digamma_() | p.lgamma_() | p.i0_() | p.polygamma_(1) | p.mvlgamma_(1) | p.nextafter_(x) | x.ldexp_(j) | p.float_power_(2) | x.xlogy_(p)
x.clip_(0, 1) | x.clamp_(p * -1, p) | x.fix_() | i.sgn_() | x.arctan2_(p) | x.float_power_(x * 0 + 2) | x.clamp_(min=p) | x.clamp_() | x.negative_()
x.floor_divide_(p) | x.remainder_(p) | x.fmod_(p) | x.pow_(2) | x.lerp_(p, 0.5) | x.addcmul_(p, p, value=2) | x.addcdiv_(p, p) | x.heaviside_(p)
x.copysign_(p) | x.hypot_(p) | x.square_() | x.round_(decimals=1) | x.trunc_() | x.logit_(0.1) | x.sinc_() | x.addcmul_(p, p) | x.renorm_(2, 0, 1.0)
"""

POINTWISE = """
torch.special.erf(x) | torch.special.erfc(x) | torch.special.erfcx(x) | torch.special.erfinv(x / 9) | torch.special.ndtr(x)
torch.special.log_ndtr(x) | torch.special.ndtri(p / 4) | torch.lgamma(x) | torch.special.gammaln(p) | torch.digamma(x) | torch.special.psi(p)
torch.polygamma(1, x) | p.polygamma(3) | torch.polygamma(0, p) | torch.polygamma(-1, p) | torch.mvlgamma(p + 2, 3)
torch.special.multigammaln(p + 1, 2) | p.mvlgamma(0) | torch.digamma(i) | torch.lgamma(j)
torch.i0(x) | torch.special.i0e(x) | torch.special.i1(x) | torch.special.i1e(x) | torch.special.i0(i) | torch.sinc(x) | torch.xlogy(x, p)
torch.xlogy(2, p) | torch.xlogy(x, 3) | torch.special.xlog1py(x, p) | torch.special.xlog1py(2.0, p) | torch.special.expit(x) | torch.logit(p / 4)
torch.logit(x, eps=0.1) | torch.special.entr(p) | torch.special.zeta(j + 1.5, p.detach()) | torch.special.zeta(3.0, p) | torch.igamma(p.detach(), p)
torch.special.gammaincc(p.detach(), p) | torch.special.gammainc(j.double(), p)
torch.logaddexp(x, p) | torch.logaddexp2(x, p) | torch.exp2(x) | torch.special.exp2(i) | torch.expm1(x) | torch.log1p(p) | torch.special.softmax(x, 1)
torch.special.log_softmax(x, 0) | torch.special.logsumexp(x, 1) | torch.special.round(x * 10, decimals=0) | torch.special.bessel_j0(x.detach())
torch.special.bessel_y1(p.detach()) | torch.special.modified_bessel_k0(p.detach()) | torch.special.scaled_modified_bessel_k1(p.detach())
torch.special.modified_bessel_i1(x.detach())
i & 6 | 6 & i | i | m | ~i | ~m | i ^ 5 | 5 ^ i | j << 2 | 2 << j | i >> 1 | 100 >> j | m & m | m | False | True ^ m | x & 1 | i & 1.5 | m & 1
i << 1.5 | torch.bitwise_and(i, j) | torch.bitwise_and(3, i) | torch.bitwise_not(x) | torch.bitwise_left_shift(i, 2)
torch.bitwise_right_shift(64, j) | i.to(torch.uint8) >> 1 | i.to(torch.int8) << 3
i // j | i // -j | -i // 3 | 7 // j | 7 // -j | i % j | i % -j | -7 % j | i % -3 | x // p | x // -p | x % p | -x % p | 5.5 % p | 2.5 // p | x % -2
x // 0 | x % 0 | i // 0 | i % 0 | i / 0 | torch.fmod(x, p) | torch.fmod(i, -3) | torch.fmod(i, 0) | torch.remainder(i, -3) | torch.remainder(7, j)
torch.div(i, j, rounding_mode='trunc') | torch.div(-x, p, rounding_mode='trunc') | torch.div(x, p, rounding_mode='floor')
torch.div(i, j, rounding_mode='up') | torch.true_divide(i, j) | i.to(torch.uint8) % 3 | m // m | m + m | m - m | -m | m * 2.5 | i + True
torch.floor_divide(i, 2.5) | 2 ** j | 2.0 ** x | i ** 2 | i ** -1 | j ** 0.5 | x ** 3 | p ** x | torch.pow(2, j) | torch.pow(i, j) | (-2) ** x
torch.nextafter(x, p) | torch.nextafter(x.detach().half(), p.detach().half()) | torch.nextafter(x.detach().half() * 0, x.detach().half())
torch.nextafter(x.detach().bfloat16(), p.detach().bfloat16()).float() | torch.nextafter(i, i) | torch.copysign(x, p) | torch.copysign(x, -1)
torch.copysign(i, -1.0) | torch.ldexp(x, j) | torch.ldexp(i, j) | torch.frexp(x) | torch.frexp(i) | torch.frac(x) | torch.hypot(x, p)
torch.gcd(i, j) | torch.lcm(i, j) | torch.gcd(i, torch.tensor(6)) | torch.gcd(x, p) | torch.float_power(x, 2) | torch.float_power(2, j)
torch.float_power(i, p) | x.float_power(j) | torch.nan_to_num(x / 0) | torch.nan_to_num(i)
torch.mul(input=x, other=p) | torch.eq(x, other=p) | torch.exp(input=x) | torch.mul(x, alpha=2) | torch.selu(x) | torch.celu(x, 0.5)
torch.hardshrink(x) | x.hardshrink(0.7) | torch.fill(x, 2.5) | torch.detach(x) | torch.selu_(x * 1) | torch.celu_(x * 1, alpha=2.0)
torch.clamp(x, p * -1, p) | torch.clamp(x, min=p) | torch.clamp(x, max=0.5) | torch.clamp(x) | torch.clip(x, -0.1, 0.1) | x.clamp(1, 0)
torch.clamp(i, 0, 2.5) | torch.clamp(i, min=j) | torch.clamp_min(x, 0) | torch.addcmul(x, p, p, value=0.5) | torch.addcdiv(x, p, p)
torch.addcdiv(i, i, j) | torch.lerp(x, p, p) | torch.lerp(x, p, 0.3) | torch.sgn(x.detach()) | torch.sign(i) | torch.signbit(x)
torch.heaviside(x, p.detach()) | torch.isreal(x) | torch.isposinf(x / 0) | torch.square(i) | torch.rsqrt(p) | torch.rsqrt(j) | torch.rsub(x, p)
torch.rsub(x, 2, alpha=3) | torch.angle(x) | torch.angle(i) | torch.conj(x) | torch.real(x) | torch.imag(x) | torch.resolve_conj(x) | torch.is_conj(x)
torch.result_type(i, 1.5) | torch.result_type(x, i) | torch.threshold(x, 0.1, 5.0) | torch.logical_and(x, m) | torch.logical_not(i)
torch.isclose(x, x + 1e-9) | torch.trunc(x) | torch.fix(x) | torch.deg2rad(i)
"""

CREATION = """
torch.linspace(0, 1, 5) | torch.linspace(0, 10, 4, dtype=torch.int64) | torch.linspace(1, 1, 1) | torch.linspace(0, 1, 0) | torch.linspace(0, 1, -1)
torch.linspace(torch.tensor(0.), torch.tensor(2.), 3) | torch.linspace(5, -3, 6, dtype=torch.int32) | torch.logspace(0, 2, 3)
torch.logspace(0, 3, 4, base=2) | torch.logspace(0, 3, 4, 2.0, dtype=torch.int64) | torch.logspace(-1, 1, 5, dtype=torch.float64)
torch.linspace(0, 1, 3, requires_grad=True)
torch.arange(5) | torch.arange(1, 5) | torch.arange(1, 6, 2) | torch.arange(0, 1, 0.25) | torch.arange(5.) | torch.arange(5, 0, -2)
torch.arange(0, 5, 0) | torch.arange(0, -5) | torch.arange(3, dtype=torch.float64) | torch.arange(start=1, end=4) | torch.arange(end=3)
torch.arange(0, float('inf')) | torch.arange(torch.tensor(3)) | torch.range(0, 3) | torch.range(0, 1, 0.5)
torch.eye(3) | torch.eye(2, 3, dtype=torch.int64) | torch.eye(0) | torch.eye(-1) | torch.full((2, 3), 1.5) | torch.full((2,), 3)
torch.full((2,), True) | torch.full((2,), 2.5, dtype=torch.int64) | torch.full((), 1) | torch.full([2], torch.tensor(2.))
torch.zeros(2, 3, dtype=torch.bool) | torch.ones((2,), layout=torch.strided, device='cpu', pin_memory=False) | torch.zeros(size=(2, 2))
torch.ones(size=(2,)) | torch.zeros(-1) | torch.zeros('a') | torch.zeros(2, 3.0) | torch.zeros([])
torch.zeros_like(x) | torch.ones_like(x.t()) | torch.full_like(x, 2, dtype=torch.int32) | torch.full_like(i, 2.5)
torch.zeros_like(c, memory_format=torch.contiguous_format) | torch.zeros_like(x, layout=torch.strided) | torch.ones_like(m)
torch.zeros_like(x.expand(2, 3, 4))
x.new_full((2,), 3) | x.new_zeros(2, 3) | x.new_zeros((2,), dtype=torch.int64) | x.new_ones([2, 2], requires_grad=True) | x.new_tensor([1, 2])
i.new_tensor([1.5]) | x.new_full((2,), 1.5, requires_grad=True) | x.new_full(size=(2,), fill_value=1.0) | i.new_ones(2) | x.new_zeros(size=(3,))
x.new([1, 2])
torch.FloatTensor([1, 2]) | torch.LongTensor([[1, 2]]) | torch.FloatTensor(0) | torch.BoolTensor([True]) | torch.ByteTensor([1, 255])
torch.DoubleTensor([1.5]) | torch.LongTensor([1.7]) | torch.Tensor([1, 2]) | torch.Tensor(0) | torch.IntTensor() | torch.Tensor([[1.5]])
torch.FloatTensor(2, 0) | isinstance(x, torch.DoubleTensor) | isinstance(x, torch.FloatTensor) | x.type(torch.FloatTensor) | torch.HalfTensor([1.5])
torch.frombuffer(bytearray(b'12345678'), dtype=torch.int32) | torch.frombuffer(bytearray(b'12345678'), dtype=torch.uint8, count=3, offset=2)
torch.frombuffer(bytearray(b'123'), dtype=torch.int32) | torch.frombuffer(bytearray(b''), dtype=torch.int32)
torch.frombuffer(bytearray(b'1234'), dtype=torch.uint8, offset=9) | torch.empty_strided((2, 3), (1, 2)).stride() | torch.empty_strided((2,), (1, 2))
torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride() | torch.scalar_tensor(2) | torch.asarray([1, 2]) | torch.tensor([1.5], pin_memory=False)
torch.as_tensor([1, 2], dtype=torch.float64) | torch.clone(x, memory_format=torch.contiguous_format) | x.t().clone().stride()
x.t().contiguous(memory_format=torch.contiguous_format)
c[None].contiguous(memory_format=torch.channels_last)
c[None].contiguous(memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)
c.contiguous(memory_format=torch.channels_last) | c[None].to(memory_format=torch.channels_last).stride()
torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride() | c[None].to(torch.float32, memory_format=torch.channels_last)
c.is_contiguous(memory_format=torch.channels_last)
x.element_size() | x.nbytes | x.is_cpu | x.is_sparse | x.is_meta | x.is_quantized | x.get_device() | x.is_pinned() | x.untyped_storage().nbytes()
len(x.untyped_storage()) | x.is_set_to(x) | x.dense_dim() | x.is_same_size(y) | str(x.layout).replace('torch.', 'numod.') | x.view(3, 2, 2).shape
torch.can_cast(torch.float32, torch.int64)
torch.normal(0.0, 1.0, (2, 3)).shape | torch.normal(x, p).shape | torch.normal(x, 1.0).shape | torch.normal(2.0, p).dtype == torch.float64
torch.normal(0.0, -1.0, (2,)) | torch.randint(5, (2, 3)).shape | torch.randint(2, 5, (2,), dtype=torch.int32).dtype == torch.int32
torch.randint(5, 2, (2,)) | torch.rand(2, 3, generator=torch.Generator()).shape | torch.rand(2, out=torch.empty(0)).shape
torch.randn((2, 2), dtype=torch.float64).shape | torch.randint(low=3, high=4, size=(2,)) | torch.randn(size=(2, 3)).shape
torch.hann_window(7) | torch.hann_window(6, False) | torch.hamming_window(5) | torch.hamming_window(5, False, 0.6)
torch.blackman_window(8, periodic=False, dtype=torch.float64) | torch.bartlett_window(5) | torch.bartlett_window(4, False, dtype=torch.float64)
torch.kaiser_window(6) | torch.kaiser_window(6, False, 5.0) | torch.hann_window(0) | torch.hann_window(1) | torch.hann_window(-1)
torch.hann_window(3, dtype=torch.int64)
torch.multinomial(p.detach(), 3).shape | torch.multinomial(p.detach()[0], 9, replacement=True).shape | torch.multinomial(p.detach(), 5)
torch.multinomial(x.detach(), 2) | torch.multinomial(torch.tensor([0., 1., 0.]), 4, True) | torch.multinomial(torch.tensor([0., 0.]), 1)
torch.multinomial(torch.tensor([1., 0.]), 2) | torch.multinomial(i, 1) | torch.multinomial(c.detach().abs(), 1)
"""

OUT = """
torch.exp(x, out=o) | torch.add(x, p, out=o) | torch.take(x, n, out=o) | torch.gather(x, 0, k, out=o) | torch.hstack((x, x), out=o)
torch.index_select(x, 0, n, out=o) | torch.nonzero(x, out=torch.empty(0, dtype=torch.int64)) | torch.masked_select(x, m, out=o)
torch.cat((x, x), out=o) | torch.stack((x, x), out=o) | torch.where(m, x, p, out=o) | torch.sum(x, 0, out=o) | torch.mean(x, 1, out=o)
torch.matmul(x, x.t(), out=o) | torch.cumsum(x, 0, out=o) | torch.ones(3, out=o) | torch.arange(4, out=o) | torch.linspace(0, 1, 3, out=o)
torch.full((2,), 3.0, out=o) | torch.eye(2, out=o) | torch.zeros(2, out=o)
torch.special.erfcx(x, out=o) | torch.special.zeta(j.double(), p, out=o) | torch.polygamma(1, p, out=o) | torch.nan_to_num(x, out=o)
torch.bitwise_not(i, out=torch.empty(0, dtype=torch.int64)) | torch.logit(p / 4, out=o) | torch.eq(x, p, out=torch.empty(0, dtype=torch.bool))
torch.frexp(x, out=(o, torch.empty(0, dtype=torch.int32))) | torch.scatter(x, 0, k, 1.0, out=o) | torch.index_add(x, 0, n, p, out=o)
torch.isposinf(x, out=torch.empty(0, dtype=torch.bool)) | torch.softmax(x, 1, out=o) | torch.amax(x, 0, out=o)
torch.any(m, 0, out=torch.empty(0, dtype=torch.bool)) | torch.exp(x, out=torch.empty(0, dtype=torch.int64))
torch.argmax(x, 0, out=torch.empty(0, dtype=torch.int64)) | torch.float_power(x, 2, out=o) | torch.ldexp(x, j, out=o)
torch.mvlgamma(p + 1, 2, out=o) | torch.round(x, decimals=1, out=o) | torch.std(x, 0, out=o) | torch.logsumexp(x, 0, out=o) | torch.roll(x, 1)
torch.prod(x, 0, out=o) | torch.norm(x, 2, 0, out=o) | torch.mm(x, x.t(), out=o) | torch.clamp(x, 0, 1, out=o) | torch.lerp(x, p, 0.5, out=o)
"""


def cases(text):
    """The expressions of a text.

    (A single | of Python stands between a name and a number or name: those are joined again.)
    """
    words = [word.strip() for line in text.strip().splitlines() for word in line.split(" | ")]
    joined = []
    for word in words:
        if word in ("m", "i", "False"):
            joined[-1] += f" | {word}"
        else:
            joined.append(word)
    return joined


def inputs(library, grad=True):
    made = {name: library.tensor(array) for name, array in ARRAYS.items()}
    for value in made.values():
        value.requires_grad_(grad and value.is_floating_point())
    return {**made, "torch": library, "np": np, "o": library.empty(0, dtype=library.float64)}


def flattened(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def evaluated(library, expression, write=False, grad=True):
    """What an expression gives, or the type of exception, and the gradients of the inputs.

    A write is made on copies, which are the result.
    """
    names = inputs(library, grad)
    leaves = {name: value for name, value in names.items() if hasattr(value, "requires_grad") and value.requires_grad}
    if write:
        names |= {name: value.clone() for name, value in names.items() if name in ARRAYS}
        target = names[expression[0]]
    try:
        if write:
            exec(expression, names)
            result = target
        else:
            result = eval(expression, names)
    except Exception as error:
        return type(error), [], {}
    return None, flattened(result), gradients_of(library, flattened(result), leaves)


def gradients_of(library, results, leaves):
    """The gradients of a weighted sum of the results; None where the library has none (PyTorch lacks some)."""
    floating = [
        result
        for result in results
        if hasattr(result, "requires_grad") and result.requires_grad and result.grad_fn is not None
    ]
    if floating:
        total = sum(
            (
                tensor
                * library.tensor(
                    np.linspace(0.5, 1.5, max(tensor.numel(), 1))[: tensor.numel()].reshape(tuple(tensor.shape))
                ).to(tensor.dtype)
            ).sum()
            for tensor in floating
        )
        try:
            total.backward()
        except RuntimeError:
            return None
    return {name: leave.grad if leave.grad is not None else library.zeros_like(leave) for name, leave in leaves.items()}


def assert_alike(mine, theirs):
    if not isinstance(theirs, torch.Tensor):
        assert (
            (str(mine).replace("numod.", "torch.") == str(theirs))
            if type(mine).__module__.startswith("numod")
            else mine == theirs
        )
        return
    assert str(mine.dtype).replace("numod", "torch") == str(theirs.dtype)
    assert tuple(mine.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(
        mine.detach().numpy(),
        (theirs.detach() * 1).numpy(),
        rtol=2e-6 if theirs.dtype in (torch.float32, torch.float16) else 1e-9,
        atol=1e-12,
        equal_nan=True,
    )


def compare(expression, **how):
    error, mine, gradients = evaluated(numod, expression, **how)
    expected_error, theirs, expected = evaluated(torch, expression, **how)
    assert (error is None) == (expected_error is None), (error, expected_error)
    if error is not None:
        assert issubclass(error, expected_error) or issubclass(expected_error, error)
        return
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs):
        assert_alike(a, b)
    for name, value in (expected or {}).items():
        assert_alike(gradients[name], value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", cases(ARRANGEMENT) + cases(INDEXING))
def test_arrangement_and_indexing(expression):
    compare(expression)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", cases(POINTWISE))
def test_pointwise(expression):
    compare(expression)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", cases(CREATION))
def test_creation(expression):
    compare(expression, grad=False) if "numod" not in expression else compare(expression)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("expression", cases(WRITES))
def test_writes(expression, grad):
    compare(expression, write=True, grad=grad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", cases(OUT))
def test_out(expression):
    compare(expression, grad=False)
