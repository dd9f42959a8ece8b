"""Every kernel compiles to PTX for sm_75 and sm_90, without a GPU.

Needs the extra `cuda`. `test_ptx_machine` runs that for sm_80.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pytest

import numod
from numod import config, dtypes
from numod.device.layout import layout
from numod.graph.passes.fuse_pointwise import Fused
from numod.kernel import tensor_cores, writer
from numod.ops import complexes, pointwise, sampling, update
from numod.ops.linalg import cross, factorization, triangular_solve, tril_triu
from numod.ops.sequence import ctc
from numod.ops.image import cdist, grid_sample, interpolate
from numod.ops.reduce import argmax, reduction, scan, softmax
from numod.ops.index import flip_roll, indexing, concat, pad, scatter_reduce
from numod.ops.fft import fft
from numod.ops.norm import group_norm, normalization
from numod.ops.matmul import matmul
from numod.ops.sort import unique, searchsorted, topk, sort
from numod.ops.convolution import convolution
from numod.ops.image import unfold

pytest.importorskip("numba_cuda", reason="needs the extra: pip install -e '.[cuda]'")
pytestmark = [
    pytest.mark.ptx,
    pytest.mark.skipif(config.cuda_simulator(), reason="the simulator does not compile"),
    pytest.mark.filterwarnings("ignore"),
]
CAPABILITIES = [(7, 5), (9, 0)]
GPU = numod.device("cuda:0")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A CUDA back end without a device: kernels are compiled to PTX for each capability, and never launched.

    What Numba makes of a kernel is the same for all of them, and takes most of the time: it is made once, and NVVM's
    part for each.
    """
    from numba.cuda import compiler
    from numod.device import cuda
    from numod.kernel import bind, build

    texts: list[str] = []

    def compile_to_ptx(make: Callable, signature: str, *_: object) -> object:
        function = make()
        texts.extend(cuda.ptx(function, signature, capability) for capability in CAPABILITIES)
        return lambda *arguments: None

    lower = compiler._compile_pyfunc_with_fixup
    lowered = lru_cache(1)(lambda *args, **settings: lower(*args, cc=CAPABILITIES[0], **settings))
    monkeypatch.setattr(
        compiler, "_compile_pyfunc_with_fixup", lambda *args, cc, **settings: lowered(*args, **settings)
    )
    monkeypatch.setattr(cuda, "compile", compile_to_ptx)
    monkeypatch.setattr(cuda, "capability", lambda: CAPABILITIES[0])
    cuda.identity.cache_clear()
    monkeypatch.setattr(cuda, "launch_on", lambda kernel, shape: kernel)
    monkeypatch.setattr(cuda, "empty", lambda count, dtype: np.empty(count, dtype))
    monkeypatch.setattr(build, "_built", {})
    bind._kernel.cache_clear()
    yield texts
    bind._kernel.cache_clear()
    cuda.identity.cache_clear()


def on_gpu(*shape: int, dtype: object = dtypes.float32, strides: tuple | None = None) -> object:
    return layout(shape, dtype, GPU, strides)


def check(texts: list[str]) -> None:
    assert texts and len(texts) % len(CAPABILITIES) == 0
    for text, (major, minor) in zip(texts, CAPABILITIES * (len(texts) // len(CAPABILITIES))):
        assert re.search(rf"\.target sm_{major}{minor}", text) and ".entry" in text


@pytest.mark.parametrize("name", sorted(pointwise.rows))
def test_strided_rows(name: str, compiled: list[str]) -> None:  # dense ones run in `test_ptx_machine`
    row = pointwise.rows[name]
    kind = dtypes.float32 if "f" in row.accepts else dtypes.int64
    arguments = tuple(
        int if input in row.integers else on_gpu(7, 5, dtype=dtypes.bool_ if input in row.conditions else kind)
        for input in row.inputs
    )
    if not any(not isinstance(argument, type) for argument in arguments):
        row.prepare(tuple(int if input in row.integers else float for input in row.inputs), (kind, GPU, (7, 5)))
    else:
        row.prepare(
            tuple(
                argument if isinstance(argument, type) else on_gpu(7, 5, dtype=argument.dtype, strides=(1, 9))
                for argument in arguments
            ),
            (),
        )
    check(compiled)


def test_complex_rows(compiled: list[str]) -> None:
    kind = dtypes.complex64
    for name in ("add", "mul", "div", "pow", "exp", "sqrt", "tanh", "where", "isinf"):
        row = pointwise.rows[name]
        row.prepare(
            tuple(on_gpu(7, 5, dtype=dtypes.bool_ if input in row.conditions else kind) for input in row.inputs), ()
        )
    pointwise.rows["mul"].prepare((on_gpu(7, 5, dtype=kind), complex), ())
    for part in (complexes.real, complexes.conj, complexes.magnitude, complexes.angle, complexes.direction):
        part.prepare((on_gpu(7, 5, dtype=kind),), ())
    complexes.join.prepare((on_gpu(7, 5, dtype=kind.real),) * 2, ())
    for name in ("sum", "mean", "any"):
        reduction.rows[name].prepare((on_gpu(7, 5, dtype=kind),), ((1,), False, None))
    check(compiled)


@pytest.mark.parametrize("half", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_sixteen_bit_floats(half: dtypes.dtype, compiled: list[str]) -> None:
    pointwise.rows["add"].prepare((on_gpu(7, 5, dtype=half), on_gpu(7, 5, dtype=half)), ())
    reduction.rows["sum"].prepare((on_gpu(7, 5, dtype=half),), ((1,), False, None))
    check(compiled)


@pytest.mark.parametrize("name", sorted(reduction.rows))
def test_reductions(name: str, compiled: list[str]) -> None:
    row = reduction.rows[name]
    row.prepare((on_gpu(7, 5),), ((1,), False, None))
    row.prepare((on_gpu(7, 5),), ((0,), False, None))
    row.prepare((on_gpu(1 << 17),), ((0,), False, None))
    check(compiled)


def test_matrix_products(compiled: list[str]) -> None:
    for kind in (dtypes.float32, dtypes.float64, dtypes.int64):
        matmul.matmul.prepare((on_gpu(2, 7, 5, dtype=kind), on_gpu(5, 3, dtype=kind)), (False, False))
    matmul.linear.prepare((on_gpu(7, 5), on_gpu(3, 5), on_gpu(3)), ())
    check(compiled)


def test_large_matrix_products_and_convolutions(compiled: list[str]) -> None:
    kind = dtypes.float32
    for order in ((700, 1), (1, 900)):
        matmul.matmul.prepare(
            (on_gpu(900, 700, dtype=kind, strides=order), on_gpu(700, 1000, dtype=kind)), (False, False)
        )
    x = on_gpu(8, 64, 56, 56, dtype=kind)
    weight = on_gpu(128, 64, 3, 3, dtype=kind)
    g = on_gpu(8, 128, 28, 28, dtype=kind)
    settings = (2, 2), (1, 1), (1, 1), 1
    convolution.convolution.prepare((x, weight), (*settings, None))
    convolution.convolution_input.prepare((g, weight), (*settings, tuple(x.shape)))
    convolution.convolution_weight.prepare((g, x), (*settings, tuple(weight.shape)))
    check(compiled)
    products = [text for text in compiled if "bar.sync" in text]
    # tiles in registers, read four words at a time
    assert len(products) == 5 * len(CAPABILITIES) and all(
        "ld.shared.v" in text and "ld.local" not in text for text in products
    )
    large = [text for text in products if text.count("fma.rn.f32") == 8 * 64]  # a slice's steps are written out
    assert len(large) >= 4 and all(".minnctapersm 2" in text for text in large)
    if shutil.which("ptxas"):
        # some words that a slice needs once; two blocks of 256 threads on a multiprocessor
        assert all(spilled(text) <= 256 and used(text) <= 128 for text in products)


@pytest.mark.parametrize("kind", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_tensor_cores(kind: dtypes.dtype, compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from numod.device import cuda

    assert not cuda.tensor_cores()  # of 7.5 these shapes are not
    monkeypatch.setattr(cuda, "capability", lambda: (8, 0))
    monkeypatch.setattr(sys.modules[__name__], "CAPABILITIES", [(8, 0), (9, 0)])
    assert cuda.tensor_cores()
    matmul.matmul.prepare((on_gpu(900, 700, dtype=kind), on_gpu(700, 1000, dtype=kind)), (False, False))
    matmul.linear.prepare((on_gpu(2000, 700, dtype=kind), on_gpu(700, 700, dtype=kind), on_gpu(700, dtype=kind)), ())
    more = kind is dtypes.float16  # the texts of both kinds differ in a word
    if more:
        x = on_gpu(8, 64, 56, 56, dtype=kind)
        weight = on_gpu(128, 64, 3, 3, dtype=kind)
        g = on_gpu(8, 128, 28, 28, dtype=kind)
        settings = (2, 2), (1, 1), (1, 1), 1
        convolution.convolution.prepare((x, weight), (*settings, None))
        convolution.convolution_input.prepare((g, weight), (*settings, tuple(x.shape)))
        convolution.convolution_weight.prepare((g, x), (*settings, tuple(weight.shape)))
        monkeypatch.setattr(tensor_cores, "precision", "high")
        matmul.matmul.prepare((on_gpu(900, 700), on_gpu(700, 1000)), (False, False))
    check(compiled)
    products = [text for text in compiled if "bar.sync" in text]
    assert len(products) == (6 if more else 2) * 2
    for text in products:
        assert "mma.sync" in text and "ld.local" not in text and "ldmatrix" in text and "ld.shared" not in text, text[
            :9000
        ]
    # matrices whose elements are neither patches nor rounded
    assert sum("cp.async" in text for text in products) == (3 if more else 2) * 2
    assert sum(".minnctapersm 2" in text for text in products) >= (6 if more else 4)
    if shutil.which("ptxas"):
        # two blocks on a multiprocessor
        assert all(
            spilled(text) <= 400 and used(text) * (256 if ".maxntid 256" in text else 128) <= 1 << 15
            for text in products
        )


def test_rows_that_blocks_share(compiled: list[str]) -> None:
    kind = dtypes.float32
    x = on_gpu(4096, 1024, dtype=kind)
    columns = on_gpu(1024, dtype=kind)
    rows = on_gpu(4096, dtype=kind)
    target = on_gpu(4096, dtype=dtypes.int64)
    for op in (softmax.softmax, softmax.log_softmax):
        op.prepare((x,), (1,))
    normalization.row_norm.prepare((x, columns, columns), (1e-5,))
    normalization.rms_norm.prepare((x, columns, None), (1e-5,))
    assert not any("ld.local" in text for text in compiled)  # what threads hold of rows are registers
    softmax.softmax.prepare((on_gpu(64, 50257, dtype=kind),), (1,))
    softmax.cross_entropy.prepare((x, target), (-100,))
    softmax.cross_entropy_total.prepare((x, target), (-100, True))
    softmax.cross_entropy_gradient.prepare((rows, x, target, target), (-100, False))
    for op in (scan.cumsum, scan.cumprod, scan.logcumsumexp, scan.cummax, scan.cummin):
        op.prepare((x,), (1,))
    normalization.row_norm.prepare((x, columns, columns), (1e-5,))
    normalization.row_norm.gradient.prepare((x, x, columns, rows, rows), (True,))
    # the most registers
    images, channels = on_gpu(32, 64, 3136, dtype=dtypes.float64), on_gpu(64, dtype=dtypes.float64)
    normalization.channel_norm.prepare((images, channels, channels), (1e-5,))
    normalization.channel_norm_gradient.prepare((images, images, channels, channels, channels), (1e-5,))
    groups = on_gpu(32 * 8, dtype=dtypes.float64)
    group_norm.group_norm.prepare((images, channels, channels), (8, 1e-5))
    group_norm.group_norm_gradient.prepare((images, images, channels, groups, groups), (8,))
    # a block for each channel
    few, channels = on_gpu(2, 64, 900, dtype=dtypes.float64), on_gpu(64, dtype=dtypes.float64)
    normalization.channel_norm.prepare((few, channels, channels), (1e-5,))
    normalization.channel_norm_gradient.prepare((few, few, channels, channels, channels), (1e-5,))
    sort.sort.prepare((x,), (True,))
    argmax.argmax.prepare((x,), (1, False))
    reduction.fused_map_reduce(pointwise.rows["mul"]).prepare((x, x), (1,))
    check(compiled)
    # what writes normalized channels from their parts' sums
    assert sum("bar.sync" not in text for text in compiled) == 2 * len(CAPABILITIES)
    # group norm and its gradient have the most threads, which the driver must not give more than 128 registers each
    assert sum(".maxntid 512" in text for text in compiled) == 2 * len(CAPABILITIES)
    if shutil.which("ptxas"):
        assert all(used(text) <= 128 and spilled(text) == 0 for text in compiled)


def used(text: str) -> int:
    """Registers of a thread."""
    return int(re.search(r"Used (\d+) registers", assembled(text))[1])


def spilled(text: str) -> int:
    """Bytes of registers that the assembler had to put into memory."""
    return sum(map(int, re.findall(r"(\d+) bytes spill stores", assembled(text))))


@cache
def assembled(text: str) -> str:
    """What the assembler tells of a kernel."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(text)
        target = re.search(r"\.target (sm_\d+)", text)[1]
        return subprocess.run(
            ["ptxas", "-v", f"-arch={target}", str(path), "-o", f"{folder}/kernel.cubin"],
            capture_output=True,
            text=True,
            check=True,
        ).stderr


def test_structured_ops(compiled: list[str]) -> None:
    index, vector = on_gpu(7, 5, dtype=dtypes.int64), on_gpu(7, dtype=dtypes.int64)
    softmax.softmax.prepare((on_gpu(7, 5),), (1,))
    softmax.log_softmax.prepare((on_gpu(7, 5),), (1,))
    softmax.cross_entropy.prepare((on_gpu(7, 5), vector), (-100,))
    softmax.cross_entropy_gradient.prepare((on_gpu(7), on_gpu(7, 5), vector, vector), (-100, False))
    for op in (indexing.gather, indexing.index_select):
        op.prepare((on_gpu(7, 5), index if op is indexing.gather else vector), (0,))
    for op in (indexing.scatter, indexing.scatter_add, indexing.index_add, indexing.index_copy):
        op.prepare_into(
            (on_gpu(7, 5), index if "scatter" in op.name else vector, on_gpu(7, 5)), (0,), (on_gpu(7, 5),), (0,)
        )
    indexing.nonzero.prepare((on_gpu(7, dtype=dtypes.bool_), vector), (3,))
    for back in (False, True):
        interpolate.resample.prepare((on_gpu(7, 5), on_gpu(3, 2, dtype=dtypes.int64), on_gpu(3, 2)), (0, 3, back))
        unfold.patches.prepare(
            (on_gpu(2, 8, 6) if back else on_gpu(2, 2, 3, 4),), ((3, 4), (2, 2), (2, 3), (1, 1), (0, 0), (1, 1), back)
        )
    flip_roll.flip.prepare((on_gpu(7, 5),), ((0,),))
    flip_roll.roll.prepare((on_gpu(7, 5),), ((0,), 3))
    triangular_solve.solve_triangular.prepare((on_gpu(2, 3, 3), on_gpu(2, 3, 5)), (True, False))
    tril_triu.band.prepare((on_gpu(7, 5),), (0, 2))
    tril_triu.triangle.prepare((), (dtypes.int64, on_gpu(1).device, 7, 5, 0, True))
    indexing.bounded.prepare((vector, vector), (0, 5, -100, 1))
    scan.cumsum.prepare((on_gpu(7, 5),), (0,))
    argmax.argmax.prepare((on_gpu(7, 5),), (0, False))
    argmax.argmin.prepare((on_gpu(7, 5),), (0, False))
    argmax.max_.prepare((on_gpu(7, 5),), (1, False))
    concat.cat.prepare((on_gpu(7, 5), on_gpu(2, 5)), (0,))
    check(compiled)


# those of float32 run in `test_ptx_machine`
@pytest.mark.parametrize("kind", [dtypes.float64, dtypes.complex64], ids=str)
def test_factorizations(kind: dtypes.dtype, compiled: list[str]) -> None:
    a, b, pivots = on_gpu(2, 300, 300, dtype=kind), on_gpu(2, 300, 5, dtype=kind), on_gpu(2, 300, dtype=dtypes.int32)
    for op in (factorization.cholesky, factorization.inv, factorization.det, factorization.slogdet):
        op.prepare((a,), ())
    factorization.solve.prepare((a, b), ())
    factorization.order.prepare((pivots,), (300,))
    factorization.qr.prepare((b,), ("reduced",))
    for shape in (a, b, on_gpu(2, 5, 300, dtype=kind)):
        factorization.svd.prepare((shape,), (True,))
    for shape in (a, on_gpu(2, 9, 9, dtype=kind)):
        factorization.eigh.prepare((shape,), (True,))
    for shape in (b, on_gpu(2, 9, 9, dtype=kind)):
        factorization.lu.prepare((shape,), (True,))
    factorization.lstsq.prepare((b, b), (1e-6,))
    if not kind.is_complex:
        factorization.ldl.prepare((a,), ())
        factorization.ldl_solve.prepare((a, pivots, b), ())
    check(compiled)
    assert not any("ld.local" in text for text in compiled)
    if shutil.which("ptxas"):
        assert all(spilled(text) == 0 for text in compiled)


@pytest.mark.parametrize("kind", [dtypes.complex64, dtypes.complex128], ids=str)
def test_fourier_transforms(kind: dtypes.dtype, compiled: list[str]) -> None:
    fft.complex_transform.prepare((on_gpu(3, 8 * 4 * 5 * 3, 7, dtype=kind),), ((1,), "ortho", True))
    # by one block for each row, and so its half
    fft.complex_transform.prepare((on_gpu(3, 60, dtype=kind),), ((1,), "ortho", False))
    fft.from_half.prepare((on_gpu(3, 51, dtype=kind),), ((1,), "backward", 100))
    fft.half_spectrum.prepare((on_gpu(3, 4096, dtype=kind.real),), ((1,), "backward"))
    fft.from_half.prepare((on_gpu(3, 51, dtype=kind),), ((1,), "backward", 101))
    check(compiled)
    assert not any("ld.local" in text for text in compiled)


def test_padding_and_bags(compiled: list[str]) -> None:
    for mode in ("constant", *pad.PLACES):
        pad.pad.plan([on_gpu(2, 3, 4, 5), float], ((0, 1, 2, 1), (0, 0, 1, 2), mode))
    for mode in pad.PLACES:
        pad.pad_back.plan([on_gpu(2, 4, 7, 8)], ((0, 1, 2, 1), (0, 0, 1, 2), mode))
    places = on_gpu(7, dtype=dtypes.int64)
    for share in (type(None), on_gpu(7)):
        indexing.bag.plan([on_gpu(6, 3), places, on_gpu(4, dtype=dtypes.int64), share], (True,))
    check(compiled)


@pytest.mark.parametrize(("mode", "axes"), [("nearest", 2), ("bilinear", 3), ("bicubic", 2)])
def test_samples_at_grids(mode: str, axes: int, compiled: list[str]) -> None:
    x = on_gpu(2, 3, *(4, 5, 6)[-axes:])
    grid = on_gpu(2, *(2, 3, 4)[-axes:], axes)
    out = on_gpu(2, 3, *(2, 3, 4)[-axes:])
    grid_sample.grid_sample.prepare((x, grid), (mode, "reflection", False, (0,) * axes))
    grid_sample.grid_spread.prepare((out, grid), (x.shape, mode, "reflection", False, (0,) * axes))
    grid_sample.grid_slope.prepare((out, x, grid), (mode, "reflection", False))
    check(compiled)


def test_folds(compiled: list[str]) -> None:
    places = on_gpu(3, 5, dtype=dtypes.int64)
    for kind in (dtypes.float32, dtypes.int64):
        scatter_reduce.scatter_reduce.prepare((on_gpu(7, 5, dtype=kind), places, on_gpu(3, 5, dtype=kind)), (0, "prod"))
    check(compiled)
    assert not any("atom" in text for text in compiled)  # of few elements a thread takes a column's


@pytest.mark.parametrize("kind", scatter_reduce._SWAPPED, ids=str)
def test_folds_by_compare_and_swap(kind: dtypes.dtype, compiled: list[str]) -> None:
    places = on_gpu(300, 3, dtype=dtypes.int64)
    for how in scatter_reduce.KINDS:
        scatter_reduce.scatter_reduce.prepare((on_gpu(7, 3, dtype=kind), places, on_gpu(300, 3, dtype=kind)), (0, how))
    check(compiled)
    swapping = [text for text in compiled if f"atom.global.cas.b{8 * kind.itemsize}" in text]
    assert len(swapping) == len(scatter_reduce.KINDS) * len(CAPABILITIES)  # the other kernels only copy
    if shutil.which("ptxas"):
        assert all(used(text) <= 32 and spilled(text) == 0 for text in compiled)


@pytest.mark.parametrize("kind", [dtypes.float32, dtypes.float64, dtypes.uint8, dtypes.int64], ids=str)
def test_order(kind: dtypes.dtype, compiled: list[str]) -> None:
    for n in (5, 5000):
        sort.sort.prepare((on_gpu(7, n, dtype=kind),), (True,))
    assert not any("move_digits" in text for text in compiled)
    sort.sort.prepare((on_gpu(1 << 20, dtype=kind),), (False,))
    digits = [text for text in compiled if "_digits" in text]
    assert len(digits) == 2 * len(CAPABILITIES) and not any("ld.local" in text for text in digits)
    if shutil.which("ptxas"):
        # three blocks on a multiprocessor
        assert all(spilled(text) == 0 and (".target sm_75" in text or used(text) <= 80) for text in digits)
    sort._launch_by_rows(on_gpu(7, 500, dtype=kind), 500, 0)
    topk.select.prepare((on_gpu(7, 5, dtype=kind),), (2, 1, True, topk.FIRST))
    for op in (scan.cumprod, scan.cummax, scan.cummin):
        op.prepare((on_gpu(7, 5, dtype=kind),), (0,))
    unique.runs.prepare((on_gpu(7, 5, dtype=kind),), ())
    unique.begins.prepare((on_gpu(7, dtype=dtypes.int64),), (3,))
    unique.longest_run.prepare((on_gpu(7, 5, dtype=kind), on_gpu(7, 5, dtype=dtypes.int64)), ())
    places = on_gpu(5, dtype=dtypes.int64)
    searchsorted.searchsorted.prepare((on_gpu(7, 5, dtype=kind), on_gpu(5, dtype=kind), places), (True, True))
    check(compiled)


def test_distances_and_random_numbers(compiled: list[str]) -> None:
    for kind in (dtypes.float32, dtypes.float64):
        scan.logcumsumexp.prepare((on_gpu(7, 5, dtype=kind),), (0,))
        x, y, transposed, between = (
            on_gpu(*shape, dtype=kind) for shape in ((2, 7, 5), (2, 3, 5), (2, 5, 3), (2, 7, 3))
        )
        cdist.cdist.prepare((x, y), (1.5,))
        cross.cross.prepare((between, between), (2,))
        cdist.pdist.prepare((on_gpu(7, 5, dtype=kind),), (2.0,))
        cdist.cdist_gradient.prepare((between, x, transposed, between), (1.5,))
        sampling.standard_gamma.prepare((on_gpu(7, dtype=kind), int, int), ())
        sampling.standard_gamma_gradient.prepare((on_gpu(7, dtype=kind), on_gpu(7, dtype=kind)), ())
        sampling.poisson.prepare((on_gpu(7, dtype=kind), int, int), ())
        sampling.binomial.prepare((on_gpu(7, dtype=kind), on_gpu(7, dtype=kind), int, int), ())
    check(compiled)


def test_norms_and_alignments(compiled: list[str]) -> None:
    for kind in (dtypes.float32, dtypes.float64):
        rows = on_gpu(7, 5, dtype=kind)
        images = on_gpu(2, 5, 3, dtype=kind)
        vector = on_gpu(5, dtype=kind)
        n = on_gpu(7, dtype=kind)
        normalization.row_norm.prepare((rows, vector, vector), (1e-5,))
        normalization.row_norm.gradient.prepare((rows, rows, vector, n, n), (True,))
        normalization.channel_norm.prepare((images, vector, vector), (1e-5,))
        normalization.channel_norm_gradient.prepare((images, images, vector, vector, vector), (1e-5,))
        group_norm.group_norm.prepare((images, vector, vector), (5, 1e-5))
        group_norm.group_norm_gradient.prepare(
            (images, images, vector, on_gpu(10, dtype=kind), on_gpu(10, dtype=kind)), (5,)
        )
        lengths = on_gpu(5, dtype=dtypes.int64)
        labels = on_gpu(5, 3, dtype=dtypes.int64)
        scores = on_gpu(7, 5, 4, dtype=kind)
        ctc.ctc.prepare((scores, labels, lengths, lengths), (0, False))
        ctc.ctc_gradient.prepare(
            (vector, scores, labels, lengths, lengths, vector, on_gpu(5, 7, 7, dtype=kind)), (0, True)
        )
    check(compiled)


@pytest.mark.parametrize("name", sorted(update.rows))
def test_optimizer_steps(name: str, compiled: list[str]) -> None:
    op = update.rows[name]
    last = max(op.positions)  # tensors come first, and the last of them is state
    arguments = tuple(on_gpu(7, 5) if k <= max(last, 1) else float for k in range(len(op.inputs)))
    op.prepare_into(arguments, (1,), tuple(arguments[k] for k in op.positions), ())
    check(compiled)


@pytest.mark.parametrize("name", ["sgd_momentum", "adam"])
def test_steps_of_several_parameters(name: str, compiled: list[str]) -> None:
    op = update.rows[name]
    last = max(op.positions)
    members = [[on_gpu(7 + k, 5)] * (last + 1) for k in range(op.together)]
    op.prepare_into(
        (*sum(members, []), *[float] * (len(op.inputs) - last - 1)),
        (op.together,),
        tuple(member[k] for member in members for k in op.positions),
        (),
    )
    check(compiled)
    assert len(compiled) == len(CAPABILITIES)  # one launch
    if shutil.which("ptxas"):
        assert all(used(text) <= 64 and spilled(text) == 0 for text in compiled)


@pytest.mark.parametrize("kind", [dtypes.float32, dtypes.float64], ids=str)
def test_fused_groups_round_products_as_eager_ones_do(kind: dtypes.dtype, compiled: list[str]) -> None:
    rows = (
        (pointwise.rows["mul"], (("in", 0), ("in", 1)), kind),
        (pointwise.rows["add"], (("row", 0), ("in", 0)), kind),
    )
    inputs = tuple(writer.Input(name, kind) for name in ("x", "y"))
    Fused(rows, inputs, (1,), (on_gpu(7, 5, dtype=kind),), kind, (7, 5)).prepare(
        (on_gpu(7, 5, dtype=kind), on_gpu(5, dtype=kind)), ()
    )
    check(compiled)
    assert all(f"mul.rn.f{8 * kind.itemsize}" in text and "fma" not in text for text in compiled)


def test_gradients_of_rows(compiled: list[str]) -> None:
    for name in ("gelu", "sigmoid", "pow", "softplus"):
        row = pointwise.rows[name].gradient_of(0)
        row.prepare(tuple(on_gpu(7, 5) for _ in row.inputs), ())
    check(compiled)


def test_extremes_of_numbas_own_target(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from numod.device import cuda

    assert not cuda._is_built_in()
    names = cuda.namespace()
    monkeypatch.setattr(cuda, "_is_built_in", lambda: True)
    assert {*cuda.namespace()} - {*names} == {"min", "max"}
    argmax.argmin.prepare((on_gpu(64, 512),), (1, False))
    check(compiled)


OWN = """
import sys, warnings
warnings.simplefilter("ignore")
sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "NumbaCudaFinder"]
import numpy as np
import numod
from numod.device import cuda
from numod.device.layout import layout
from numod.kernel import build
from numod.ops.matmul import matmul
assert cuda._is_built_in()
cuda.capability, cuda.launch_on, cuda.empty = lambda: (8, 0), lambda kernel, shape: kernel, np.empty
cuda.compile = lambda make, signature, *_: print(cuda.ptx(make(), signature, (8, 0)))
for kind in (numod.bfloat16, numod.float32):
    a, b = (layout((70, 70), kind, numod.device("cuda")) for _ in range(2))
    matmul.matmul.prepare((a, b), (False, False))
"""


def test_numbas_own_target_compiles_products() -> None:
    completed = subprocess.run([sys.executable, "-c", OWN], capture_output=True, text=True, timeout=300)
    if "pip install 'numod[cuda]'" in completed.stderr:
        pytest.skip("it does not find NVIDIA's compiler here")
    assert completed.returncode == 0, completed.stderr
    assert (
        completed.stdout.count(".shared .align 16") >= 2
        and "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in completed.stdout
        and "fma.rn.f32" in completed.stdout
    )
