"""Random tensors. `Generator` is in `generator`, in-place methods are in `random_fills`.

Each number is a function of (seed, offset, index), so a seed gives the same numbers on every device (see `ops.table`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import dtypes
from ...device.device import Device
from ...dtypes import dtype as DType
from ...errors import plain, warn_caller
from ...ops import sampling, table as t
from ...ops.pointwise import broadcast_shapes
from ..apply import apply
from ..arguments import is_whole
from ..math.complexes import view_as_complex
from .creation import _shape, constant, default_device, empty_like, factory
from .generator import (  # noqa: F401  other files import them from here
    Draw,
    Generator,
    _signed,
    _stream,
    default_generator,
    draw_for,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from ..convert.copies import to
from ..math.outputs import write_result
from ..search.searching import searchsorted
from ..index.selection import require_all
from ..extensions import extensions
from ..resolve import whole_number
from ..tensor import Tensor


def _drawn(
    op: object,
    numbers: tuple,
    shape: tuple,
    generator: Generator | None,
    dtype: DType | None,
    device: object,
    requires_grad: bool,
) -> Tensor:
    def make(shape: tuple) -> Tensor:
        count = 1
        for n in shape:
            count *= n
        return constant(op, (*_stream(generator).draw(count), *numbers), shape, dtype, device)

    result = extensions.random_tensor(make, shape)
    return result.requires_grad_() if requires_grad else result


@factory
def rand(
    *size: int,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [0, 1); of a complex number both parts.

    Example:

        >>> torch.rand(2, 3).shape
        numod.Size([2, 3])
    """
    if dtype is not None and dtype.is_complex:
        return _of_parts(rand, _shape(size, "rand"), 1.0, generator, dtype, device, requires_grad)
    return _drawn(t.uniform, (0.0, 1.0), _shape(size, "rand"), generator, dtype, device, requires_grad)


@factory
def randn(
    *size: int,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal; a complex number's parts have half of the variance each.

    Example:

        >>> torch.randn(2, 3).shape
        numod.Size([2, 3])
    """
    if dtype is not None and dtype.is_complex:
        return _of_parts(randn, _shape(size, "randn"), 0.5**0.5, generator, dtype, device, requires_grad)
    return _drawn(t.normal, (0.0, 1.0), _shape(size, "randn"), generator, dtype, device, requires_grad)


def _of_parts(
    draw: Callable,
    shape: tuple,
    scale: float,
    generator: Generator | None,
    dtype: DType,
    device: object,
    requires_grad: bool,
) -> Tensor:
    return view_as_complex(
        draw(*shape, 2, generator=generator, dtype=dtype.real, device=device) * scale
    ).requires_grad_(requires_grad)


def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Sequence[int] | None = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    **options: object,
) -> Tensor:
    """Normally distributed random numbers.

    Mean and standard deviation are numbers, with a size, or tensors, elementwise.

    Their gradients are 0, as PyTorch's: a sample counts as a constant, and `distributions.Normal.rsample` is the
    differentiable one.

    Example:

        >>> torch.normal(torch.zeros(3), torch.zeros(3))
        tensor([0., 0., 0.])
    """
    if (
        not isinstance(std, Tensor)
        and not std >= 0
        or isinstance(std, Tensor)
        and std.numel()
        and std.min()._observe() < 0
    ):
        raise RuntimeError(
            "normal expects std >= 0.0, but found std "
            f"{std if not isinstance(std, Tensor) else 'with elements below 0'}"
        )
    if size is not None:
        return factory(_normal)(float(mean), float(std), size, generator=generator, out=out, **options)
    tensors = [tensor for tensor in (mean, std) if isinstance(tensor, Tensor)]
    if not tensors:
        raise TypeError("normal() takes a size where mean and std are numbers")
    shape = broadcast_shapes("normal", [tensor.shape for tensor in tensors])
    kind = tensors[0].dtype
    if kind.is_complex:
        drawn = (randn(shape, generator=generator, dtype=kind, device=tensors[0].device) * std + mean).detach()
    else:
        drawn = to(t.normal(*draw_for(sum(tensors[1:], tensors[0]), generator), mean, std), kind)
    return drawn if out is None else write_result("normal", drawn, out)


def _normal(
    mean: float,
    std: float,
    size: Sequence[int],
    generator: Generator | None,
    dtype: DType | None = None,
    device: object = None,
    requires_grad: bool = False,
) -> Tensor:
    return _drawn(t.normal, (mean, std), _shape((size,), "normal"), generator, dtype, device, requires_grad)


@factory
def randint(
    *bounds: object,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    **kwargs: object,
) -> Tensor:
    """Random integers in [low, high): randint(high, size) or randint(low, high, size).

    Example:

        >>> torch.randint(0, 10, (3,)).shape
        numod.Size([3])
    """
    names = ("high", "size") if len(bounds) + len(kwargs) == 2 else ("low", "high", "size")
    named_arguments = {"low": 0, **dict(zip(names, bounds)), **kwargs}
    if named_arguments.keys() != {"low", "high", "size"} or len(bounds) > len(names):
        raise TypeError(
            f"randint() takes ([low,] high, size), got {len(bounds)} of them in order, and by name {sorted(kwargs)}"
        )
    dtype = dtype or dtypes.int64
    return _drawn(
        t.randint,
        _range(named_arguments["low"], named_arguments["high"], dtype),
        _shape((named_arguments["size"],), "randint"),
        generator,
        dtype,
        device,
        requires_grad,
    )


def _most_exact(dtype: DType) -> int:
    """The largest n such that the dtype represents all integers up to n."""
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
    return (
        1 << digits[dtype.name] if dtype.is_floating_point else 1 if dtype is dtypes.bool_ else dtypes.iinfo(dtype).max
    )


def _range(low: int, high: int, dtype: DType) -> tuple[int, int]:
    """What `t.randint` takes for [low, high): low and the number of integers, as the kernel reads it.

    Raises RuntimeError where it is empty or the dtype does not hold it.
    """
    if not (is_whole(low) and is_whole(high)):
        raise TypeError(f"bounds of random integers must be ints, got from={low!r} and to={high!r}")
    low, high = plain(low), plain(high)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    least, most = dtypes.RANGES[dtype]
    if low < least:
        raise RuntimeError(f"from is out of bounds for {dtype.short}: got {low}, expected at least {least}")
    if high - 1 > most:
        raise RuntimeError(f"to - 1 is out of bounds for {dtype.short}: got {high - 1}, expected at most {most}")
    exact = _most_exact(dtype)
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if dtype.is_floating_point and abs(bound) > exact:
            power = exact.bit_length() - 1
            warn_caller(
                f"{name} is out of bounds [-(2^{power}), 2^{power}]. Due to precision limitations {dtype.short} can "
                "support discrete uniform distribution only "
                "within this range. This warning will become an error in later versions"
            )
    span = high - low
    return low, span if span < 1 << 63 else span - (1 << 64)


@factory
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A random permutation of 0 .. n-1, drawn on the CPU and moved to `device`.

    Example:

        >>> torch.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    n = whole_number("randperm", "n", plain(n))
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    dtype = dtype or dtypes.int64
    if n - 1 > _most_exact(dtype):
        raise RuntimeError(
            f"n cannot be greater than {_most_exact(dtype) + 1} for {dtype.short} type, got {n}; did you mean "
            "dtype=numod.int64?"
        )
    keys = _drawn(t.randint, (0, 1 << 62), (n,), generator, dtypes.int64, "cpu", False)
    return to(
        apply(sampling.permutation, (keys,)), default_device() if device is None else Device(device), dtype
    ).requires_grad_(requires_grad)


def _in_order_of(input: Tensor, drawn: Tensor) -> Tensor:
    """The numbers with the memory order of `input`."""
    return drawn if input._layout.dense else empty_like(input, dtype=drawn.dtype, device=drawn.device).copy_(drawn)


@factory
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers, uniform in [0, 1), shaped like `input`.

    Example:

        >>> torch.rand_like(torch.ones(2)).shape
        numod.Size([2])
    """
    drawn = rand(input.shape, generator=generator, dtype=dtype or input.dtype, device=device or input.device)
    return _in_order_of(input, drawn).requires_grad_(requires_grad)


@factory
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Random numbers with standard normal distribution, shaped like `input`.

    Example:

        >>> torch.randn_like(torch.zeros(2, 3)).shape
        numod.Size([2, 3])
    """
    drawn = randn(input.shape, generator=generator, dtype=dtype or input.dtype, device=device or input.device)
    return _in_order_of(input, drawn).requires_grad_(requires_grad)


@factory
def randint_like(
    input: Tensor,
    *bounds: int,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
    **kwargs: int,
) -> Tensor:
    """Random integers in [low, high) shaped like `input`: randint_like(input, high) or randint_like(input, low,
    high).

    Example:

        >>> torch.randint_like(torch.zeros(2, 3), 10).shape
        numod.Size([2, 3])
    """
    drawn = randint(
        *bounds,
        size=input.shape,
        **kwargs,
        generator=generator,
        dtype=dtype or input.dtype,
        device=device or input.device,
    )
    return _in_order_of(input, drawn).requires_grad_(requires_grad)


def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """1 with the probability given by each element, or `p` for all, else 0.

    Raises RuntimeError for a probability outside [0, 1].

    Example:

        >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
        tensor([0., 1.])
    """
    if out is not None:
        return write_result("bernoulli", bernoulli(input, p, generator=generator).to(out.dtype), out)
    if p is not None:
        return empty_like(input).bernoulli_(p, generator=generator)
    if input.numel() and not input.is_meta:
        require_all(
            (input >= 0) & (input <= 1),
            RuntimeError,
            "Expected p_in >= 0 && p_in <= 1 to be true, but some elements are outside",
        )
    return t.bernoulli(input, *draw_for(input, generator))


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Indices drawn with probabilities in proportion to a row of weights:

    (n,) -> (num_samples,), (m, n) -> (m, num_samples).

    Example:

        >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 1)
        tensor([1])
    """
    weights = input.detach()
    if not is_whole(num_samples) or not isinstance(replacement, bool):
        raise TypeError(
            f"multinomial(): num_samples must be int and replacement bool, not {type(num_samples).__name__} and "
            f"{type(replacement).__name__}"
        )
    if not weights.is_floating_point():
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype.short}")
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.short}")
    if weights.shape[-1:] > (2**24,):
        raise RuntimeError("number of categories cannot exceed 2^24")
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {weights.ndim}")
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if not (t.isfinite(weights) & (weights >= 0)).all()._observe():
        raise RuntimeError(
            "invalid multinomial distribution: probability tensor contains either `inf`, `nan` or element < 0 "
            "(encountering probability entry < 0)"
        )
    totals = weights.sum(-1, keepdim=True)
    if (totals <= 0).any()._observe():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    result = (_drawn_again if replacement else _drawn_once)(weights, num_samples, generator)
    return result if out is None else write_result("multinomial", result, out)


def _drawn_again(weights: Tensor, count: int, generator: Generator | None) -> Tensor:
    """Sample with replacement, by inverting the cumulative distribution."""
    sums = weights.to(dtypes.float64).cumsum(-1)
    thresholds = (
        rand((*weights.shape[:-1], count), generator=generator, dtype=dtypes.float64, device=weights.device)
        * sums[..., -1:]
    )
    indices = searchsorted(sums, thresholds, right=True)
    # Rounding must not select an index past the last positive weight.
    last = weights.shape[-1] - 1 - (weights != 0).flip(-1).to(dtypes.int64).argmax(-1, keepdim=True)
    return t.minimum(indices, last)


def _drawn_once(weights: Tensor, count: int, generator: Generator | None) -> Tensor:
    """Draws without replacement: the smallest of exponential variates with the weights as rates (Efraimidis and
    Spirakis, 2006).
    """
    times = (
        t.neg(t.log(1.0 - rand(weights.shape, generator=generator, dtype=dtypes.float64, device=weights.device)))
        / weights
    )
    return times.argsort(-1)[..., :count].contiguous()


Tensor.bernoulli, Tensor.multinomial = bernoulli, multinomial
