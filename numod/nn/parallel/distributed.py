"""DistributedDataParallel: the same module on all ranks, each with its part of the batch.

Parameters and buffers are broadcast when it is made; gradients are averaged by a `Reducer` during backward.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ... import distributed as dist
from ...autograd import Function, is_grad_enabled, no_grad
from ...core.create.values import tensor
from ...core.shape.joining import cat
from ...core.tensor import Tensor
from ...distributed.comm_hooks import BUILTIN, compressing
from ...distributed.device_mesh import DeviceMesh
from ...distributed.group import NOT_INITIALIZED, ProcessGroup
from ...distributed.reducer import Reducer
from ...dtypes import dtype as DType
from ..module import Module
from ..utils.stateless import call_with

__all__ = ["DistributedDataParallel"]
_MEGABYTE = 1 << 20


@dataclass
class _MixedPrecision:
    """The argument `mixed_precision` of DistributedDataParallel. None leaves floating-point tensors as they are.

    - `param_dtype`: of inputs and parameters in forward and backward. Outside, parameters and gradients keep theirs.
    - `reduce_dtype`: in which gradients are sent and summed; without it `param_dtype`.
    - `buffer_dtype`: of buffers, also in the state dict.
    """

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    buffer_dtype: DType | None = None


class _Join:
    """The settings of a running `join`."""

    def __init__(self, by_initial_size: bool, raises: bool) -> None:
        self.by_initial_size, self.raises = by_initial_size, raises


class _Sink(Function):
    """Passes outputs on. Its backward, the first of a pass, calls `report` with whether the loss uses each."""

    @staticmethod
    def forward(ctx: Any, report: Callable[[list[bool]], None], *outputs: Tensor) -> tuple:
        ctx.report = report
        ctx.set_materialize_grads(False)
        return tuple(output.clone() for output in outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple:
        ctx.report([g is not None for g in grads])
        return None, *grads


def _through_sink(outputs: Any, reducer: Reducer) -> Any:
    """The outputs, in nested tuples, lists and dicts, with their tensors passed through a `_Sink`."""
    tensors: list[Tensor] = []
    _mapped(outputs, lambda tensor: tensors.append(tensor) if tensor.requires_grad else None)
    if not tensors:
        return outputs
    report = reducer.reporter(tensors, outputs)
    passed = iter(_Sink.apply(report, *tensors))
    return _mapped(outputs, lambda tensor: next(passed) if tensor.requires_grad else tensor)


def _mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """The value with its tensors replaced by a function of them."""
    if isinstance(value, Tensor):
        return function(value)
    if type(value) in (list, tuple):
        return type(value)([_mapped(part, function) for part in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_mapped(part, function) for part in value])
    if type(value) in (dict, OrderedDict):
        return type(value)((key, _mapped(part, function)) for key, part in value.items())
    return value


def _lowered(tensor: Tensor, dtype: DType) -> Tensor:
    """A floating-point tensor in another dtype; others as they are."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


class DistributedDataParallel(Module):
    """Calls `module`, and averages its gradients over the ranks of the group in each backward pass.

    `bucket_cap_mb` bounds the gradients that are reduced together. `find_unused_parameters` allows parameters that take
    no part in an output, `static_graph` too, if they are the same in all iterations. With `gradient_as_bucket_view`,
    `.grad` is a view of a bucket, which saves a copy. `broadcast_buffers` copies rank 0's buffers before each forward
    call; `forward_sync_buffers` is its newer name. `bucket_cap_mb_list` bounds each bucket. `device_mesh`, a DeviceMesh
    of one dimension, can replace `process_group`. `mixed_precision` is a
    `nn.parallel.distributed._MixedPrecision(param_dtype, reduce_dtype, buffer_dtype)`: forward and backward compute
    with copies of the parameters in `param_dtype`, and gradients are sent in `reduce_dtype`. Arguments about when a
    parameter is reduced or copied have no effect: `delay_all_reduce_named_params`, `skip_all_reduce_unused_params`,
    `batched_grad_copy`. Raises ValueError without a process group, RuntimeError for a module without trainable
    parameters or other ones than the other ranks have.
    """

    def __init__(
        self,
        module: Module,
        device_ids: list | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        if device_mesh is not None:
            process_group = self._group_of(device_mesh, process_group)
        if mixed_precision is not None and not isinstance(mixed_precision, _MixedPrecision):
            raise TypeError(
                "mixed_precision: expected numod.nn.parallel.distributed._MixedPrecision(param_dtype=...), got "
                f"{mixed_precision!r}"
            )
        self.mixed_precision = mixed_precision
        self.process_group = dist.group.WORLD if process_group is None else process_group
        if self.process_group is None:
            raise ValueError(NOT_INITIALIZED)
        _check_devices(module, device_ids, output_device)
        self.module, self.device_ids, self.output_device, self.dim = module, device_ids, output_device, dim
        self.device = next(iter(module.parameters()), tensor(0)).device
        shares = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.broadcast_buffers = self.forward_sync_buffers = True if shares is None else bool(shares)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self._joining: _Join | None = None
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        trained = self._trained()
        if not trained:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        if mixed_precision is not None and mixed_precision.buffer_dtype is not None:
            for buffer in self._buffers_to_share():
                buffer.data = _lowered(buffer, mixed_precision.buffer_dtype)
        if init_sync:
            self._check_alike(trained)
            self._synchronize(
                [tensor for name, tensor in module.state_dict(keep_vars=True).items() if name not in ignored]
            )
        sizes = bucket_cap_mb_list or ([1, 25] if bucket_cap_mb is None else [bucket_cap_mb])
        self.bucket_limits = [int(size * _MEGABYTE) for size in sizes]
        self._start_reducer(trained)

    def _start_reducer(self, trained: dict[str, Tensor]) -> None:
        self.reducer = Reducer(
            list(trained.values()), list(trained), self.process_group, self.bucket_limits, self.find_unused_parameters,
            self.gradient_as_bucket_view, self.static_graph,
        )  # fmt: skip
        dtypes = self.mixed_precision
        if dtypes is not None and (dtype := dtypes.reduce_dtype or dtypes.param_dtype) is not None:
            self.register_comm_hook(self.process_group, compressing(dtype, "mixed_precision_hook"))

    def _group_of(self, device_mesh: DeviceMesh, process_group: ProcessGroup | None) -> ProcessGroup:
        """The group of a mesh of one dimension. Raises RuntimeError for other ones, or if a group was given too."""
        if process_group is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if not isinstance(device_mesh, DeviceMesh):
            raise TypeError(f"device_mesh: expected a numod.distributed.DeviceMesh, got {type(device_mesh).__name__}")
        if device_mesh.ndim != 1:
            raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
        self.device_mesh = device_mesh
        return device_mesh.get_group(0)

    def _trained(self) -> dict[str, Tensor]:
        """The parameters whose gradients are averaged, by name."""
        return {
            name: parameter
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and name not in self.parameters_to_ignore
        }

    def _check_alike(self, trained: dict[str, Tensor]) -> None:
        """Raise RuntimeError unless all ranks have parameters of the same shapes and dtypes."""
        signature = [(name, tuple(parameter.shape), str(parameter.dtype)) for name, parameter in trained.items()]
        every: list = [None] * self.process_group.size()
        dist.all_gather_object(every, signature, self.process_group)
        for rank, other in zip(self.process_group.ranks, every):
            if [entry[1:] for entry in other] != [entry[1:] for entry in every[0]]:
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but Rank {self.process_group.ranks[0]} has "
                    f"{len(every[0])} params, while rank {rank} has inconsistent {len(other)} params: "
                    f"{next((pair for pair in zip(every[0], other) if pair[0] != pair[1]), '')}"
                )

    def _synchronize(self, values: list, source: int = 0) -> None:
        """Give all ranks the tensors of one, a broadcast for each dtype."""
        kinds: dict[Any, list[Tensor]] = {}
        for entry in values:
            if isinstance(entry, Tensor) and entry.numel():
                kinds.setdefault((entry.dtype, entry.device), []).append(entry)
        with no_grad():
            for tensors in kinds.values():
                flat = cat([entry.detach().reshape(-1) for entry in tensors])
                dist.broadcast(flat, group=self.process_group, group_src=source)
                for entry, part in zip(tensors, flat.split([entry.numel() for entry in tensors])):
                    entry.detach().copy_(part.view(entry.shape))

    def _buffers_to_share(self) -> list[Tensor]:
        ignored = self.parameters_to_ignore
        return [buffer for name, buffer in self.module.named_buffers() if name not in ignored]

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        reduces = is_grad_enabled() and self.require_backward_grad_sync
        if is_grad_enabled():
            self.reducer.check_finished()
        source = self._announce(reduces) if self._joining is not None else 0
        if self.will_sync_module_buffers():
            self._synchronize(self._buffers_to_share(), source)
        output = self._call(inputs, kwargs)
        if reduces:
            self.reducer.prepare(output)
            if self.find_unused_parameters and not self.static_graph:
                output = _through_sink(output, self.reducer)
        elif is_grad_enabled():
            self.reducer.cancel()
        if self.require_forward_param_sync is not reduces:
            self.require_forward_param_sync = reduces
        return output

    def _call(self, inputs: tuple, kwargs: dict[str, Any]) -> Any:
        """The module's result; with `mixed_precision`, of the inputs and copies of the parameters in its dtype."""
        dtype = None if self.mixed_precision is None else self.mixed_precision.param_dtype
        if dtype is None:
            return self.module(*inputs, **kwargs)
        inputs, kwargs = _mapped((inputs, kwargs), lambda tensor: _lowered(tensor, dtype))
        copies = {
            name: _lowered(parameter, dtype)
            for name, parameter in self.module.named_parameters()
            if name not in self.parameters_to_ignore
        }
        return call_with(self.module, copies, inputs, kwargs, tie_weights=True, strict=False)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Context in which backward passes only accumulate gradients; the first one after it reduces their sum."""
        former, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = former

    def register_comm_hook(self, state: Any, hook: Callable) -> None:
        """Reduce each bucket of gradients by `hook(state, bucket)`, which returns a Future of the average.

        The `bucket` is a `numod.distributed.GradBucket`. Hooks that send fewer bits are in
        `numod.distributed.algorithms.ddp_comm_hooks.default_hooks`. Call it once, before the first backward pass.
        Raises TypeError for what is no function, and RuntimeError for a second hook.
        """
        if not callable(hook):
            raise TypeError(f"Communication hook must be callable. Got {type(hook).__name__}")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.hook = state, hook

    def _register_builtin_comm_hook(self, comm_hook_type: dist.BuiltinCommHookType) -> None:
        """Reduce by a hook of `BuiltinCommHookType`."""
        self.register_comm_hook(self.process_group, BUILTIN[comm_hook_type])

    def _set_static_graph(self) -> None:
        """The same as static_graph=True. Raises RuntimeError after the first iteration."""
        if self.reducer.started:
            raise RuntimeError("_set_static_graph should be called before training loop starts.")
        self.static_graph = self.reducer.static_graph = self.reducer.find_unused = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Iterable) -> None:
        """Leave parameters and buffers, by name, to the caller. Call it before the module is wrapped."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward call copies rank 0's buffers."""
        return self.require_forward_param_sync and self.broadcast_buffers and bool(self._buffers_to_share())

    def train(self, mode: bool = True) -> DistributedDataParallel:
        """Set the mode of this module and of the one it wraps."""
        super().train(mode)
        return self

    # ---- ranks with different numbers of batches

    @contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[DistributedDataParallel]:
        """Context for training loops in which ranks may have different numbers of batches.

        A rank that has finished takes part in the others' collectives with zeros until all have. Then all ranks get the
        model of the last one. Gradients are divided by the number of ranks, or of those with batches left.
        """
        if not enable:
            yield self
            return
        self._joining = _Join(divide_by_initial_world_size, throw_on_early_termination)
        try:
            yield self
            self._shadow()
        finally:
            self._joining, self.reducer.divisor = None, self.process_group.size()

    def _announce(self, reduces: bool) -> int:
        """Announce this iteration to ranks that have finished; returns a rank of the group that has not finished."""
        active, _, source = self._state_of_all(True, reduces)
        if self._joining.raises and active < self.process_group.size():
            raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        if not self._joining.by_initial_size:
            self.reducer.divisor = active
        return source

    def _state_of_all(self, is_active: bool, reduces: bool) -> tuple[int, int, int]:
        """(ranks with batches left, those whose backward pass will reduce, the last rank with batches left)."""
        group_rank = self.process_group.group_rank
        state = [0] * (self.process_group.size() + 1)
        state[group_rank], state[-1] = int(is_active), int(is_active and reduces)
        shared = tensor(state)
        dist.all_reduce(shared, group=self.process_group)
        *active, reducing = shared.tolist()
        return sum(active), reducing, max((rank for rank, left in enumerate(active) if left), default=-1)

    def _shadow(self) -> None:
        """Take part in the iterations of the ranks that have batches left; then get the last one's model."""
        last, syncs = self.process_group.group_rank, self.require_forward_param_sync
        while True:
            active, reducing, source = self._state_of_all(False, False)
            if not active:
                break
            if self._joining.raises:
                raise RuntimeError(
                    f"Rank {self.process_group.ranks[self.process_group.group_rank]} exhausted all inputs."
                )
            last = source
            if syncs and self.broadcast_buffers and (buffers := self._buffers_to_share()):
                self._synchronize(buffers, source)
            if reducing:
                self.reducer.shadow()
            syncs = bool(reducing)
        # the ranks that finished last report themselves, the others a rank that finished later
        every = [None] * self.process_group.size()
        dist.all_gather_object(every, last, self.process_group)
        source = max(rank for rank, chosen in enumerate(every) if rank == chosen)
        self._synchronize([*self.module.parameters(), *self._buffers_to_share()], source)

    # ---- copies and files

    def __getstate__(self) -> dict:
        state = dict(super().__getstate__() if hasattr(super(), "__getstate__") else self.__dict__)
        for name in ("reducer", "process_group"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict) -> None:
        """Restore a pickled module in the default group."""
        super().__setstate__(state)
        self.process_group = dist.group.WORLD
        if self.process_group is None:
            raise ValueError(NOT_INITIALIZED)
        self._start_reducer(self._trained())


def _check_devices(module: Module, device_ids: list | None, output_device: Any) -> None:
    """Raise ValueError for device ids of a module on the CPU, as PyTorch does."""
    devices = {parameter.device for parameter in module.parameters()}
    if device_ids and any(device.type == "cpu" for device in devices):
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with single-device/"
            f"multiple-device GPU modules or CPU modules, but got device_ids {device_ids}, output_device "
            f"{output_device}, and module parameters {devices}."
        )
