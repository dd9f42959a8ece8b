"""Local SGD: ranks train apart, or in small groups, and average their parameters every few steps (Lin et al., 2018).

At PyTorch's paths `algorithms.model_averaging` and `algorithms.ddp_comm_hooks.post_localSGD_hook` of `distributed`. The
optimizer that averages after its step is `distributed.optim.PostLocalSGDOptimizer`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from ..errors import warn_caller
from ..core.tensor import Tensor
from ..futures import Future
from .coalesced import all_reduce_coalesced
from .comm_hooks import GradBucket, allreduce_hook
from .environment import position_in_job
from .group import ProcessGroup, default_group, get_world_size, is_member
from .reduce_op import ReduceOp
from .subgroups import new_subgroups

__all__ = [
    "HierarchicalModelAverager", "ModelAverager", "PeriodicModelAverager", "PostLocalSGDState", "average_parameters",
    "average_parameters_or_parameter_groups", "get_params_to_average", "post_localSGD_hook",
]  # fmt: skip
# `from numod.distributed.algorithms.model_averaging import averagers`
averagers = hierarchical_model_averager = utils = sys.modules[__name__]
_USELESS = "averaging parameters at every step costs as much as DistributedDataParallel, which averages gradients"


# ---- averages of parameters


def average_parameters(params: Iterable[Tensor], process_group: ProcessGroup | None) -> None:
    """Average the parameters over the ranks of the group, in place, by one collective for each dtype."""
    group = default_group(process_group)
    if not is_member(group):
        return
    kinds: dict[object, list[Tensor]] = {}
    for parameter in params:
        kinds.setdefault(parameter.dtype, []).append(parameter.detach())
    for tensors in kinds.values():
        all_reduce_coalesced(tensors, ReduceOp.AVG, group)


def get_params_to_average(params: Iterable[Tensor | dict]) -> list[Tensor]:
    """The parameters that have a gradient, of `model.parameters()` or of an optimizer's `param_groups`."""
    groups = [entry["params"] if isinstance(entry, dict) else [entry] for entry in params]
    parameters = [parameter for group in groups for parameter in group]
    for parameter in parameters:
        if not isinstance(parameter, Tensor):
            raise NotImplementedError(
                f"average_parameters: expected parameters or an optimizer's param_groups, got {type(parameter)}"
            )
    return [parameter for parameter in parameters if parameter.grad is not None]


def average_parameters_or_parameter_groups(params: Iterable, process_group: ProcessGroup | None) -> None:
    """Average those of `get_params_to_average`."""
    average_parameters(get_params_to_average(params), process_group)


class ModelAverager(ABC):
    """Averages parameters over a group, the default one for None; `step` counts the calls of `average_parameters`."""

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        self.process_group = default_group(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable) -> None:
        """Average the parameters, if it is time. Call it after each step of the optimizer."""


def _checked_warmup(warmup_steps: int) -> int:
    if warmup_steps < 0:
        raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
    return warmup_steps


class PeriodicModelAverager(ModelAverager):
    """Averages parameters every `period` steps, after `warmup_steps` steps.

    Examples:
        >>> import numod.distributed as dist
        >>> from numod.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> dist.init_process_group("mpi")
        >>> model = numod.nn.Linear(2, 1)
        >>> averager = PeriodicModelAverager(period=4, warmup_steps=100)
        >>> averager.average_parameters(model.parameters())
        >>> averager.step
        1
        >>> dist.destroy_process_group()
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: ProcessGroup | None = None) -> None:
        super().__init__(process_group)
        self.warmup_steps = _checked_warmup(warmup_steps)
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warn_caller(f"PeriodicModelAverager: the period is 1; {_USELESS}")
        self.period = period

    def average_parameters(self, params: Iterable) -> None:
        """Average the parameters that have gradients, of a model or of an optimizer's groups, if it is time."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1


class HierarchicalModelAverager(ModelAverager):
    """Averages parameters in small groups often, in larger ones less often, after `warmup_steps` steps.

    `period_group_size_dict` is {period in steps: ranks of a group}, with growing periods. The last group is the whole
    one. Where several periods end, the largest group averages.
    """

    def __init__(
        self,
        period_group_size_dict: Mapping[int, int] | None = None,
        warmup_steps: int = 0,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        periods, sizes = list(period_group_size_dict), list(period_group_size_dict.values())
        if periods[0] <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if periods[-1] == 1:
            warn_caller(f"HierarchicalModelAverager: the largest period is 1; {_USELESS}")
        whole = get_world_size(self.process_group)
        if sizes[-1] != whole:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` {sizes[-1]} must be equal to the size of arg "
                f"``process_group`` {whole}."
            )
        self.warmup_steps = _checked_warmup(warmup_steps)
        self.period_process_group_dict = OrderedDict(
            (period, self.process_group if size == whole else new_subgroups(size, self.process_group)[0])
            for period, size in period_group_size_dict.items()
        )

    def average_parameters(self, params: Iterable) -> None:
        """Average the parameters that have gradients, of a model or of an optimizer's groups, if it is time."""
        group = self._find_process_group() if self.step >= self.warmup_steps else None
        if group is not None:
            average_parameters_or_parameter_groups(params, group)
        self.step += 1

    def _find_process_group(self) -> ProcessGroup | None:
        """The group of the largest period that ends at this step, or None."""
        periods = reversed(self.period_process_group_dict.items())
        return next((group for period, group in periods if self.step % period == 0), None)


# ---- a hook of DistributedDataParallel


class PostLocalSGDState:
    """The state of `post_localSGD_hook`: `iter` iterations have averaged gradients over `process_group`.

    From iteration `start_localSGD_iter` on, `subgroup` averages them, by default the ranks of a machine, or nobody with
    post_local_gradient_allreduce=False.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        subgroup: ProcessGroup | None,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group = process_group
        self.subgroup = subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count an iteration at its last bucket."""
        self.iter += int(bucket.is_last())


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future:
    """Average gradients over all ranks at first, then over those of a subgroup. A model averager does the rest."""
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        alone: Future = Future()
        alone.set_result(bucket.buffer())
        return alone
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups(position_in_job()[3])  # the ranks of this machine
    return allreduce_hook(state.subgroup, bucket)
