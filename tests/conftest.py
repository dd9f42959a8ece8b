"""Tests of ops and tensors on the device `cuda`: with NUMBA_ENABLE_CUDASIM=1 they make their tensors there and run in Numba's simulator (marker cudasim),
and with `-m cuda` on a GPU.

In the simulator, where a kernel is Python, the first and the last of a test's parameters run, but for the tests that say below why they do not.
"""

from __future__ import annotations

import random
import re
import signal
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import numod
from numod import config

pytest.register_assert_rewrite("pairs", "parity", "profiled", "programs", "references", "rows", "threaded", "zoo")  # what tests share, in tests/shared
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so are a shell's background jobs begun, and what they begin
    signal.signal(signal.SIGINT, signal.default_int_handler)

# not here: products, convolutions and random numbers, which tests/cuda has at a size for the simulator; LAPACK's; the host's memory and the text that says "cpu"
FILES = "ops/test_(indexing|normalization|pointwise|reduction|softmax|sort|view)|image/test_pooling|core/test_(arrangement|contractions|creation|functions|half|indexing|inplace|order_and_statistics|promotion)"
ON_GPU = (
    "ops/test_(attention|extremum|fourier_rows|grid_sample|matmul|pad|resample|rows_of_constants|sampling|substitution|triangle|turning)|convolution/test_convolution|image/test_unfold"
    "|core/test_(complexes|cumulative|foreach|fourier|linear_algebra|random|special|spectrograms)"
    "|nn/test_(corner_inputs|embedding|layers|layers_by_numpy|losses|normalization|recurrent)|optim/test_(optimizer|steps)"
)
LARGE = "gradient|accuracy|moments|long|large|tiles|threads|dropout|draws|network|rows_in_order|digits_that|any_reach|selecting|serial_loop|every_float16|every_bfloat16"
MEMORY = "numpy|dlpack|shares_memory|nothing_changes|another_width|another_shape|limits|by_dtype|named_results|rounding_of_float32|division_by_zero"  # compare with the CPU's memory or text; Python raises

# on a GPU neither: errors that kernels tell of after the call, tensors that the module made before, what only the CPU's kernels promise, and zeros of borders
# times infinities
APART = (
    "errors|bad_targets|one_launch|longer_runs|selecting|expanded_vector|not_be_dense|chances|numbers_drawn|activation|stft|printing|across_blocks|eigenvalues_of_real|imaginary_parts|borders_make"
    "|test_values in core/test_foreach|test_gradients in ops/test_indexing"
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The processes of `-n auto`: each takes a gigabyte or two for its compiled kernels, and several may compile the same one."""
    return min(numod.get_num_threads(), 8)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Workers that are done take tests from others: the long ones are not spread evenly."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def moves(item: pytest.Item) -> bool:
    """Whether a test is one that runs on the device, too."""
    on_gpu = item.config.option.markexpr == "cuda" and not config.cuda_simulator() and numod.cuda.is_available()
    name, file = item.name.partition("[")[0], f"{item.path.parent.name}/{item.path.stem}"
    there = (on_gpu or config.cuda_simulator()) and re.fullmatch(f"{FILES}|{ON_GPU}" if on_gpu else FILES, file)
    return bool(there) and not re.search(MEMORY, name) and not re.search(APART if on_gpu else LARGE, f"{name} in {file}" if on_gpu else name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the first and the last variant of every test that moves; on a GPU every variant."""
    variants: dict[str, list[pytest.Item]] = {}
    for item in filter(moves, items):
        variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for first, *others in variants.values():
        for item in (first, *(others[-1:] if config.cuda_simulator() else others)):
            item.add_marker(pytest.mark.cudasim if config.cuda_simulator() else pytest.mark.cuda)
            for each in ("RuntimeWarning", "DeprecationWarning"):  # NumPy's scalars warn where machine integers wrap
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{each}"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """What a test leaves to chance is the same in every run, whichever tests its process ran before."""
    random.seed(0)
    np.random.seed(0)
    for library in (numod, sys.modules.get("torch")):
        if library is not None:
            library.manual_seed(0)


@pytest.fixture(autouse=True)
def on_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors of these tests are made on the device, and come back for comparisons."""
    if not moves(request.node):
        yield
        return
    numpy, from_numpy = numod.Tensor.numpy, numod.from_numpy
    monkeypatch.setattr(numod.Tensor, "numpy", lambda self, **named: numpy(self if self.requires_grad else self.cpu(), **named))
    monkeypatch.setattr(numod, "from_numpy", lambda array: from_numpy(array).cuda())
    numod.set_default_device("cuda")
    yield
    numod.set_default_device(None)
    numod.cuda.synchronize()  # so that what a kernel reports fails this test
