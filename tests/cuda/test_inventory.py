"""Every op is known to have a kernel for a GPU, to be composed of ops that have, or to say that it has none: nothing
goes to the host in silence.
"""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import numod
from numod import dtypes, ops
from numod.device.layout import layout
from numod.ops.attention import attention
from numod.ops import op, sampling
from numod.ops.sequence import rnn_layer
from numod.ops.linalg.factorization import Factorization
from numod.ops.linalg.cuda import MAKERS

for _module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
    importlib.import_module(_module.name)

KERNELS = """ArgExtremum AvgPool Bag BagBounds Band RunStarts CheckedIndex ByteConvolution ByteProduct Cat Cdist CdistGradient
Cell ChannelNorm ChannelNormGradient FusedMapReduce Convolution Cross CrossEntropy CrossEntropyGradient DequantizedRows
CrossEntropyTotal Ctc CtcGradient Extremum Flip GammaGradient GridSample GridSlope GridSpread GroupNorm
GroupNormGradient Linear LongestRun Matmul MaxPool MaxPoolValues Nonzero OverComplex Pad PadBack ComplexPart
Patches Pdist PlaceGradient Pointwise Gather Recurrence Reduction RowNorm RowNormGradient Running RunningExtremum
Runs Resample Roll Sample ScatterReduce Searchsorted Select Softmax Sort Stack Substitution Transform Triangle WeightOnlyProduct
Update Scatter""".split()
COMPOSED = "Attention AttentionGradient Layer LinearGradient".split()  # of the ops above, where they are not on the CPU
# chosen for tensors there
CPU = """ByteLinear BytePool ByteTable CompressedByteConvolution CompressedByteLinear CompressedConvolution CompressedLinear DynamicLayer DynamicLinear Nll NllGradient PackByteFilters PackByteWinograd PackBytes PackColumns PackSparse
PackWindows PackedByteConvolution PackedByteLinear PackedByteRow PackedDynamicLinear PackedLinear PackedMatmul SparseConvolution SparseLinear WindowLinear WinogradByteConvolution WinogradConvolution
WinogradWeight""".split()
ALWAYS = "Move View ViewAsDtype Fused Closed".split()  # no kernel of their own
NO_KERNEL = ["eig"]  # factorizations
GPU = numod.device("cuda:0")


@pytest.mark.ptx
def test_every_op_is_accounted_for() -> None:
    kinds = {
        type(operation).__name__
        for operation in op.every_op()
        if type(operation).__module__.startswith(("numod.ops", "numod.core"))
    }
    assert kinds - {*KERNELS, *COMPOSED, *CPU, *ALWAYS, "Factorization", "Permutation"} == set()


def test_factorizations_are_accounted_for() -> None:
    assert {operation.name for operation in op.every_op() if isinstance(operation, Factorization)} == {
        *MAKERS,
        *NO_KERNEL,
    }


@pytest.mark.parametrize("name", NO_KERNEL)
def test_ops_without_a_kernel_raise(name: str) -> None:
    factorization = next(
        operation for operation in op.every_op() if operation.name == name and isinstance(operation, Factorization)
    )
    matrix = layout((3, 3), dtypes.float64, GPU)
    with pytest.raises(
        NotImplementedError, match=rf"linalg.{name}: there is no kernel for cuda:0; move the matrix with .cpu\(\) first"
    ):
        factorization.prepare((matrix,) * len(factorization.inputs), (False,) * len(factorization.attributes))


def test_permutations_say_so_too() -> None:
    with pytest.raises(
        NotImplementedError, match=r"permutation: there is no kernel for cuda:0; move the keys with .cpu\(\) first"
    ):
        sampling.permutation.prepare((layout((8,), dtypes.int64, GPU),), ())


def test_composed_ops_are_composed_there() -> None:
    meta = numod.zeros(2, 512, 64, device="meta")
    assert not rnn_layer.runs(meta)
    assert not attention.suits(meta._layout, 2, 512, 64, False) and attention.suits(
        numod.zeros(2, 512, 64)._layout, 2, 512, 64, False
    )
    for dtype, depth, kernel in (
        (dtypes.float32, 128, True),
        (dtypes.float32, 160, False),
        (dtypes.float16, 64, False),
        (dtypes.float64, 64, False),
    ):
        assert attention.suits(layout((2, 512, depth), dtype, GPU), 2, 512, 64, False) is kernel
