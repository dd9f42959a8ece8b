"""Each row of the guide's page on limits has a test here, which fails when the row is no longer true."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import numod
from numod import nn
from numod.testing import assert_close

PAGE = Path(numod.__file__).parent / "guide" / "limits.md"
ROWS = [
    line.split("|")[1].strip()
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| what")
]
TESTS: dict[str, Callable[[], None]] = {}


def row(name: str) -> Callable[[Callable], Callable]:
    """Register a test of the row that starts with `name`."""

    def register(test: Callable) -> Callable:
        TESTS[name] = test
        return test

    return register


def runs_eagerly(function: Callable, *arguments: object, text: str = "") -> None:
    """A compiled `function` warns that it runs eagerly, and gives the right result all the same."""
    compiled = numod.compile(function)
    with pytest.warns(UserWarning, match=text):
        compiled(*arguments)
        compiled(*arguments)


@row("sparse layouts")
def _() -> None:
    with pytest.raises(NotImplementedError, match="to_sparse"):
        numod.ones(2).to_sparse()
    with pytest.raises(AttributeError, match="sparse"):
        numod.sparse_coo_tensor  # noqa: B018
    indices, values = numod.tensor([[0, 0, 1], [1, 1, 0]]), numod.tensor([1.0, 2.0, 3.0])
    dense = numod.zeros(2, 2).index_put_(tuple(indices), values, accumulate=True)
    assert dense.tolist() == [[0.0, 3.0], [3.0, 0.0]]


@row("float8")
def _() -> None:
    with pytest.raises(TypeError, match="float8_e4m3fn"):
        numod.zeros(2, dtype=numod.float8_e4m3fn)


@row("`uint16`, `uint32`, `uint64`")
def _() -> None:
    x = numod.tensor([1, 2, 65535], dtype=numod.uint16)
    assert (x * 2).tolist() == [2, 4, 65534] and x.masked_fill(x == 2, 0).count_nonzero().item() == 2
    with pytest.raises(NotImplementedError, match="not implemented for 'UInt16'.*int64"):
        x + 1


@row("16-bit floats on a CPU")
def _() -> None:
    x = numod.tensor([3e-4, 1.0, 1.0], dtype=numod.float16)
    assert x.element_size() == 2
    assert x.sum(dtype=numod.float32).item() == x.float().sum().item()


@row("`channels_last` results")
def _() -> None:
    x = numod.ones(1, 4, 6, 6).contiguous(memory_format=numod.channels_last)
    layers = [nn.Conv2d(4, 4, 3), nn.MaxPool2d(2), nn.Upsample(scale_factor=2), nn.GroupNorm(2, 4), nn.PixelShuffle(2)]
    assert not x.is_contiguous() and all(layer(x).is_contiguous() for layer in layers)
    assert numod.stack([x, x]).is_contiguous()
    assert layers[0].to(memory_format=numod.channels_last).weight.is_contiguous()


@row("strides of `linalg` and `fft` results")
def _() -> None:
    x = numod.eye(3).expand(2, 3, 3)
    assert numod.linalg.inv(x).is_contiguous() and numod.fft.fft(x, dim=0).is_contiguous()


@row("in-place writes that overlap an input (`x[1:].add_(x[:-1])`)")
def _() -> None:
    x = numod.arange(3.0)
    x[1:].add_(x[:-1])
    assert x.tolist() == [0, 1, 3]


@row("warnings of beta features and slow layouts")
def _() -> None:
    x = numod.ones(2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numod.ones(2).index_reduce(0, numod.tensor([0]), numod.ones(1), "prod")
        numod.utils.checkpoint.checkpoint(numod.exp, x)
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 1), 1)
        nn.Linear(2, 2).to(numod.complex64)
        numod.ones(2).storage()
        nn.Conv1d(1, 1, 2, padding="same")(numod.ones(1, 1, 4))


@row("`conj()` of a complex tensor")
def _() -> None:
    x = numod.ones(2, dtype=numod.complex64)
    assert x.conj().data_ptr() != x.data_ptr() and not x.conj().is_conj()


@row("complex chains in compiled functions")
def _() -> None:
    compiled = numod.compile(lambda x: (x * 2 + 1) * x)
    x = numod.ones(3, dtype=numod.complex64)
    assert_close(compiled(x), (x * 2 + 1) * x)
    assert sum("fused" in str(step).lower() for step in compiled.graph.steps) == 0


@row("random numbers")
def _() -> None:
    numod.manual_seed(0)
    assert abs(numod.rand(1).item() - 0.4962566) > 1e-3  # PyTorch's first number for this seed


@row("a second GPU")
def _() -> None:
    with pytest.raises(RuntimeError, match="CUDA"):
        numod.zeros(1, device="cuda:1")


@row("forward mode (`forward_ad`, `jvp`, `jacfwd`)")
def _() -> None:
    def cut(x: numod.Tensor) -> numod.Tensor:
        with numod.no_grad():
            return x * 2

    _, tangent = numod.func.jvp(cut, (numod.ones(2),), (numod.ones(2),))
    assert not tangent.any()  # PyTorch gives 2


@row("`differentiable=True` of optimizers")
def _() -> None:
    weight = numod.ones(1, requires_grad=True)
    weight.grad = numod.ones(1)
    with pytest.raises((NotImplementedError, RuntimeError, ValueError), match="in-place operation"):
        numod.optim.SGD([weight], lr=0.1, differentiable=True).step()


@row("`__torch_dispatch__`")
def _() -> None:
    with pytest.warns(UserWarning, match="__torch_dispatch__"):
        type("Dispatching", (numod.Tensor,), {"__torch_dispatch__": classmethod(lambda cls, *rest: None)})


@row("`vmap` over a branch on a value, `.numpy()`, `backward()`")
def _() -> None:
    calls = []

    def sign(x: numod.Tensor) -> numod.Tensor:
        calls.append(x)
        return x if x > 0 else -x

    assert numod.func.vmap(sign)(numod.tensor([-1.0, 2.0, -3.0])).tolist() == [1.0, 2.0, 3.0]
    assert len(calls) >= 3


@row("`__torch_function__` classes")
def _() -> None:
    class Labelled(numod.Tensor):
        pass

    compiled = numod.compile(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert type(compiled(numod.ones(2).as_subclass(Labelled))) is Labelled


@row("a branch on a tensor's value")
def _() -> None:
    runs_eagerly(lambda x: x + 1 if x.sum() > 0 else x - 1, numod.ones(2), text="truth of a tensor")


@row("appending to a list that outlives the call")
def _() -> None:
    history: list = []

    def step(x: numod.Tensor) -> numod.Tensor:
        history.append(1)
        return x + len(history)

    runs_eagerly(step, numod.ones(2))
    assert len(history) == 2


@row("`random`, `numpy.random`, clocks, `uuid`")
def _() -> None:
    runs_eagerly(lambda x: x + time.time(), numod.ones(2))


@row("`id(x)`, `x.data_ptr()`")
def _() -> None:
    runs_eagerly(lambda x: x + (x.data_ptr() > 0), numod.ones(2))


@row("`print`, logging, `warnings.warn`")
def _() -> None:
    printed = io.StringIO()
    compiled = numod.compile(lambda x: (print("called"), warnings.warn("warned", stacklevel=1), x + 1)[2])
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            compiled(numod.ones(2))
    assert 0 < printed.getvalue().count("called") < 3
    assert 0 < sum(str(entry.message) == "warned" for entry in caught) < 3


@row("a loss whose `backward()` ran inside")
def _() -> None:
    weight = numod.ones(2, requires_grad=True)

    @numod.compile
    def step() -> numod.Tensor:
        loss = (weight**2).sum()
        loss.backward()
        return loss

    assert not [step() for _ in range(4)][-1].requires_grad


@row("more than 8 versions")
def _() -> None:
    compiled = numod.compile(lambda x, mode: x + 1 if mode == "one" else x + len(mode))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for count in range(12):
            assert compiled(numod.zeros(1), "m" * count).item() == count
    assert caught  # that further calls run eagerly


@row("inside `utils.checkpoint`, saved-tensor hooks, anomaly mode")
def _() -> None:
    compiled = numod.compile(lambda x: x * 2)
    x = numod.ones(2, requires_grad=True)
    compiled(x), compiled(x)
    with numod.autograd.set_detect_anomaly(True):
        assert "Mul" in type(compiled(x).grad_fn).__name__  # eager nodes, not the compiled function's


@row("replaced functions of the module `builtins`")
def _() -> None:
    import builtins

    original, compiled = builtins.len, numod.compile(lambda x: x + len("abc"))
    assert [compiled(numod.zeros(1)).item() for _ in range(2)] == [3.0, 3.0]
    try:
        builtins.len = lambda text: 100
        after = compiled(numod.zeros(1)).item()
    finally:
        builtins.len = original
    assert after == 3.0


@row("`lock.locked()`, files, hash objects and other state in C")
def _() -> None:
    import threading

    lock = threading.Lock()
    runs_eagerly(lambda x: x + lock.locked(), numod.ones(1), text="cannot compare them from call to call")


@row("settings that only functions of Python's library can read (`mimetypes`, `ast.dump`)")
def _() -> None:
    import ast

    tree = ast.parse("a")
    compiled = numod.compile(lambda x: x + len(ast.dump(tree)))
    before = compiled(numod.zeros(1)).item()
    assert compiled(numod.zeros(1)).item() == before
    tree.body.append(ast.Pass())
    assert compiled(numod.zeros(1)).item() == before


@row("NaN among masked attention values")
def _() -> None:
    q = numod.ones(1, 1, 2048, 16)
    v = numod.ones(1, 1, 2048, 16)
    v[..., -1, :] = float("nan")
    out = nn.functional.scaled_dot_product_attention(q, q, v, is_causal=True)
    assert out[..., 0, :].isfinite().all()


@row("loops in Python")
def _() -> None:
    def repeat(x: numod.Tensor, count: int) -> numod.Tensor:
        for _ in range(count):
            x = x @ x
        return x

    compiled = numod.compile(lambda x: repeat(x, 5))
    compiled(numod.eye(3))
    assert len(compiled.graph.steps) >= 5


@row("pickled objects in a checkpoint")
def _() -> None:
    file = io.BytesIO()
    numod.save({"path": Path("x")}, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Path"):
        numod.load(file)


@row("modules in checkpoints from before PyTorch 1.6")
def _() -> None:
    file = io.BytesIO()
    for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
        pickle.dump(part, file, protocol=2)
    file.write(b"\x80\x02ctorch.nn.modules.linear\nLinear\nq\x00)\x81.")
    file.seek(0)
    with pytest.raises((pickle.UnpicklingError, NotImplementedError, RuntimeError)):
        numod.load(file, weights_only=False)


@row("TorchScript archives")
def _() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("net/constants.pkl", b"\x80\x02).")
        archive.writestr("net/data.pkl", b"\x80\x02c__torch__\nNet\n.")
        archive.writestr("net/code/__torch__.py", "class Net: pass")
        archive.writestr("net/version", b"3\n")
    file.seek(0)
    with pytest.raises((pickle.UnpicklingError, RuntimeError, ValueError)):
        numod.load(file)


@row("`CUDAGraph` recorded by hand")
def _() -> None:
    with pytest.raises(NotImplementedError, match="CUDAGraph"):
        numod.cuda.CUDAGraph()


@row("observation types and root modules of a `BackendConfig`")
def _() -> None:
    from numod.ao.quantization.backend_config import BackendConfig, BackendPatternConfig, DTypeConfig, ObservationType

    mapping, x = numod.ao.quantization.get_default_qconfig_mapping("onednn"), numod.ones(1, 2)
    pattern = BackendPatternConfig(nn.Linear).add_dtype_config(DTypeConfig(numod.quint8, numod.quint8, numod.qint8))
    pattern.set_observation_type(ObservationType.INPUT_OUTPUT_NOT_OBSERVED).set_root_module(nn.Conv2d)
    config = BackendConfig().set_backend_pattern_config(pattern)
    prepared = numod.ao.quantization.prepare_fx(
        nn.Sequential(nn.Linear(2, 2)).eval(), mapping, (x,), backend_config=config
    )
    assert "activation_post_process_1" in dict(prepared.named_modules())


@row("a graph-mode model that makes other calls than its example")
def _() -> None:
    class Branch(nn.Module):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return x.relu() if len(x) > 1 else x.mean(0)

    mapping = numod.ao.quantization.QConfigMapping()
    prepared = numod.ao.quantization.prepare_fx(Branch(), mapping, numod.ones(1, 2))
    with pytest.raises(RuntimeError, match="the model calls Tensor.relu"):
        prepared(numod.ones(2, 2))


@row("`quantize_jit`, `prepare_jit` and other functions of TorchScript")
def _() -> None:
    with pytest.raises(NotImplementedError, match="prepare_fx"):
        numod.ao.quantization.quantize_jit(nn.Linear(2, 2), {})


@row('a docstring read by a function in C (`re`, `json`, `"".join`)')
def _() -> None:
    assert "Args:" in numod.sum.__doc__ and "Args:" in json.loads(json.dumps(str(numod.sum.__doc__)))
    assert "Args:" not in json.loads(json.dumps(numod.sum.__doc__))


@row("results of `nn.quantized.dynamic.Conv*`")
def _() -> None:
    layer = nn.Conv1d(1, 1, 1, bias=False)
    layer.weight.data.fill_(9.0)
    layer.qconfig = numod.ao.quantization.default_dynamic_qconfig
    result = nn.quantized.dynamic.Conv1d.from_float(layer)(numod.ones(1, 1, 1))
    assert abs(result.item() - 9) < 0.1  # PyTorch gives 1


@row("zeros of kernels larger than 1×1 in compiled functions, and of int8 convolutions in exported programs")
def _() -> None:
    from numod.ao.nn.quantized import Conv2d
    from numod.export import export, zeros
    from numod.ops.convolution.sparse import fits

    x, weight = numod.zeros(1, 4, 8, 8), numod.zeros(4, 4, 3, 3)
    assert not fits(x._layout, weight._layout, ((1, 1), (0, 0), (1, 1), 1, None))
    exported = export(Conv2d(4, 4, 1), (numod.quantize_per_tensor(x, 0.1, 0, numod.quint8),)).frozen()
    sparse = zeros.without_zeros(exported, measured=False)
    assert str(sparse.program) == str(exported.program)


@row("`DTensor`, `fully_shard`, RPC, `shrink_group`")
def _() -> None:
    from numod.distributed import fsdp, rpc, tensor

    for name in (tensor.DTensor, fsdp.fully_shard, rpc.init_rpc, numod.distributed.shrink_group):
        with pytest.raises(NotImplementedError, match="numod has no distributed"):
            name()


@contextlib.contextmanager
def one_rank():
    pytest.importorskip("mpi4py", reason='needs MPI: pip install -e ".[mpi]"')
    numod.distributed.init_process_group("mpi")
    try:
        yield numod.distributed.group.WORLD
    finally:
        numod.distributed.destroy_process_group()


@row("a compiled step with `find_unused_parameters` whose call leaves parameters unused")
def _() -> None:
    with one_rank():
        layers, x = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]), numod.ones(1, 2)
        layers.forward = lambda x: layers[0](x)
        trained = nn.parallel.DistributedDataParallel(layers, find_unused_parameters=True)
        step = numod.compile(lambda: trained(x).sum().backward())
        with pytest.warns(UserWarning, match="runs eagerly from here: tolist"):
            step()
        assert layers[0].weight.grad is not None and layers[1].weight.grad is None
        compiled = nn.parallel.DistributedDataParallel(numod.compile(layers), find_unused_parameters=True)
        compiled(x).sum().backward()
        assert layers[0].weight.grad.tolist() == [[2, 2], [2, 2]] and layers[1].weight.grad is None


@row("a rank that calls `os._exit(0)`")
def _() -> None:
    pytest.importorskip("mpi4py", reason='needs MPI: pip install -e ".[mpi]"')
    code = "import os, time; from mpi4py import MPI; os._exit(0) if MPI.COMM_WORLD.rank else time.sleep(100)"
    from numod.distributed import mpiexec

    command = mpiexec.command([sys.executable, "-c", code], 2)
    code = subprocess.run(command, capture_output=True, timeout=60).returncode
    # MPICH joins the exit codes of all ranks: 9 where it saw the other rank's end by SIGKILL before its own end
    assert mpiexec.is_open_mpi() or code in (0, signal.SIGKILL)


def test_each_row_has_a_test() -> None:
    assert sorted(TESTS) == sorted(ROWS)


@pytest.mark.parametrize("name", sorted(TESTS))
def test_the_row_is_true(name: str) -> None:
    TESTS[name]()
