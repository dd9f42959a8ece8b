"""No op writes outside of its memory.

Results and views are surrounded by guard words and must equal the results of dense tensors. All ops that write are
tested: in-place methods, `nn.init`, functions with `inplace` or `out` (found by their names), and functions that
allocate their result. A sample runs by default, in about ten seconds; `-m guards` runs all, in about four minutes on
two cores.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from guarded import LARGE, READABLE, SHAPES, SQUARE, WRITABLE, Guards, Maker, Placed, guarded
from pairs import compile
from selection import every

import numod
from numod import nn
from numod.core import signatures
from numod.nn import functional as F

NO_WRITES = {  # in-place methods that change what a tensor is a view of, or nothing
    "as_strided_", "detach_", "requires_grad_", "resize_", "resize_as_", "set_", "share_memory_", "squeeze_",
    "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_",
}  # fmt: skip
RANDOM = {
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_",
    "init.kaiming_normal_", "init.kaiming_uniform_", "init.normal_", "init.trunc_normal_", "init.uniform_",
    "init.xavier_normal_", "init.xavier_uniform_", "F.dropout", "F.alpha_dropout", "F.rrelu",
}  # fmt: skip
NOT_COMPILED = {  # Python looks at their elements
    "apply_", "map_", "init.sparse_", "init.trunc_normal_", "nn.functional.gaussian_nll_loss",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool2d_with_indices",
    "nn.functional.fractional_max_pool3d", "nn.functional.fractional_max_pool3d_with_indices",
}  # fmt: skip

Arguments = Callable[[Maker], tuple]


def directly(op: Callable, *args: object) -> object:
    return op(*args)


def on_clones(op: Callable, *arguments: object) -> object:
    return op(*[argument.clone() if isinstance(argument, numod.Tensor) else argument for argument in arguments])


def rows(m: Maker, count: int = 2) -> tuple[int, ...]:
    """The shape of some rows of the first argument."""
    return (min(count, m.shape[0]), *m.shape[1:])


def row_index(m: Maker) -> numod.Tensor:
    return m.index(rows(m)[:1], m.shape[0])


def element_index(m: Maker) -> numod.Tensor:
    return m.index(rows(m), m.shape[0])


# what follows an op's first argument, where it is neither nothing, nor tensors like the first, nor a dimension or
# number
ARGUMENTS: dict[str, Arguments] = {
    "addbmm_": lambda m: (m((2, m.shape[0], 3)), m((2, 3, m.shape[1]))),
    "addmm_": lambda m: (m((m.shape[0], 3)), m((3, m.shape[1]))),
    "addmv_": lambda m: (m((m.shape[0], 3)), m((3,))), "addr_": lambda m: (m(m.shape[:1]), m(m.shape[1:])),
    "baddbmm_": lambda m: (m((*m.shape[:2], 3)), m((m.shape[0], 3, m.shape[2]))),
    "apply_": lambda m: (lambda v: 2 * v,),
    "map_": lambda m: (m(), lambda v, w: v + w), "copy_": lambda m: (m(dtype=numod.float64),),
    "clamp_": lambda m: (0.3, 0.6), "clip_": lambda m: (m(), m()),
    "fill_": lambda m: (1.5,), "fill_diagonal_": lambda m: (1.5,),
    "index_add_": lambda m: (0, row_index(m), m(rows(m))),
    "index_copy_": lambda m: (0, row_index(m), m(rows(m))), "index_fill_": lambda m: (0, row_index(m), 1.5),
    "index_put_": lambda m: ((row_index(m),), m(rows(m))),
    "index_reduce_": lambda m: (0, row_index(m), m(rows(m)), "amax"), "lerp_": lambda m: (m(), 0.3),
    "masked_fill_": lambda m: (m(dtype=numod.bool), 1.5), "masked_scatter_": lambda m: (m(dtype=numod.bool), m()),
    "geometric_": lambda m: (0.3,),
    "put_": lambda m: (m.index((5,), int(np.prod(m.shape))), m((5,))), "random_": lambda m: (1, 5),
    "renorm_": lambda m: (2, 0, 0.5),
    "scatter_": lambda m: (0, element_index(m), m(rows(m))),
    "scatter_add_": lambda m: (0, element_index(m), m(rows(m))),
    "scatter_reduce_": lambda m: (0, element_index(m), m(rows(m)), "sum"), "init.constant_": lambda m: (1.5,),
    "init.sparse_": lambda m: (0.3,),
    "F.threshold": lambda m: (0.5, 2.0), "F.threshold_": lambda m: (0.5, 2.0),
}  # fmt: skip
# number of dimensions
FIXED = {
    "addbmm_": 2,
    "addmm_": 2,
    "addmv_": 1,
    "addr_": 2,
    "baddbmm_": 3,
    "fill_diagonal_": 2,
    "init.eye_": 2,
    "init.sparse_": 2,
    "F.dropout1d": 3,
    "F.dropout2d": 4,
    "F.dropout3d": 5,
}  # fmt: skip
LEAST = {
    "renorm_": 2,
    "tril_": 2,
    "triu_": 2,
    "init.dirac_": 3,
    "init.orthogonal_": 2,
    "F.feature_alpha_dropout": 2,
    **{f"init.{name}_": 2 for name in ("kaiming_normal", "kaiming_uniform", "xavier_normal", "xavier_uniform")},
}
MOST = {"init.dirac_": 5}
USUAL: tuple[Arguments, ...] = (
    lambda m: (),
    lambda m: (m(),),
    lambda m: (m(), m()),
    lambda m: (0,),
    lambda m: (1,),
    lambda m: (0.5,),
)
DTYPES = numod.float32, numod.int64, numod.bool, numod.float64
REFUSALS = (TypeError, RuntimeError, ValueError, IndexError, NotImplementedError)


def in_place() -> dict[str, Callable]:
    """All ops that write over their first argument."""
    ops = {
        name: getattr(numod.Tensor, name)
        for name in dir(numod.Tensor)
        if name.endswith("_") and not name.startswith("_") and name not in NO_WRITES
    }
    ops |= {
        f"init.{name}": getattr(nn.init, name)
        for name in dir(nn.init)
        if name.endswith("_") and not name.startswith("_")
    }
    for name, function in vars(F).items():
        if not inspect.isfunction(function) or name.startswith("_"):
            continue
        if name.endswith("_"):
            ops[f"F.{name}"] = function
        elif "inplace" in signatures.defined(function).parameters:
            ops[f"F.{name}"] = functools.partial(function, inplace=True)
    return ops


IN_PLACE = in_place()


def combinations(name: str, turn: int) -> Iterator[tuple[tuple[int, ...], tuple[str, str]]]:
    """Shapes, and kinds of views of the first and the other arguments: for random numbers all, else every shape and
    every kind once.
    """
    ndims = [FIXED[name]] if name in FIXED else range(LEAST.get(name, 1), MOST.get(name, 5) + 1)
    if name in RANDOM or name in FIXED:
        yield from ((SHAPES[ndim], (kind, "swapped")) for ndim, kind in itertools.product(ndims, WRITABLE))
    else:
        yield from (
            (SHAPES[ndim], ([*WRITABLE][(turn + ndim) % 5], [*READABLE][(turn + 2 * ndim) % 6])) for ndim in ndims
        )


@pytest.fixture
def guards(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guards]:
    with guarded(monkeypatch) as result:
        yield result


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = numod.get_num_threads()
    numod.set_num_threads(1)
    yield
    numod.set_num_threads(before)


def written(op: Callable, arguments: Arguments, m: Maker, run: Callable = directly, cloned: bool = False) -> np.ndarray:
    """What an op leaves in its first argument, or in a clone of it."""
    x = m().clone() if cloned else m()
    call_arguments = arguments(m)
    numod.manual_seed(5)
    with numod.no_grad():
        run(op, x, *call_arguments)
    m.check((0,))
    return x.numpy()


@functools.cache
def suiting(name: str) -> tuple[Arguments, numod.dtype]:
    """Arguments that an in-place op takes, and the dtype of the first."""
    shape = SHAPES[FIXED.get(name, LEAST.get(name, 2))]
    for arguments, dtype in itertools.product([ARGUMENTS[name]] if name in ARGUMENTS else USUAL, DTYPES):
        try:
            written(IN_PLACE[name], arguments, Maker(shape, ("dense",), dtype))
        except REFUSALS:
            continue
        return arguments, dtype
    raise LookupError(f"no arguments are known that {name} takes: add them to ARGUMENTS")


def check_in_place(name: str, guards: Guards, shape: tuple[int, ...], kinds: tuple[str, str], run: Callable) -> None:
    """An op over a view leaves in it what it leaves in dense memory, and nothing elsewhere."""
    arguments, dtype = suiting(name)
    # dropout draws in the order of memory, which a clone keeps
    cloned = name in RANDOM and name.startswith("F.")
    expected = written(IN_PLACE[name], arguments, Maker(shape, kinds, dtype, dense=not cloned), cloned=cloned)
    actual = written(IN_PLACE[name], arguments, Maker(shape, kinds, dtype), run)
    guards.check()
    np.testing.assert_allclose(actual, expected, 1e-5, 1e-6, err_msg=f"{name} {shape} {kinds}")


def in_threads(op: Callable, *args: object) -> object:
    """An op by two threads, where it has so much work."""
    numod.set_num_threads(2)
    try:
        return op(*args)
    finally:
        numod.set_num_threads(1)


def compiled(op: Callable, *args: object) -> object:
    """A compiled op: the first call records, over copies; the second runs the program."""
    function = compile(lambda *arguments: op(*arguments))
    function(*[tensor.clone() if isinstance(tensor, numod.Tensor) else tensor for tensor in args])
    numod.manual_seed(5)
    return function(*args)


@pytest.mark.guards
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str, guards: Guards) -> None:
    turn = zlib.crc32(name.encode())
    for shape, kinds in combinations(name, turn):
        check_in_place(name, guards, shape, kinds, directly)
        if name not in NOT_COMPILED:
            check_in_place(name, guards, shape, kinds, compiled)
    if name not in FIXED:
        ndim = max(LEAST.get(name, 1), turn % 5 + 1)
        check_in_place(name, guards, LARGE[ndim], ([*WRITABLE][turn % 4 + 1], "dense"), in_threads)


def matrices(m: Maker) -> numod.Tensor:
    """Square ones."""
    return m((2, 5, 5))


def definite(m: Maker) -> numod.Tensor:
    """A matrix that has a Cholesky factor."""
    return m.filled((5, 5), numod.float32, lambda rng, size, kind: np.eye(5) * 6 + 1)


def classes(m: Maker, *shape: int) -> numod.Tensor:
    return m.filled(shape, numod.int64, lambda rng, size, kind: rng.integers(0, 4, size))


def picture(m: Maker, ndim: int) -> numod.Tensor:
    return m((2, 4, 8, 10, 6)[: ndim + 2])


def pooled(ndim: int, *numbers: object) -> Arguments:
    return lambda m: (picture(m, ndim), *numbers)


def unpooled(ndim: int) -> Arguments:
    def places(m):
        return m.filled(
            (2, 4, *[3] * ndim),
            numod.int64,
            lambda rng, size, kind: np.broadcast_to(np.arange(3**ndim).reshape([3] * ndim), size),
        )

    return lambda m: (m((2, 4, *[3] * ndim)), places(m), 2)


def convolved(ndim: int, transposed: bool = False) -> Arguments:
    return lambda m: (picture(m, ndim), m((4 if transposed else 6, 4, *[3] * ndim)), m((4 if transposed else 6,)))


def pivots(m: Maker, n: int) -> numod.Tensor:
    return m.filled((n,), numod.int32, lambda rng, size, kind: np.arange(1, n + 1))


# copies of views that not every layout allows, or whose elements the layout decides; what gives or takes several
# tensors; what has no `out` yet
NOT_TRIED = {
    "as_strided_copy", "view_copy", "view_as_complex_copy", "view_as_real_copy", "split_with_sizes_copy",
    "nonzero_static", "native_batch_norm", "chain_matmul", "hash_tensor",
}  # fmt: skip
# all arguments of functions, where they are not tensors of one shape, and then a number or dimension
CALLS: dict[str, Arguments] = {
    "kron": lambda m: (m((40, 50)), m((6, 7))), "expand_copy": lambda m: (m((1, 5)), (4, 5)),
    "permute_copy": lambda m: (m((4, 5, 6)), (2, 0, 1)), "select_copy": lambda m: (m(), 0, 1),
    "transpose_copy": lambda m: (m((4, 5)), 0, 1), "unfold_copy": lambda m: (m((9,)), 0, 3, 2),
    "addbmm": lambda m: (m((4, 6)), m((2, 4, 3)), m((2, 3, 6))), "addmv": lambda m: (m((4,)), m((4, 3)), m((3,))),
    "addr": lambda m: (m((4, 5)), m((4,)), m((5,))),
    "baddbmm": lambda m: (m((2, 4, 6)), m((2, 4, 3)), m((2, 3, 6))),
    "addmm": lambda m: (m((40, 60)), m((40, 30)), m((30, 60))),
    "bmm": lambda m: (m((3, 4, 5)), m((3, 5, 6))), "matmul": lambda m: (m((2, 1, 40, 30)), m((3, 30, 50))),
    "mm": lambda m: (m((70, 30)), m((30, 90))),
    "mv": lambda m: (m((20, 30)), m((30,))), "dot": lambda m: (m((30,)), m((30,))),
    "vdot": lambda m: (m((30,)), m((30,))), "outer": lambda m: (m((9,)), m((8,))),
    "ger": lambda m: (m((9,)), m((8,))), "arange": lambda m: (1, 40, 3), "range": lambda m: (1, 40, 3),
    "linspace": lambda m: (0, 1, 17), "logspace": lambda m: (0, 1, 17),
    "bucketize": lambda m: (m(), m.filled((9,), numod.float32, lambda rng, size, kind: np.linspace(0, 1, 9))),
    "searchsorted": lambda m: (m.filled((9,), numod.float32, lambda rng, size, kind: np.linspace(0, 1, 9)), m()),
    "cat": lambda m: ((m(), m(), m()), 0),
    "concat": lambda m: ((m(), m()), -1), "concatenate": lambda m: ((m(), m()), 0), "stack": lambda m: ((m(), m()), 1),
    "hstack": lambda m: ((m(), m()),),
    "vstack": lambda m: ((m(), m()),), "dstack": lambda m: ((m(), m()),), "column_stack": lambda m: ((m(), m()),),
    "row_stack": lambda m: ((m(), m()),),
    "cholesky": lambda m: (definite(m),), "linalg.cholesky": lambda m: (definite(m),),
    "linalg.cholesky_ex": lambda m: (definite(m),),
    "cross": lambda m: (m((4, 3)), m((4, 3))), "linalg.cross": lambda m: (m((4, 3)), m((4, 3))),
    "empty": lambda m: (0,), "eye": lambda m: (5, 7),
    "full": lambda m: ((5, 7), 1.5), "ones": lambda m: (5, 7), "zeros": lambda m: (5, 7), "rand": lambda m: (5, 7),
    "randn": lambda m: (5, 7),
    "randint": lambda m: (0, 9, (5, 7)), "randperm": lambda m: (30,), "gather": lambda m: (m(), 0, element_index(m)),
    "index_select": lambda m: (m(), 0, row_index(m)),
    "index_add": lambda m: (m(), 0, row_index(m), m(rows(m))),
    "index_copy": lambda m: (m(), 0, row_index(m), m(rows(m))),
    "index_reduce": lambda m: (m(), 0, row_index(m), m(rows(m)), "amax"),
    "scatter": lambda m: (m(), 0, element_index(m), m(rows(m))),
    "scatter_add": lambda m: (m(), 0, element_index(m), m(rows(m))),
    "scatter_reduce": lambda m: (m(), 0, element_index(m), m(rows(m)), "sum"),
    "masked_select": lambda m: (m(), m(dtype=numod.bool)), "where": lambda m: (m(dtype=numod.bool), m(), m()),
    "narrow_copy": lambda m: (m(), 0, 1, 3),
    "renorm": lambda m: (m(), 2, 0, 0.5), "threshold": lambda m: (m(), 0.5, 0.0),
    "lu_unpack": lambda m: (m((5, 5)), pivots(m, 5)),
    "lu_solve": lambda m: (m((5, 2)), definite(m), pivots(m, 5)),
    "linalg.lu_solve": lambda m: (definite(m), pivots(m, 5), m((5, 2))),
    "linalg.ldl_solve": lambda m: (definite(m), pivots(m, 5), m((5, 2))),
    "orgqr": lambda m: (m((6, 4)), m((4,))), "linalg.householder_product": lambda m: (m((6, 4)), m((4,))),
    "ormqr": lambda m: (m((6, 4)), m((4,)), m((6, 3))),
    "linalg.solve_triangular": lambda m: (definite(m), m((5, 3))),
    "linalg.multi_dot": lambda m: ((m((4, 5)), m((5, 6)), m((6, 3))),),  "special.polygamma": lambda m: (1, m()),
    "polygamma": lambda m: (1, m()), "linalg.inv": lambda m: (definite(m),),
    "linalg.tensorsolve": lambda m: (m.filled((2, 3, 6), numod.float32, lambda rng, size,
        kind: np.eye(6).reshape(size) * 3 + 1), m((2, 3))),
    "fft.fftfreq": lambda m: (9,), "fft.rfftfreq": lambda m: (9,), "multinomial": lambda m: (m((4, 9)), 5),
    "normal": lambda m: (m(), m()),
    **{f"nn.functional.{name}": arguments for name, arguments in {
        "affine_grid": lambda m: (m((2, 2, 3)), (2, 3, 4, 5)),
        "batch_norm": lambda m: (picture(m, 2), m((4,)), m((4,)), m((4,)), m((4,))),
        "bilinear": lambda m: (m((5, 3)), m((5, 4)), m((6, 3, 4))), "channel_shuffle": lambda m: (picture(m, 2), 2),
        "conv_tbc": lambda m: (m((9, 2, 4)), m((3, 4, 6)), m((6,))),
        **{f"conv{ndim}d": convolved(ndim) for ndim in (1, 2, 3)},
        **{f"conv_transpose{ndim}d": convolved(ndim, True) for ndim in (1, 2, 3)},
        **{f"avg_pool{ndim}d": pooled(ndim, 2) for ndim in (1, 2, 3)},
        **{f"lp_pool{ndim}d": pooled(ndim, 2, 2) for ndim in (1, 2, 3)},
        **{f"max_pool{ndim}d{end}": pooled(ndim, 2) for ndim in (1, 2, 3) for end in ("", "_with_indices")},
        **{f"adaptive_{kind}_pool{ndim}d": pooled(ndim, 3) for ndim in (1, 2, 3) for kind in ("avg", "max")},
        **{f"adaptive_max_pool{ndim}d_with_indices": pooled(ndim, 3) for ndim in (2, 3)},
        **{f"fractional_max_pool{ndim}d{end}": pooled(ndim, 2, 3) for ndim in (2, 3) for end in ("", "_with_indices")},
        **{f"max_unpool{ndim}d": unpooled(ndim) for ndim in (1, 2, 3)},
        **{f"dropout{ndim}d": pooled(ndim) for ndim in (1, 2, 3)},
        "cosine_embedding_loss": lambda m: (m((5, 4)), m((5, 4)),
            m.filled((5,), numod.int64, lambda rng, size, kind: np.array([1, -1, 1, 1, -1]))),
        "ctc_loss": lambda m: (m((9, 2, 5)),
            m.filled((2, 3), numod.int64, lambda rng, size, kind: rng.integers(1, 5, size)), (9, 8), (3, 2)),
        "fold": lambda m: (m((2, 16, 63)), (8, 10), 2), "unfold": lambda m: (picture(m, 2), 2),
        "grid_sample": lambda m: (picture(m, 2), m((2, 5, 6, 2))),
        "instance_norm": lambda m: (picture(m, 2),), "group_norm": lambda m: (picture(m, 2), 2),
        "interpolate": lambda m: (picture(m, 2), None, 1.5, "bilinear"),
        "upsample": lambda m: (picture(m, 2), None, 2), "upsample_bilinear": lambda m: (picture(m, 2), None, 2),
        "upsample_nearest": lambda m: (picture(m, 2), None, 2),
        "layer_norm": lambda m: (m(), m.shape[-1:], m(m.shape[-1:])),
        "rms_norm": lambda m: (m(), m.shape[-1:], m(m.shape[-1:])),
        "local_response_norm": lambda m: (picture(m, 2), 3), "multi_margin_loss": lambda m: (m((5, 4)), classes(m, 5)),
        "multilabel_margin_loss": lambda m: (m((5, 4)), classes(m, 5, 4)),
        "nll_loss": lambda m: (m((5, 4)), classes(m, 5)),
        "cross_entropy": lambda m: (m((5, 4, 3)), classes(m, 5, 3)),
        "embedding": lambda m: (classes(m, 5, 3), m((4, 6))), "one_hot": lambda m: (classes(m, 5),),
        "embedding_bag": lambda m: (classes(m, 5, 3), m((4, 6))),
        "pad": lambda m: (picture(m, 2), (1, 2, 2, 1), "reflect"), "pixel_shuffle": lambda m: (picture(m, 2), 2),
        "pixel_unshuffle": lambda m: (picture(m, 2), 2), "prelu": lambda m: (picture(m, 2), m((4,))),
        "scaled_dot_product_attention": lambda m: (m((2, 3, 20, 8)), m((2, 3, 24, 8)), m((2, 3, 24, 8))),
        "multi_head_attention_forward": lambda m: (m((5, 2, 8)), m((6, 2, 8)), m((6, 2, 8)), 8, 2, m((24, 8)),
            m((24,)), None, None, False, 0.0, m((8, 8)), m((8,))),
        "feature_alpha_dropout": pooled(2), "threshold": lambda m: (m(), 0.5, 2.0), "gumbel_softmax": lambda m: (m(),),
    }.items()},
}  # fmt: skip
SINGULAR_IF_EXPANDED = {
    "inverse", "cholesky_inverse", "cholesky_solve", "lu_solve", "pinverse", "slogdet", "triangular_solve", "geqrf",
    "qr", "svd",
}  # fmt: skip
NAMESPACES = "", "linalg", "special", "fft", "nn.functional"


def takes_out(function: Callable) -> bool:
    """Whether a function has an argument `out`, itself or by `with_out`, whose inner function is called `filled`."""
    return (
        "out" in inspect.signature(function).parameters
        or getattr(function, "__code__", None) is not None
        and function.__code__.co_name == "filled"
    )


def functions() -> dict[str, Callable]:
    """Functions that take `out`, and all those of the smaller namespaces."""
    results = {}
    for space in NAMESPACES:
        home = functools.reduce(getattr, filter(None, space.split(".")), numod)
        for name in sorted(dir(home)):
            function = getattr(home, name)
            if (
                inspect.isfunction(function)
                and not name.startswith("_")
                and not name.endswith("_")
                and (space or takes_out(function))
                and name not in NOT_TRIED
            ):
                results[f"{space}.{name}".strip(".")] = function
    return results


FUNCTIONS = functions()
FUNCTIONS["linalg.solve_triangular"] = functools.partial(FUNCTIONS["linalg.solve_triangular"], upper=True)


def results(function: Callable, arguments: Arguments, m: Maker, run: Callable = directly) -> list[numod.Tensor]:
    """The tensors that a function gives; it writes to none of its arguments."""
    call_arguments = arguments(m)
    numod.manual_seed(5)
    with numod.no_grad():
        result = run(function, *call_arguments)
    m.check()
    return [
        result_part
        for result_part in (result if isinstance(result, (tuple, list)) else [result])
        if isinstance(result_part, numod.Tensor)
    ]


@functools.cache
def suiting_call(name: str) -> tuple[Arguments, numod.dtype, dict]:
    """Arguments that a function takes, the dtype of tensors among them, and shapes."""
    usual = [lambda m, rest=rest: (m(), *rest(m)) for rest in USUAL]
    for arguments, dtype, shapes in itertools.product(
        [CALLS[name]] if name in CALLS else usual, DTYPES, (SHAPES, SQUARE)
    ):
        try:
            results(FUNCTIONS[name], arguments, Maker(shapes[2], ("dense",), dtype))
        except REFUSALS:
            continue
        return arguments, dtype, shapes
    raise LookupError(f"no arguments are known that {name} takes: add them to CALLS")


def check_function(
    name: str, guards: Guards, shape: tuple[int, ...], kinds: tuple[str, str], run: Callable, kind_of_out: str = ""
) -> None:
    """A function of views gives what it gives of dense tensors, where it has an `out` of this kind also there, and
    writes nothing elsewhere.
    """
    arguments, dtype, _ = suiting_call(name)
    make = functools.partial(
        Maker, shape, kinds, dtype, repeats=not name.startswith("linalg.") and name not in SINGULAR_IF_EXPANDED
    )
    if "dropout" in name:  # it draws in the order of memory, which clones keep
        expected = results(FUNCTIONS[name], arguments, make(), on_clones)
    else:
        expected = results(FUNCTIONS[name], arguments, make(dense=True))
    compare = functools.partial(
        np.testing.assert_allclose, rtol=1e-4, atol=1e-5, err_msg=f"{name} {shape} {kinds} {kind_of_out}"
    )
    actual = results(FUNCTIONS[name], arguments, make(), run)
    guards.check()
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected):
        compare(mine.resolve_conj().numpy(), theirs.resolve_conj().numpy())
    if not kind_of_out:
        return
    targets = [Placed(np.zeros(tensor.shape, np.float32), WRITABLE[kind_of_out], tensor.dtype) for tensor in expected]
    out = targets[0].view if len(targets) == 1 else tuple(target.view for target in targets)
    results(functools.partial(FUNCTIONS[name], out=out), arguments, make(), run)
    guards.check()
    for target, theirs in zip(targets, expected):
        target.check(written=True)
        compare(target.view.numpy(), theirs.resolve_conj().numpy())


@pytest.mark.guards
@pytest.mark.filterwarnings("ignore::UserWarning")  # names and defaults that are deprecated
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, guards: Guards) -> None:
    turn, shapes = zlib.crc32(name.encode()), suiting_call(name)[2]
    kinds = [([*READABLE][(turn + k) % 6], [*READABLE][(turn + 2 * k + 3) % 6]) for k in range(2)]
    kind_of_out = [*WRITABLE][turn % 5] if takes_out(FUNCTIONS[name]) else ""
    check_function(name, guards, shapes[2], kinds[0], directly, kind_of_out)
    if name not in NOT_COMPILED:
        check_function(name, guards, shapes[2], kinds[1], compiled)
    if name in CALLS or not takes_dimensions(name, 3 + turn % 3):
        return
    check_function(name, guards, shapes[3 + turn % 3], kinds[1], directly, kind_of_out)
    if shapes is SHAPES and takes_out(FUNCTIONS[name]):
        check_function(name, guards, LARGE[2 + turn % 2], kinds[0], in_threads)


def takes_dimensions(name: str, ndim: int) -> bool:
    """Whether a function takes tensors of so many dimensions."""
    arguments, dtype, shapes = suiting_call(name)
    try:
        results(FUNCTIONS[name], arguments, Maker(shapes[ndim], ("dense",), dtype))
    except REFUSALS:
        return False
    return True


SAMPLE = (
    *sorted(RANDOM),
    "add_",
    "clamp_",
    "copy_",
    "cumsum_",
    "fill_",
    "index_add_",
    "index_put_",
    "lerp_",
    "masked_fill_",
    "scatter_",
    "tril_",
    "zero_",
)


@pytest.mark.parametrize("name", every(2, SAMPLE, others=pytest.mark.guards))
def test_a_sample_in_place(name: str, guards: Guards) -> None:
    for ndim, kind in (
        ((4, "swapped"), (5, "transposed")) if name in RANDOM - {"F.alpha_dropout", "F.rrelu"} else ((4, "swapped"),)
    ):
        check_in_place(name, guards, SHAPES[ndim], (kind, "expanded"), directly)
    if name in ("normal_", "add_"):
        check_in_place(name, guards, LARGE[3], ("sliced", "dense"), in_threads)
        check_in_place(name, guards, SHAPES[3], ("sliced", "stepped"), compiled)


@pytest.mark.parametrize(
    "name", ["bernoulli", "normal", "sort", "topk", "cat", "matmul", "where", "cumsum", "mul", "sum"]
)
def test_a_sample_of_functions(name: str, guards: Guards) -> None:
    check_function(
        name,
        guards,
        suiting_call(name)[2][2 if name in ("matmul", "topk") else 4],
        ("swapped", "expanded"),
        directly,
        "stepped",
    )
