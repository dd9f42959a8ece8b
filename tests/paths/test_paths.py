"""PyTorch's paths lead to numod's files, and the namespaces that model files ask answer."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import numod
from numod import nn, paths


@pytest.mark.parametrize("path", sorted(paths.HOMES))
def test_every_path_is_its_home(path: str) -> None:
    home = importlib.import_module(f"numod.{paths.HOMES[path]}")
    assert (
        importlib.import_module(f"numod.{path}") is home
        and home.__spec__.name == f"numod.{paths.HOMES[path]}" == home.__name__
    )


def test_functions_keep_names_of_submodules() -> None:
    code = """
import sys, numod
sys.modules["torch"] = numod
import torch.multiprocessing.spawn
import torch.multiprocessing as mp
from torch.multiprocessing.spawn import ProcessException
import numod.multiprocessing.spawn
import torch._functorch.vmap, numod.nn.parallel.data_parallel
assert not isinstance(numod.func.vmap, type(sys)) and not isinstance(numod.nn.parallel.data_parallel, type(sys))
assert callable(mp.spawn) and mp.spawn is numod.multiprocessing.spawn and mp.ProcessException is ProcessException
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_forks_of_scripts_run_at_once() -> None:
    from numod import jit

    assert jit.wait(jit.fork(lambda x, scale: x * scale, 3, scale=2)) == 6 == jit._wait(jit._fork(lambda: 6))


def test_paths_give_what_pytorch_has_there() -> None:
    from numod.nn.modules.activation import MultiheadAttention
    from numod.nn.parallel.distributed import DistributedDataParallel
    from numod.nn.parallel.scatter_gather import scatter
    from numod.optim.adamw import AdamW
    from numod.optim.lr_scheduler import _LRScheduler
    from numod.optim.optimizer import Optimizer, required
    from numod.utils.hooks import RemovableHandle

    assert (
        MultiheadAttention is nn.MultiheadAttention
        and AdamW is numod.optim.AdamW
        and _LRScheduler is numod.optim.lr_scheduler.LRScheduler
    )
    assert issubclass(AdamW, Optimizer) and "required" in repr(required) and RemovableHandle is nn.hooks.RemovableHandle
    assert (
        numod.optim.adamw.AdamW is AdamW
        and numod.utils.hooks is nn.hooks
        and numod.nn.utils.clip_grad.clip_grad_norm_ is nn.utils.clip_grad_norm_
    )
    assert (
        numod.amp.grad_scaler.GradScaler is numod.GradScaler
        and nn.modules.loss.LinearCrossEntropyLoss is nn.LinearCrossEntropyLoss
    )
    assert DistributedDataParallel is nn.parallel.DistributedDataParallel and scatter((1, 2), [0]) == [(1, 2)]
    with pytest.raises(ModuleNotFoundError, match=r"numod\.optim\.nothing"):
        importlib.import_module("numod.optim.nothing")


def test_there_is_one_process() -> None:
    assert not numod.distributed.is_initialized() and numod.cpu.device_count() == 1
    with pytest.raises(ValueError, match="process group has not been initialized"):
        numod.distributed.get_rank()
    model = nn.DataParallel(nn.Linear(2, 3))
    assert list(model.state_dict()) == ["module.weight", "module.bias"] and model(numod.ones(1, 2)).shape == (1, 3)
    assert not numod.overrides.has_torch_function((1,)) and numod.overrides.is_tensor_like(numod.ones(1))


def test_scripts_choose_a_device() -> None:
    import numod.xpu

    there = numod.cuda.is_available()
    assert numod.accelerator.is_available() is there and numod.accelerator.current_accelerator() == (
        numod.device("cuda") if there else None
    )
    assert not any((numod.mps.is_available(), numod.xpu.is_available(), numod.mtia.device_count()))


def test_attention_runs_under_any_choice_of_kernels() -> None:
    from numod.nn.attention import SDPBackend, sdpa_kernel

    x = numod.rand(1, 2, 3, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert nn.functional.scaled_dot_product_attention(x, x, x).shape == x.shape


def test_importing_numod_loads_none_of_it() -> None:
    code = (
        "import sys, numod; print([each for each in sys.modules if each.startswith('numod.paths.') and each != "
        "'numod.paths.virtual_modules'])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_options_that_choose_among_pytorchs_ways_are_taken(tmp_path) -> None:
    x = numod.ones(2, dtype=numod.float64, requires_grad=True)
    assert numod.autograd.gradcheck(lambda x: x**2, (x,), fast_mode=True, nondet_tol=1e-5, check_batched_grad=False)
    assert numod.autograd.gradgradcheck(
        lambda x: x**3, (x,), gen_non_contig_grad_outputs=True, check_fwd_over_rev=False
    )
    assert numod.func.jacrev(lambda x: x**2, chunk_size=1)(numod.ones(2)).tolist() == [[2, 0], [0, 2]]
    with pytest.raises(ValueError, match="chunk_size"):
        numod.func.jacrev(lambda x: x, chunk_size=0)
    with pytest.raises(ValueError, match="chunk_size"):
        numod.func.vmap(lambda x: x, chunk_size=0)
    numod.save({"a": x.detach()}, tmp_path / "a.pth", pickle_protocol=4, _use_new_zipfile_serialization=True)
    assert numod.load(tmp_path / "a.pth")["a"].tolist() == [1, 1]
    assert [
        numod.finfo(dtype).resolution for dtype in (numod.float16, numod.bfloat16, numod.float32, numod.float64)
    ] == [
        1e-3,
        1e-2,
        1e-6,
        1e-15,
    ]


def test_errors_in_pytorchs_words() -> None:
    with pytest.raises(RuntimeError, match=r"assign a gradient of size '\[3\]' to a tensor of size '\[2\]'"):
        numod.ones(2, requires_grad=True).grad = numod.ones(3)
    with pytest.raises(IndexError, match="index out of range in self"):
        nn.Embedding(3, 2)(numod.tensor([3]))


def test_modules_of_devices():
    assert (
        numod.get_device_module("cpu") is numod.cpu and numod.get_device_module(numod.device("cuda", 0)) is numod.cuda
    )
    assert numod.get_device_module() is (numod.cuda if numod.cuda.is_available() else numod.cpu)
    with pytest.raises(RuntimeError, match="no.*module|not have"):
        numod.get_device_module("meta")


def test_under_another_name_numod_is_no_second_copy() -> None:
    # in a process of its own, as it changes sys.modules
    code = """
import sys, numod
sys.modules["torch"] = numod
import torch.nn.functional, torch.optim.lr_scheduler, torch.optim.adamw
from torch.nn.modules.linear import Linear
from torch.utils.data import DataLoader
assert torch.nn.functional is numod.nn.functional and torch.nn.functional.__name__ == "numod.nn.functional"
assert Linear is numod.nn.Linear and DataLoader is numod.utils.data.DataLoader
assert torch.optim.adamw.AdamW is numod.optim.AdamW
assert isinstance(torch.nn.Linear(2, 3)(numod.ones(1, 2)), numod.Tensor)
try:
    import torch.absent
except ModuleNotFoundError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "No module named 'torch.absent'\n"
