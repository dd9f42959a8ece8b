"""Fixtures of all tests, and the tests of ops and tensors that also run on the device `cuda`.

A test with the marker `on_cuda` makes its tensors there with NUMBA_ENABLE_CUDASIM=1, in Numba's simulator (`-m
cudasim`), and on a GPU with `-m cuda`. In the simulator, where a kernel is Python, the first and the last of a test's
parameters run. `on_cuda(simulator=False)` excludes what is too large for the simulator or compares with the host's
numbers, `on_cuda(gpu=False)` what a GPU reports only after the call or promises less about, `cpu_only` what is about
the CPU's memory or text.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import numpy as np
import pytest

import numod
from numod import config
from numod.autograd import early_kernels

# what tests share, in tests/shared
pytest.register_assert_rewrite("pairs", "parity", "profiled", "programs", "references", "rows", "threaded", "zoo")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so are a shell's background jobs begun, and what they begin
    signal.signal(signal.SIGINT, signal.default_int_handler)
numod.manual_seed(0)  # for what test modules draw at import; `independent` is for the tests


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The processes of `-n auto`: each takes a gigabyte or two for its compiled kernels, and several may compile the
    same one.
    """
    return min(numod.get_num_threads(), 8)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Workers that are done take tests from others: the long ones are not spread evenly."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files of the marker `parity`, a third of all tests, import PyTorch: they are left out where `-m` excludes them."""
    return "not parity" in config.option.markexpr and collection_path.name.endswith("_parity.py") or None


def runs_on_device(item: pytest.Item) -> bool:
    """Whether a test makes its tensors on the device in this session, as its marker `on_cuda` says."""
    marker = item.get_closest_marker("on_cuda")
    if marker is None or item.get_closest_marker("cpu_only"):
        return False
    if config.cuda_simulator():
        return marker.kwargs.get("simulator", True)
    return marker.kwargs.get("gpu", True) and item.config.option.markexpr == "cuda" and numod.cuda.is_available()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """A collection makes millions of objects that stay: the garbage collector does not go through them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Select the first and the last variant of every test that runs on the device; on a GPU every variant."""
    if unstable := [
        item.nodeid for item in items if " at 0x" in item.nodeid
    ]:  # xdist needs the same names in each worker
        raise pytest.UsageError(f"the name of a test holds an address: {unstable[0]}; give the parameter an id")
    variants: dict[str, list[pytest.Item]] = {}
    for item in filter(runs_on_device, items):
        variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for first, *others in variants.values():
        for item in (first, *(others[-1:] if config.cuda_simulator() else others)):
            item.add_marker(pytest.mark.cudasim if config.cuda_simulator() else pytest.mark.cuda)
            for name in ("RuntimeWarning", "DeprecationWarning"):  # NumPy's scalars warn where machine integers wrap
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{name}"))


@pytest.fixture(autouse=True)
def independent() -> None:
    """What a test leaves to chance, and what it compiles, are the same whichever tests its process ran before."""
    random.seed(0)
    np.random.seed(0)
    numod.manual_seed(0)
    if "torch" in sys.modules:
        # `torch.manual_seed` also looks for other devices, in a third of a millisecond
        sys.modules["torch"].default_generator.manual_seed(0)
    early_kernels.expect_gradients(False)  # an optimizer of another test lets every op begin its gradients' kernels


@pytest.fixture(autouse=True)
def on_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tensors of these tests are made on the device, and come back for comparisons."""
    if not runs_on_device(request.node):
        yield
        return
    monkeypatch = request.getfixturevalue("monkeypatch")
    numpy, from_numpy = numod.Tensor.numpy, numod.from_numpy
    monkeypatch.setattr(
        numod.Tensor, "numpy", lambda self, **kwargs: numpy(self if self.requires_grad else self.cpu(), **kwargs)
    )
    monkeypatch.setattr(numod, "from_numpy", lambda array: from_numpy(array).cuda())
    numod.set_default_device("cuda")
    yield
    numod.set_default_device(None)
    numod.cuda.synchronize()  # so that what a kernel reports fails this test


@pytest.fixture
def warn_always() -> Iterator[None]:
    """Warnings that are given once per process are given each time."""
    numod.set_warn_always(True)
    yield
    numod.set_warn_always(False)
