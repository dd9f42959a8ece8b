"""Names that begin with an underscore, or are undocumented, and that libraries and model files import."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import pytest

import numod
from numod import nn


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
