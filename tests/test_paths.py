"""PyTorch's paths lead to numod's files, and the namespaces that model files ask answer."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import types
from collections import OrderedDict, namedtuple
from pathlib import Path

import pytest

import numod
from numod import nn, paths

ROOT = Path(numod.__file__).parents[1]


@pytest.mark.parametrize("path", sorted(paths.HOMES))
def test_every_path_is_its_home(path: str) -> None:
    home = importlib.import_module(f"numod.{paths.HOMES[path]}")
    assert (
        importlib.import_module(f"numod.{path}") is home
        and home.__spec__.name == f"numod.{paths.HOMES[path]}" == home.__name__
    )


def test_private_names_that_libraries_import() -> None:
    from numod._jit_internal import BroadcastingList2, Final, boolean_dispatch  # noqa: F401
    from numod._utils import ExceptionWrapper, _flatten_dense_tensors, _get_device_index, _take_tensors
    from numod._utils import _reorder_tensors_as, _unflatten_dense_tensors, classproperty
    from numod.distributed.elastic.multiprocessing.errors import ChildFailedError, record
    from numod.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from numod.distributed.fsdp import FullyShardedDataParallel
    from numod.distributed.fsdp.wrap import transformer_auto_wrap_policy  # noqa: F401
    from numod.optim.optimizer import ParamsT, StateDict  # noqa: F401
    from numod.torch_version import TorchVersion, __version__
    from numod.types import FileLike
    from numod.utils._contextlib import _DecoratorContextManager
    from numod.utils.data._utils.collate import default_collate_err_msg_format, default_collate_fn_map  # noqa: F401

    from numod._C import _LinAlgError, default_generator, layout
    from numod._jit_internal import Dict, List, Optional, Tuple  # noqa: F401
    from numod.cuda._utils import _get_device_index as index_of
    from numod.nn.modules.conv import _size_2_t  # noqa: F401
    from numod.optim.optimizer import _capturable_doc, _foreach_doc, _maximize_doc, _params_doc  # noqa: F401
    from numod.optim.optimizer import _default_to_fused_or_foreach, _disable_dynamo_if_unsupported, _get_value
    from numod.optim.optimizer import _use_grad_for_differentiable

    assert index_of is _get_device_index and _LinAlgError is numod.linalg.LinAlgError and layout is numod.layout
    assert default_generator is numod.default_generator and _get_value(numod.tensor(2.0)) == _get_value(2.0) == 2.0
    assert (
        _use_grad_for_differentiable(numod.is_grad_enabled)() is False and _disable_dynamo_if_unsupported()(len) is len
    )
    assert _default_to_fused_or_foreach([], False) == (False, False)
    chosen = boolean_dispatch("flag", 1, False, lambda x, flag: "yes", lambda x, flag=False: "no", "home", "choose")
    assert (chosen(1), chosen(1, True), chosen(1, flag=True), chosen.__name__) == ("no", "yes", "yes", "choose")
    assert isinstance(__version__, TorchVersion) and isinstance("a", FileLike.__args__[:1]) and record(len) is len
    for absent in (ChildFailedError, FullyShardedDataParallel, checkpoint_wrapper):
        with pytest.raises(NotImplementedError, match="numod has no distributed"):
            absent()
    try:
        int("x")
    except ValueError:
        wrapped = ExceptionWrapper(where="in worker 3")
    with pytest.raises(ValueError, match=r"Caught ValueError in worker 3\.\nOriginal Traceback"):
        wrapped.reraise()
    parts = numod.ones(2, 3), numod.zeros(4)
    flat = _flatten_dense_tensors(parts)
    assert [part.shape for part in _unflatten_dense_tensors(flat, parts)] == [(2, 3), (4,)] and flat.sum().item() == 6
    assert [len(group) for group in _take_tensors(parts, 24)] == [1, 1] and len(next(_take_tensors(parts, 99))) == 2
    assert _reorder_tensors_as(parts, parts)[1] is parts[1]
    assert (
        _get_device_index("cuda:1") == 1 and _get_device_index(2) == 2 and _get_device_index("cpu", allow_cpu=True) < 0
    )
    with pytest.raises(ValueError, match="Expected a non cpu device"):
        _get_device_index("cpu")

    class Scaled(_DecoratorContextManager):
        entered = 0
        name = classproperty(lambda cls: cls.__name__)

        def __enter__(self) -> None:
            type(self).entered += 1

        def __exit__(self, *error: object) -> None:
            pass

    double = Scaled()(lambda x: 2 * x)
    assert (double(1), double(2), Scaled.entered, Scaled.name) == (2, 4, 2, "Scaled")


def test_private_names_that_model_files_import(tmp_path) -> None:
    from numod._C import Generator, Size, device, dtype
    from numod._lowrank import svd_lowrank
    from numod._vmap_internals import vmap
    from numod.cuda.amp.autocast_mode import autocast
    from numod.cuda.amp.grad_scaler import GradScaler
    from numod.distributions.kl import _KL_REGISTRY
    from numod.nn import _reduction
    from numod.nn.modules.module import _addindent
    from numod.nn.modules.transformer import _generate_square_subsequent_mask
    from numod.nn.modules.utils import _list_with_default
    from numod.serialization import default_restore_location
    from numod.utils._pytree import tree_flatten, tree_structure, tree_unflatten
    from numod.utils.checkpoint import check_backward_validity, detach_variable
    from numod.utils.data._utils.worker import WorkerInfo, get_worker_info

    assert (Generator, Size, device, dtype) == (numod.Generator, numod.Size, numod.device, numod.dtype)
    assert svd_lowrank.__name__ == "svd_lowrank" and vmap is numod.func.vmap
    assert autocast is numod.cuda.amp.autocast and GradScaler is numod.cuda.amp.GradScaler
    assert (numod.distributions.Normal, numod.distributions.Normal) in _KL_REGISTRY
    assert [_reduction.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.raises(ValueError, match="least is not a valid value for reduction"):
        _reduction.get_enum("least")
    with pytest.warns(UserWarning, match="please use reduction='sum'"):
        assert _reduction.legacy_get_enum(False, None) == 2
    assert _addindent("a\nb", 2) == "a\n  b" and _generate_square_subsequent_mask(2)[0, 1] == float("-inf")
    assert _list_with_default([None, 3], [2, 4, 5]) == [4, 3] and _list_with_default(7, [1]) == 7
    with pytest.raises(ValueError, match="at least 3"):
        _list_with_default([None, 3], [2, 4])
    leaves, spec = tree_flatten({"a": 1, "b": (2, 3)})
    assert tree_unflatten(leaves, tree_structure({"a": 0, "b": (0, 0)})) == tree_unflatten(leaves, spec)
    assert get_worker_info() is None and "seed" in WorkerInfo._fields

    x = numod.ones(2, requires_grad=True)
    detached, number = detach_variable((2 * x, 5))
    assert detached.is_leaf and detached.requires_grad and number == 5
    check_backward_validity([x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        check_backward_validity([x.detach()])
    numod.save({"x": x.detach()}, tmp_path / "x.pt")
    loaded = numod.load(
        tmp_path / "x.pt", map_location=lambda storage, location: default_restore_location(storage, "cpu")
    )
    assert loaded["x"].tolist() == [1, 1]
    weight = numod.empty(3)
    assert nn.init._no_grad_fill_(weight, 2.0) is weight and weight.tolist() == [2, 2, 2]
    assert nn.init._no_grad_zero_(weight).sum() == 0 and nn.init._no_grad_uniform_(weight, 1.0, 2.0).min() >= 1
    assert nn.init._no_grad_trunc_normal_(weight, 0.0, 1.0, -1.0, 1.0).abs().max() <= 1
    assert nn.init._no_grad_normal_(weight, 50.0, 1.0).min() > 0


def test_private_names_of_layers_attention_and_pruning() -> None:
    import numod.nn.functional as F
    from numod import _C
    from numod._C._nn import _parse_to, gelu
    from numod.autograd.grad_mode import _DecoratorContextManager
    from numod.fx.graph_module import _CodeOnlyModule, _copy_attr
    from numod.fx.proxy import Proxy, TraceError  # noqa: F401
    from numod.nn.functional import _canonical_mask, _in_projection, _in_projection_packed, _mha_shape_check
    from numod.nn.functional import _Reduction, _get_softmax_dim, _pair, _verify_batch_size, has_torch_function
    from numod.nn.modules.conv import _ConvTransposeMixin, _pair as pair_of_conv, _reverse_repeat_tuple
    from numod.nn.modules.module import _addindent, _global_forward_hooks, register_module_forward_hook
    from numod.nn.modules.normalization import _shape_t
    from numod.nn.modules.padding import _ntuple  # noqa: F401
    from numod.nn.modules.pooling import _MaxUnpoolNd, _size_2_t, _triple
    from numod.nn.parallel._functions import Scatter
    from numod.nn.utils.prune import _compute_nparams_toprune, _validate_pruning_amount, _validate_pruning_amount_init

    assert F.torch is numod and F.Tensor is numod.Tensor and _Reduction is nn._reduction and F.linear is not None
    with pytest.raises(AttributeError, match="has no attribute 'max_pol2d'"):
        getattr(F, "max_pol2d")  # noqa: B009
    assert (
        not has_torch_function((numod.ones(1),)) and _pair(2) == pair_of_conv(2) == (2, 2) and _triple(1) == (1, 1, 1)
    )
    assert _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1) and _addindent("a\nb", 2) == "a\n  b"
    assert _parse_to("cpu", numod.float64) == _C._nn._parse_to("cpu", numod.float64) and gelu is F.gelu
    assert isinstance(nn.ConvTranspose2d(1, 1, 2), _ConvTransposeMixin) and isinstance(nn.MaxUnpool2d(2), _MaxUnpoolNd)
    assert isinstance(2, _shape_t) and isinstance((2, 2), tuple) and _size_2_t is not None
    assert isinstance(numod.inference_mode(), _DecoratorContextManager) and issubclass(
        numod.no_grad, _DecoratorContextManager
    )

    seen = []
    with_hook = register_module_forward_hook(lambda module, inputs, output: seen.append(type(module)))
    assert len(_global_forward_hooks) == 1
    nn.Identity()(numod.ones(1))
    with_hook.remove()
    assert seen == [nn.Identity] and not _global_forward_hooks

    q, k, w, b = numod.randn(3, 2, 4), numod.randn(5, 2, 4), numod.randn(12, 4), numod.randn(12)
    together, apart = _in_projection_packed(q, q, q, w, b), _in_projection_packed(q, q.clone(), q.clone(), w, b)
    assert all(numod.allclose(x, y) and x.is_contiguous() for x, y in zip(together, apart))
    parts = _in_projection(q, k, k, *w.chunk(3), *b.chunk(3))
    assert all(numod.allclose(x, y) for x, y in zip(parts, _in_projection_packed(q, k, k, w, b)))
    with pytest.raises(AssertionError, match=r"expecting key weights shape of \(4, 4\)"):
        _in_projection(q, k, k, w[:4], w[:4, :2], w[:4])
    assert _mha_shape_check(q, k, k, None, None, 2) and not _mha_shape_check(q[:, 0], k[:, 0], k[:, 0], None, None, 2)
    with pytest.raises(AssertionError, match="to be 3-D but found 2-D and 3-D"):
        _mha_shape_check(q, k[0], k, None, None, 2)
    mask = _canonical_mask(numod.tensor([True, False]), "mask", None, "other", numod.float64)
    assert mask.tolist() == [float("-inf"), 0.0] and mask.dtype is numod.float64
    with pytest.raises(AssertionError, match="only bool and floating types of mask"):
        _canonical_mask(numod.tensor([1]), "mask", None, "other", numod.float32)
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert _get_softmax_dim("softmax", 3, 2) == 0
    _verify_batch_size([1, 3, 2])
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        _verify_batch_size([1, 3, 1])
    weight = numod.full((2, 2), 3.0)
    F._no_grad_embedding_renorm_(weight, numod.tensor([[1]]), 1.0, 2.0)
    assert weight[0].tolist() == [3, 3] and abs(weight[1].norm().item() - 1) < 1e-5

    assert (_compute_nparams_toprune(0.5, 7), _compute_nparams_toprune(3, 7)) == (round(3.5), 3)
    with pytest.raises(ValueError, match="smaller than the number of parameters to prune=2"):
        _validate_pruning_amount(3, 2)
    with pytest.raises(TypeError, match="Must be int or float"):
        _validate_pruning_amount_init("many")
    for absent in (Scatter, _CodeOnlyModule, _copy_attr):
        with pytest.raises(NotImplementedError, match="numod has no"):
            absent()


def test_private_names_of_loaders_trees_and_schedules() -> None:
    from numod import optim
    from numod._functorch.eager_transforms import grad
    from numod._utils import _element_size, _import_dotted_name, _rebuild_parameter
    from numod.nn.parallel import data_parallel, gather, parallel_apply, replicate
    from numod.nn.parallel.scatter_gather import scatter_kwargs
    from numod.optim.lr_scheduler import _enable_get_lr_call, _warn_get_lr_called_within_step
    from numod.optim.optimizer import _get_scalar_dtype, _to_scalar, _view_as_real
    from numod.utils import _pytree as trees
    from numod.utils._foreach_utils import _group_tensors_by_device_and_dtype, _has_foreach_support
    from numod.utils._triton import has_triton
    from numod.utils.data import IterableDataset, TensorDataset, default_collate
    from numod.utils.data._utils.fetch import _MapDatasetFetcher
    from numod.utils.data._utils.pin_memory import pin_memory
    from numod.utils.data.dataloader import _DatasetKind, _InfiniteConstantSampler, _utils

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(3))

    rows = TensorDataset(numod.arange(4))
    assert _DatasetKind.create_fetcher(_DatasetKind.Map, rows, True, default_collate, False).fetch([3, 1])[
        0
    ].tolist() == [3, 1]
    assert _MapDatasetFetcher(rows, False, lambda sample: sample[0].item(), False).fetch(2) == 2
    stream = _DatasetKind.create_fetcher(_DatasetKind.Iterable, Stream(), True, default_collate, False)
    assert [stream.fetch([None, None]).tolist(), stream.fetch([None, None]).tolist()] == [[0, 1], [2]]
    with pytest.raises(StopIteration):
        stream.fetch([None])
    assert next(iter(_InfiniteConstantSampler())) is None and _utils.collate.default_collate is default_collate
    assert pin_memory({"a": [1]}) == {"a": [1]}

    tree = {"a": [1, 2], "b": (OrderedDict(c=3), namedtuple("P", "x")(4))}
    paths_of = trees.tree_leaves_with_path(tree)
    assert [trees.keystr(path) for path, _ in paths_of] == ["['a'][0]", "['a'][1]", "['b'][0]['c']", "['b'][1].x"]
    assert all(trees.key_get(tree, path) == leaf for path, leaf in paths_of)
    named_leaves = trees.tree_map_with_path(lambda path, x, y: (len(path), x + y), tree, tree)
    assert named_leaves["b"][0]["c"] == (3, 6) and list(trees.tree_iter(tree)) == [1, 2, 3, 4]
    assert trees.tree_flatten_with_path(tree)[0] == paths_of and trees.tree_map_(print, [], []) == []

    groups = _group_tensors_by_device_and_dtype([[numod.ones(1), numod.ones(1).double(), numod.zeros(1)], []], True)
    (floats, places), (_, others) = groups.values()
    assert places == [0, 2] and others == [1] and floats[0][1].item() == 0 and floats[1] == []
    assert _has_foreach_support([numod.ones(1)], numod.device("cpu")) and not has_triton()
    complexes = [numod.tensor([1 + 2j])]
    _view_as_real(complexes)
    assert complexes[0].tolist() == [[1, 2]] and _to_scalar(numod.ones(1)).ndim == 0 and _to_scalar(2.0) == 2.0
    assert _get_scalar_dtype() is numod.float32 and _element_size(numod.float64) == 8
    assert _import_dotted_name("numod.nn.Linear") is nn.Linear and grad is numod.func.grad
    assert isinstance(_rebuild_parameter(numod.ones(2), False, None), nn.Parameter)

    class Halved(optim.lr_scheduler.LRScheduler):
        def get_lr(self) -> list[float]:
            _warn_get_lr_called_within_step(self)
            return [group["lr"] / 2 for group in self.optimizer.param_groups]

    schedule = Halved(optim.SGD([nn.Parameter(numod.ones(1))], lr=1.0))
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        schedule.get_lr()
    with _enable_get_lr_call(schedule):
        assert schedule.get_lr() == [0.25]

    layer, x = nn.Linear(2, 3), numod.ones(4, 2)
    assert numod.equal(data_parallel(layer, x), layer(x)) and replicate(layer, [0]) == [layer]
    assert numod.equal(gather(parallel_apply([layer, layer], [x, (x,)]), 0), numod.cat([layer(x)] * 2))
    joined = gather([{"a": numod.ones(()), "b": None}] * 2, 0)
    assert joined["a"].tolist() == [1, 1] and joined["b"] is None
    assert scatter_kwargs((x,), None, [0]) == (((x,),), ({},))
    with pytest.raises(ValueError, match="replicate: numod uses one device, got 2"):
        replicate(layer, [0, 1])
    with pytest.raises(AssertionError, match="number of modules 1 is not equal"):
        parallel_apply([layer], [x, x])


_FAILING = """
import os, signal, sys, time
import numod.multiprocessing as mp

def fail(number, how):
    if number:
        time.sleep(60)  # ended by the process that started it
    if how == "raise":
        raise ValueError("the reason" * 50_000)  # more than a pipe holds
    os.kill(os.getpid(), signal.SIGKILL) if how == "signal" else os._exit(3)

def square(number, results):
    results.put(number**2)

if __name__ == "__main__":
    from numod.multiprocessing.spawn import ProcessContext, ProcessExitedException, ProcessRaisedException

    for how, kind, text in (
        ("raise", ProcessRaisedException, "-- Process 0 terminated with the following error"),
        ("signal", ProcessExitedException, "process 0 terminated with signal SIGKILL"),
        ("exit", ProcessExitedException, "process 0 terminated with exit code 3"),
    ):
        try:
            mp.start_processes(fail, (how,), 2, start_method="fork")
        except kind as error:
            assert text in str(error) and error.error_index == 0 and error.error_pid > 0, error
            assert how != "raise" or "ValueError: the reason" in str(error)
        else:
            raise AssertionError(how)
    results = mp.get_context("spawn").SimpleQueue()
    context = mp.spawn(square, (results,), 2, join=False)
    assert isinstance(context, ProcessContext) and len(context.pids()) == 2
    while not context.join(timeout=60):
        continue
    assert {results.get(), results.get()} == {0, 1}
    print("done")
"""


def test_processes_fail_as_pytorchs(tmp_path) -> None:
    """The error of the first that fails, at once: the others are ended."""
    script = tmp_path / "failing.py"
    script.write_text(_FAILING)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100)
    assert run.stdout == "done\n", run.stderr


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


def test_marks_for_compilers_change_nothing() -> None:
    @numod.jit.script
    def double(x: numod.Tensor) -> numod.Tensor:
        return x * 2

    class Layer(nn.Module):
        size: numod.jit.Final[int] = 3

        @numod.jit.export
        def forward(self, x):
            return double(x) if not numod.jit.is_scripting() and not numod.jit.is_tracing() else x

        @numod.jit.ignore(drop=True)
        def other(self):
            return 1

        @numod.jit.unused
        def third(self):
            return 2

    assert issubclass(numod.jit.TracerWarning, Warning)
    layer = numod.jit.script(Layer())
    assert not isinstance(layer, numod.jit.ScriptModule) and not isinstance(double, numod.jit.ScriptFunction)
    assert (
        layer(numod.ones(2)).tolist() == [2, 2]
        and layer.other() == 1
        and layer.third() == 2
        and numod.fx.wrap("double") == "double"
    )
    assert (
        numod.jit.isinstance([1], list[int])
        and not numod.compiler.is_compiling()
        and numod.compiler.disable(double) is double
    )


def test_the_progress_bar_of_hub_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("tqdm")
    package.tqdm = list
    monkeypatch.setitem(sys.modules, "tqdm", package)
    from numod.hub import tqdm

    assert tqdm is list
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(NotImplementedError, match="install the package tqdm"):
        numod.hub.tqdm([])


def test_imports_of_vision_libraries_work() -> None:
    from numod._dynamo.utils import is_compile_supported
    from numod.hub import HASH_REGEX, _get_torch_home, get_dir
    from numod.jit.annotations import BroadcastingList2, List

    @numod.jit._script_if_tracing
    def first(boxes: List[int], size: BroadcastingList2[int] = (1, 2)) -> int:
        return boxes[0]

    assert first([3]) == 3 and not is_compile_supported("cpu") and not numod.onnx.is_in_onnx_export()
    assert numod.onnx.symbolic_helper.parse_args("v")(first) is first and numod.onnx.symbolic_opset11
    assert numod._C._log_api_usage_once("library.Layer") is None and numod._C._get_tracing_state() is None
    assert HASH_REGEX.search("net-0a1b.pth") and get_dir().startswith(_get_torch_home())


BACKENDS = """
class TorchBackend:
    def __init__(self):
        raise ImportError("no torch here")

    def is_appropriate_type(self, tensor):
        return isinstance(tensor, self.torch.Tensor)
"""


@pytest.mark.parametrize("first", ["numod", "einops._backends"])
def test_einops_has_a_backend_for_tensors(first: str, tmp_path) -> None:
    (tmp_path / "einops").mkdir()
    (tmp_path / "einops" / "__init__.py").write_text("")
    (tmp_path / "einops" / "_backends.py").write_text(BACKENDS)
    program = (
        f"import {first}, numod; from einops import _backends; own = _backends.TorchBackend.__subclasses__(); "
        "print([each.framework_name for each in own], own[0]().is_appropriate_type(numod.ones(1)), "
        "own[0]().is_appropriate_type(1))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert finished.stdout == "['numod'] True False\n", finished.stderr


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


def test_weights_from_a_url(tmp_path) -> None:
    weights = nn.Linear(2, 3).state_dict()
    numod.save(weights, tmp_path / "there.pth")
    url = (tmp_path / "there.pth").as_uri()
    result = numod.hub.load_state_dict_from_url(url, str(tmp_path / "kept"))
    assert numod.equal(result["weight"], weights["weight"]) and (tmp_path / "kept" / "there.pth").exists()
    with pytest.raises(RuntimeError, match="invalid hash value"):
        numod.hub.download_url_to_file(url, str(tmp_path / "x"), "00000000")


def test_trees() -> None:
    from numod.utils._pytree import tree_flatten, tree_map, tree_unflatten

    tree = {"a": [1, (2, 3)], "b": 4}
    leaves, spec = tree_flatten(tree)
    assert leaves == [1, 2, 3, 4] and tree_unflatten([leaf * 2 for leaf in leaves], spec) == tree_map(
        lambda leaf: leaf * 2, tree
    ) == {"a": [2, (4, 6)], "b": 8}


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


def test_settings_of_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    import numod._dynamo.config
    import numod._inductor.config as tuning

    def double(x: str) -> str:
        return x * 2

    monkeypatch.setattr(tuning, "coordinate_descent_tuning", True, raising=False)
    monkeypatch.setattr(numod._dynamo.config, "recompile_limit", 2)
    function, other = numod.compile(double, name="twice"), numod.compile(double, recompile_limit=0)
    with pytest.warns(
        UserWarning,
        match="twice was recorded 2 times, the last time because of argument 0: 'b' was recorded, got 'c'; it runs "
        "eagerly from here",
    ):
        assert "".join(map(function, "abcd")) == "aabbccdd"
    with pytest.warns(UserWarning, match="double was recorded 0 times"):
        assert other("a") == "aa"
    with pytest.raises(RuntimeError, match="Invalid backend: 'nimble'"):
        numod.compile(double, backend="nimble")
    x = numod.ones(2)
    numod._dynamo.mark_dynamic(x, 0, min=1)
    numod._dynamo.mark_static(x)
    assert (
        "inductor" in numod._dynamo.list_backends()
        and not numod.compiler.is_exporting()
        and numod._dynamo.graph_break() is None
    )


def test_registered_classes_are_trees() -> None:
    from numod.utils import _pytree as pytree

    class Pair:
        def __init__(self, first: object, second: object) -> None:
            self.first, self.second = first, second

    pytree.register_pytree_node(Pair, lambda pair: ([pair.first, pair.second], None), lambda parts, _: Pair(*parts))
    doubled = pytree.tree_map(lambda x: 2 * x, {"a": Pair(1, [2, 3])})["a"]
    assert (doubled.first, doubled.second) == (2, [4, 6]) and pytree.tree_leaves([Pair(1, 2), 3]) == [1, 2, 3]
    slope = numod.func.grad(lambda pair: (pair.first * pair.second).sum())(Pair(numod.ones(2), numod.full((2,), 3.0)))
    assert slope.first.tolist() == [3, 3] and slope.second.tolist() == [1, 1]
    nodes, tree = pytree.SUPPORTED_NODES, OrderedDict(a=(1, [2]), b=Pair(3, 4))

    def structure(tree: object) -> object:
        kind = pytree._get_node_type(tree)
        if kind not in nodes:
            return pytree.LeafSpec()
        parts, context = nodes[kind].flatten_fn(tree)
        return pytree.TreeSpec(kind, context, [structure(part) for part in parts])

    made = pytree.tree_unflatten(pytree.tree_leaves(tree), structure(tree))
    assert type(made) is OrderedDict and made["a"] == (1, [2]) and (made["b"].first, made["b"].second) == (3, 4)
    triple = namedtuple("Triple", "a b c")
    parts, context = pytree._namedtuple_flatten(triple(1, 2, 3))
    assert parts == [1, 2, 3] and pytree._namedtuple_unflatten(parts, context) == triple(1, 2, 3)
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(Pair, list, list)


@pytest.mark.parametrize("path", sorted(paths.virtual_modules.MODULES))
def test_names_of_absent_parts_import_and_say_so(path: str) -> None:
    module = importlib.import_module(f"numod.{path}")
    for name in module.__all__:
        attribute = getattr(module, name)
        assert not isinstance(numod.ones(1), attribute) and (attribute | None)
        for use in (attribute, attribute.anything, type("Derived", (attribute,), {})):
            with pytest.raises(NotImplementedError, match=rf"numod has no {path}\.{name}.*: \w+"):
                use(1)


def test_names_in_modules_that_are_there() -> None:
    assert (
        numod.distributed.device_mesh.DeviceMesh is importlib.import_module("numod.distributed.device_mesh").DeviceMesh
    )
    mesh_names = importlib.import_module("numod.distributed.tensor")
    assert mesh_names.DeviceMesh is numod.distributed.DeviceMesh
    assert mesh_names.init_device_mesh is numod.distributed.init_device_mesh
    assert numod.ops.aten.add.Tensor is numod.ops.aten.add.Tensor and numod.torch is numod
    for use in (numod.distributed.shrink_group, numod.cuda.CUDAGraph, numod.fx.Tracer, numod.ops.aten.add.Tensor):
        with pytest.raises(NotImplementedError, match="numod has no "):
            use()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = numod.distributed.nothing
    assert isinstance(numod.ones(2).untyped_storage(), numod.UntypedStorage) and "numba" in numod.__config__.show()
    assert numod.ScriptModule is numod.jit.ScriptModule and numod._dynamo.mark_static_address(numod.ones(1)) is None
    assert (
        numod.functional.einsum is numod.einsum
        and numod.functional.F is numod.nn.functional
        and issubclass(numod._C.Value, object)
    )
    assert numod._C._nn._parse_to("cpu", numod.float64) == (numod.device("cpu"), numod.float64, False, None)
    numod._assert_async(numod.tensor(True))
    with pytest.raises(RuntimeError, match="too large"):
        numod._assert_async(numod.tensor(False), "too large")
    assert (
        not isinstance(3, numod.SymInt)
        and not isinstance(numod.ones(1), numod.TensorType)
        and numod.serialization.DEFAULT_PROTOCOL == 2
    )
    assert importlib.import_module("numod.utils.data._utils.collate").np_str_obj_array_pattern.search("U")
    with numod._C.DisableTorchFunctionSubclass():
        assert not numod._C._are_functorch_transforms_active()
    assert numod.sparse_coo != numod.strided == numod.ones(1).layout
    with pytest.raises(TypeError, match="must be numod.strided, not numod.sparse_coo"):
        numod.zeros(2, layout=numod.sparse_coo)


def test_operators_of_libraries() -> None:
    @numod.library.custom_op("mine::cube", mutates_args=())
    def cube(x: numod.Tensor, times: float = 1.0) -> numod.Tensor:
        return x.detach() ** 3 * times

    assert numod.ops.mine.cube is cube is cube.default
    numod.library.register_fake("mine::cube", lambda x, times: x)
    numod.library.register_autograd(
        "mine::cube", lambda ctx, g: (g * 3 * ctx.saved_tensors[0] ** 2 * ctx.times, None),
        setup_context=lambda ctx, inputs, output: (ctx.save_for_backward(inputs[0]), setattr(ctx, "times", inputs[1])),
    )  # fmt: skip
    x = numod.tensor([1.0, 2.0], requires_grad=True)
    for call in (cube(x, 2.0), numod.ops.mine.cube(x, times=2.0)):
        assert call.tolist() == [2.0, 16.0] and numod.autograd.grad(call.sum(), x)[0].tolist() == [6.0, 24.0]
    for name in ("cube", "attention::cube"):
        with pytest.raises(ValueError, match="a namespace of your own"):
            numod.library.custom_op(name, abs)
    with pytest.raises(RuntimeError, match="there is no operator 'mine::other'"):
        numod.library.register_autograd("mine::other", abs)


def test_torchvision_s_start_finds_no_operators_of_c_and_goes_on() -> None:
    with pytest.raises(OSError, match=r"numod loads no operators written in C\+\+, as those in _C\.so"):
        numod.ops.load_library("_C.so")
    keys = numod._C.DispatchKeySet(numod._C.DispatchKey.AutocastCPU) | numod._C.DispatchKeySet(
        numod._C.DispatchKey.AutocastCUDA
    )
    assert keys == {"AutocastCPU", "AutocastCUDA"}
    importlib.import_module("numod._custom_ops")


def test_accelerate_asks_whether_a_module_is_compiled() -> None:
    assert not isinstance(nn.Linear(1, 1), numod._dynamo.eval_frame.OptimizedModule)
    with pytest.raises(AttributeError, match=r"numod\._dynamo.*nothing"):
        print(numod._dynamo.nothing)


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
