"""Optimizers, `_foreach_...`, clipping, running statistics and `out=` do not write outside of their tensors' memory.

As in `test_ops_guard_words`, results and views are surrounded by guard words and must equal the results of dense tensors.
About 20 s with kernels in the cache, a minute without; compiled functions with `-m guards`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from guarded import LARGE, SHAPES, WRITABLE, Guards, Placed, guarded
from pairs import compile
from selection import diagonals, every

import numod
from numod import nn

KINDS = [kind for kind in WRITABLE if kind != "dense"]


@pytest.fixture
def guards(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guards]:
    with guarded(monkeypatch) as result:
        yield result


def values(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(np.float32)


class Views:
    """Views of known memory, in which some kinds take turns, or the same values in dense memory."""

    def __init__(self, kinds: list[str]) -> None:
        self.kinds, self.placed = kinds, []

    def __call__(self, array: np.ndarray, dtype: numod.dtype = numod.float32) -> numod.Tensor:
        kind = self.kinds[len(self.placed) % len(self.kinds)]
        self.placed.append(Placed(array, WRITABLE[kind], dtype))
        return self.placed[-1].view

    def check(self) -> None:
        """Nothing around any of them has changed."""
        for view in self.placed:
            view.check(written=True)


def check(work: Callable[[Views], object], guards: Guards, kinds: list[str] = KINDS, tolerance: float = 1e-5) -> None:
    """`work`, which makes its tensors by what it is given, leaves in views what it leaves in dense tensors, and nothing
    elsewhere.
    """
    outcomes = []
    for layouts in (["dense"], kinds):
        views = Views(layouts)
        numod.manual_seed(3)
        work(views)
        guards.check()
        views.check()
        outcomes.append([placed.view.detach().numpy().copy() for placed in views.placed])
    for dense, actual in zip(*outcomes):
        np.testing.assert_allclose(actual, dense, tolerance, 1e-6)


# ---- optimizers

OPTIMIZERS = {
    name: member for name,
    member in vars(numod.optim).items() if inspect.isclass(member) and issubclass(member,
        numod.optim.Optimizer) and name not in ("Optimizer", "LBFGS", "SparseAdam", "Muon")
}  # fmt: skip


@pytest.mark.parametrize(
    "name, way", diagonals(list(OPTIMIZERS), ["foreach", "fused", "one by one"], 3, others=pytest.mark.guards)
)
def test_optimizers_over_views(name: str, way: str, guards: Guards) -> None:
    options = {"foreach": way == "foreach"} if way != "fused" else {"fused": True}
    if not options.keys() <= inspect.signature(OPTIMIZERS[name]).parameters.keys():
        pytest.skip(f"{name} has no option {way}")

    def work(views: Views) -> None:
        parameters = []
        for ndim in (1, 2, 3, 5):
            parameters.append(views(values(SHAPES[ndim], ndim)).detach().requires_grad_())
            parameters[-1].grad = views(values(SHAPES[ndim], 10 + ndim))
        optimizer = OPTIMIZERS[name](parameters, lr=0.1, **options)
        for _ in range(2):
            optimizer.step()

    check(work, guards)


def test_muon_over_views(guards: Guards) -> None:
    def work(views: Views) -> None:
        parameter = views(values((6, 5))).detach().requires_grad_()
        parameter.grad = views(values((6, 5), 1))
        numod.optim.Muon([parameter], lr=0.1).step()

    check(work, guards, tolerance=1e-3)


@pytest.mark.parametrize("way", ["norm", "norm one by one", "value"])
def test_clipping_over_views(way: str, guards: Guards) -> None:
    def work(views: Views) -> None:
        parameters = [numod.zeros(SHAPES[ndim], requires_grad=True) for ndim in (1, 2, 3, 4, 5)]
        for ndim, parameter in enumerate(parameters, 1):
            parameter.grad = views(values(SHAPES[ndim], ndim))
        if way == "value":
            nn.utils.clip_grad_value_(parameters, 0.3)
        else:
            nn.utils.clip_grad_norm_(parameters, 0.5, foreach=way == "norm")

    check(work, guards)


# ---- functions of lists

FOREACH = [name for name in sorted(dir(numod)) if name.startswith("_foreach_") and name.endswith("_")]
EXTRA = {
    "_foreach_lerp_": lambda lists: (lists(1), 0.3),
    "_foreach_addcmul_": lambda lists: (lists(1), lists(2)),
    "_foreach_addcdiv_": lambda lists: (lists(1), lists(2)),
}
USUAL = (lambda lists: (), lambda lists: (lists(1),), lambda lists: (2.0,))


@pytest.mark.parametrize("name", every(3, FOREACH, others=pytest.mark.guards))
def test_functions_of_lists_over_views(name: str, guards: Guards) -> None:
    function = getattr(numod, name)
    for arguments in [EXTRA[name]] if name in EXTRA else USUAL:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function([numod.ones(2)], *arguments(lambda k: [numod.ones(2)]))
        except (TypeError, RuntimeError, ValueError):
            continue

        def work(views: Views, arguments: Callable = arguments) -> None:
            lists = lambda k: [views(values(SHAPES[ndim], 10 * k + ndim)) for ndim in (1, 2, 3, 5)]  # noqa: E731
            function(lists(0), *arguments(lists))

        check(work, guards)
        return
    raise LookupError(f"no arguments are known that {name} takes")


# ---- writes by index, and copies


def index(count: int, below: int, seed: int = 0) -> numod.Tensor:
    return numod.tensor(np.random.default_rng(seed).integers(0, below, count))


SHAPE = (6, 5, 7)
ROWS, COLUMNS, DEPTHS, PLACES = index(9, 6), index(9, 5, 1), index(9, 7, 2), index(30, 210, 3)
INNER = index(6 * 2 * 7, 5).reshape(6, 2, 7)
LONGER = index(6 * 5 * 9, 7).reshape(6, 5, 9)
SHORTER = index(4 * 5 * 7, 6).reshape(4, 5, 7)
# a write to the first tensor, and the values of the second, if there is one, with their dtype
WRITES: dict[str, tuple] = {
    "index_put_ accumulate": (lambda x, other: x.index_put_((ROWS, COLUMNS), other, accumulate=True),
        values((9, 7), 2)),
    "index_put_": (lambda x, other: x.index_put_((ROWS[:1], numod.arange(5)), other), values((5, 7), 2)),
    "a mask": (lambda x: x.__setitem__(x > 0.5, 2.0),),
    "rows by a slice": (lambda x, other: x.__setitem__((slice(1, None, 2), ..., 2), other), values((3, 5), 2)),
    "scatter_": (lambda x: x.scatter_(1, INNER, 3.0),),
    "scatter_add_": (lambda x, other: x.scatter_add_(2, LONGER, other), values((6, 5, 9), 2)),
    "scatter_reduce_ prod": (lambda x, other: x.scatter_reduce_(0, SHORTER, other, "prod"), values((4, 5, 7), 2)),
    "scatter_reduce_ mean": (
        lambda x, other: x.scatter_reduce_(0, SHORTER, other, "mean", include_self=False), values((4, 5, 7), 2),
    ),
    "index_add_": (lambda x, other: x.index_add_(1, COLUMNS, other, alpha=2), values((6, 9, 7), 2)),
    "index_reduce_": (lambda x, other: x.index_reduce_(2, DEPTHS, other, "mean"), values((6, 5, 9), 2)),
    "copy_ of a row": (lambda x, other: x.copy_(other), values((7,), 2)),
    "copy_ of integers": (lambda x, other: x.copy_(other), np.arange(5.0)[:, None], numod.int16),
    "copy_ of bools": (lambda x, other: x.copy_(other), values(SHAPE, 2).round(), numod.bool),
    "copy_ of half floats": (lambda x, other: x.copy_(other), values(SHAPE, 2), numod.float16),
    "copy_ of itself, transposed": (lambda x: x[:5, :5].copy_(x[:5, :5].transpose(0, 1)),),
    "copy_ of itself, shifted": (lambda x: x[1:].copy_(x[:-1]),),
    "add_ of a broadcast": (lambda x, other: x.add_(other), values((5, 1), 2)),
    "mul_ of integers": (lambda x, other: x.mul_(other), np.arange(7.0), numod.int64),
    "put_ accumulate": (lambda x, other: x.put_(PLACES, other, accumulate=True), values((30,), 2)),
    "masked_scatter_": (lambda x, other: x.masked_scatter_(x > 0.5, other), values(SHAPE, 2)),
    "diagonal": (lambda x: x.diagonal(0, 0, 2).fill_(4.0),),
    "unfold": (lambda x: x.unfold(2, 2, 3).zero_(),),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("way", ["eager", pytest.param("compiled", marks=pytest.mark.guards)])
def test_writes_by_index_and_copies_over_views(name: str, way: str, guards: Guards) -> None:
    write, *other = WRITES[name]

    def work(views: Views) -> None:
        x, others = views(values(SHAPE)), [views(*other)] if other else []
        function = write
        if way == "compiled":
            function = compile(lambda *tensors: write(*tensors))
            function(x.clone(), *others)  # records
        function(x, *others)

    for kinds in (["transposed", "sliced"], ["stepped", "swapped"]) if way == "eager" else (["transposed", "stepped"],):
        check(work, guards, kinds)


def test_running_statistics_that_are_views(guards: Guards) -> None:
    def work(views: Views) -> None:
        mean, var, x = views(values((4,))), views(values((4,), 1)), views(values((3, 4, 5, 6), 2))
        layer = nn.BatchNorm2d(4)
        layer.running_mean, layer.running_var = mean, var
        layer(x)
        nn.functional.instance_norm(x, mean, var, use_input_stats=True)
        nn.functional.batch_norm(x, mean, var, training=True, momentum=0.3)

    check(work, guards)


# ---- random numbers

DRAWS: dict[str, Callable] = {
    "uniform_": lambda x, g: x.uniform_(generator=g), "normal_": lambda x, g: x.normal_(generator=g),
    "bernoulli_": lambda x, g: x.bernoulli_(0.3, generator=g),
    "exponential_": lambda x, g: x.exponential_(generator=g), "cauchy_": lambda x, g: x.cauchy_(generator=g),
    "log_normal_": lambda x, g: x.log_normal_(generator=g),
    "geometric_": lambda x, g: x.geometric_(0.4, generator=g), "random_": lambda x, g: x.random_(1, 9, generator=g),
    "rand out": lambda x, g: numod.rand(x.shape, generator=g, out=x), "randn out": lambda x,
    g: numod.randn(x.shape, generator=g, out=x),
    "normal out": lambda x, g: numod.normal(0.0, 2.0, x.shape, generator=g, out=x), "bernoulli out": lambda x,
    g: numod.bernoulli(numod.full(x.shape, 0.4), generator=g, out=x),
    "normal of tensors out": lambda x,
    g: numod.normal(numod.ones(x.shape), numod.full(x.shape, 2.0), generator=g, out=x),
    "randint out": lambda x, g: numod.randint(0, 9, x.shape, generator=g, out=x),
}  # fmt: skip


@pytest.mark.parametrize("name", every(3, DRAWS, others=pytest.mark.guards))
def test_draws_into_views(name: str, guards: Guards) -> None:
    """In place and by `out`, from a generator of one's own; for large tensors by two threads."""
    for shape, kind in [*((SHAPES[ndim], KINDS[ndim % 4]) for ndim in range(1, 6)), (LARGE[3], "swapped")]:

        def work(views: Views, shape: tuple[int, ...] = shape) -> None:
            x, generator = views(values(shape)), numod.Generator().manual_seed(7)
            assert DRAWS[name](x, generator) is x

        check(work, guards, [kind])


# ---- results that are given

FUNCTIONS: dict[str, Callable] = {
    "add": lambda a, out: numod.add(a, 1, out=out), "exp": lambda a, out: numod.exp(a, out=out), "sum": lambda a,
    out: numod.sum(a, 0, out=out), "cumsum": lambda a, out: numod.cumsum(a, 0, out=out),
    "matmul": lambda a, out: numod.matmul(a, a, out=out), "cat": lambda a, out: numod.cat((a, a), out=out),
    "flip": lambda a, out: numod.cat((a.flip(0), a), out=out), "softmax": lambda a, out: numod.softmax(a, 0, out=out),
    "where": lambda a, out: numod.where(a > 0.5, a, a.T, out=out), "index_select": lambda a,
    out: numod.index_select(a, 0, numod.tensor([3, 1]), out=out), "tril": lambda a, out: numod.tril(a, out=out),
    "gather": lambda a, out: numod.gather(a, 1, numod.zeros(6, 3, dtype=numod.int64), out=out),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_given_of_another_size_or_dtype(name: str, guards: Guards) -> None:
    """One of another size is made to fit, with a warning where it held something; one of a wider dtype is converted to;
    one of a dtype that cannot hold the result is refused, and not written to.
    """
    call, a = FUNCTIONS[name], numod.tensor(values((6, 6)))
    expected = call(a, None).numpy()
    for shape in ((0,), (2, 2), (50, 3)):
        out = numod.empty(shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert call(a, out) is out and out.shape == expected.shape
        guards.check()
        np.testing.assert_allclose(out.numpy(), expected, 1e-6)
    views = Views(["transposed"])
    if name in ("sum", "cumsum"):  # which compute in the dtype of `out`
        return
    with pytest.raises((RuntimeError, TypeError)):
        call(a, views(np.zeros(expected.shape), numod.int32))
    guards.check()
    for placed in views.placed:
        placed.check()


@pytest.mark.parametrize("name", [*FUNCTIONS])
@pytest.mark.parametrize("input_name", ["itself", "shifted", "transposed"])
def test_results_that_overlap_an_input(name: str, input_name: str, guards: Guards) -> None:
    """They hold what the function gives of the input as it was, or the call is refused; nothing around is written."""
    call = FUNCTIONS[name]
    expected = call(numod.tensor(values((6, 6))), None).numpy()
    base = numod.zeros(30, 10)
    a = base[2:8, 1:7]
    a.copy_(numod.tensor(values((6, 6))))
    before = base.numpy().copy()
    rows, columns = expected.shape if expected.ndim == 2 else (1, *expected.shape)
    if input_name == "transposed":
        target = base[2 : 2 + columns, 1 : 1 + rows].T if columns <= 28 and rows <= 9 else None
    else:
        target = base[2 + (input_name == "shifted") :, 1 + (input_name == "shifted") :][:rows, :columns]
    if target is None:
        pytest.skip("it does not fit")
    target = target if expected.ndim == 2 else target[0]
    if tuple(target.shape) != expected.shape:
        pytest.skip("it does not fit")
    try:
        call(a, target)
    except RuntimeError as error:
        assert "overlap" in str(error) or "memory" in str(error)
    else:
        np.testing.assert_allclose(target.numpy(), expected, 1e-6)
    guards.check()
    inside = numod.zeros(30, 10)
    view = inside.as_strided(target.shape, target.stride(), target.storage_offset())
    view.fill_(1)
    np.testing.assert_array_equal(base.numpy()[inside.numpy() == 0], before[inside.numpy() == 0])
