"""ZeroRedundancyOptimizer: each rank keeps the optimizer state of a part of the parameters only.

Rajbhandari et al., 2020, "ZeRO", stage 1. It is at PyTorch's path `numod.distributed.optim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import distributed as dist
from ..autograd import no_grad
from ..core.shape.joining import cat
from ..core.tensor import Tensor
from ..distributed.group import NOT_INITIALIZED
from ..errors import name_only
from .optimizer import Optimizer
from .post_local_sgd import PostLocalSGDOptimizer

__all__ = ["PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]
_INSTEAD = "use DistributedDataParallel, with ZeroRedundancyOptimizer where optimizer state is large"
DistributedOptimizer = name_only("distributed.optim.DistributedOptimizer", _INSTEAD)


class ZeroRedundancyOptimizer(Optimizer):
    """Steps `optimizer_class(params, **defaults)` for this rank's part of the parameters, then shares the results.

    Parameters go, the largest first, to the rank that has the fewest elements. `state_dict` needs
    `consolidate_state_dict` before, on all ranks. Raises ValueError without a process group, and for
    `overlap_with_ddp`.
    """

    def __init__(
        self,
        params: Iterable,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise ValueError("ZeroRedundancyOptimizer: overlap_with_ddp is not supported; leave it out")
        self.process_group = dist.group.WORLD if process_group is None else process_group
        if self.process_group is None:
            raise ValueError(NOT_INITIALIZED)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._optimizer_class, self._options = optimizer_class, defaults
        self._every_state: list[dict] | None = None
        self.optim: Optimizer | None = None
        super().__init__(params, defaults)
        self._divide()

    def _divide(self) -> None:
        """Choose each parameter's rank, and make the optimizer of this rank's ones."""
        group = self.process_group
        loads = [0] * group.size()
        self._owners: dict[Tensor, int] = {}
        everything = [parameter for part in self.param_groups for parameter in part["params"]]
        for parameter in sorted(everything, key=Tensor.numel, reverse=True):
            owner = loads.index(min(loads))
            self._owners[parameter] = owner
            loads[owner] += parameter.numel()
        own_groups = [
            {
                **part,
                "params": [parameter for parameter in part["params"] if self._owners[parameter] == group.group_rank],
            }
            for part in self.param_groups
        ]
        former = self.optim
        self.optim = self._optimizer_class(own_groups, **self._options)
        if former is not None:
            self.optim.state.update(
                {parameter: state for parameter, state in former.state.items() if parameter in self._owners}
            )
        for part, local_group in zip(self.param_groups, self.optim.param_groups):
            for name, value in local_group.items():
                part.setdefault(name, value)

    def add_param_group(self, param_group: dict) -> None:
        """Add a group of parameters, on all ranks."""
        super().add_param_group(param_group)
        if self.optim is not None:
            self._divide()

    def step(self, closure: Callable | None = None, **options: Any) -> Any:
        """Step this rank's parameters, and get the others from their ranks. Returns the closure's loss."""
        for group, local_group in zip(self.param_groups, self.optim.param_groups):  # schedulers set the former
            local_group.update({name: value for name, value in group.items() if name != "params"})
        loss = self.optim.step(**options) if closure is None else self.optim.step(closure, **options)
        self._share()
        return loss

    def _share(self) -> None:
        """Broadcast each rank's parameters, those of one dtype together."""
        kinds: dict[tuple, list[Tensor]] = {}
        for parameter, owner in self._owners.items():
            kinds.setdefault((owner, parameter.dtype, parameter.device), []).append(parameter)
        with no_grad():
            works = []
            for (owner, *_), members in kinds.items():
                flat = cat([parameter.detach().reshape(-1) for parameter in members])
                work = dist.broadcast(flat, group=self.process_group, group_src=owner, async_op=True)
                works.append((work, owner, flat, members))
            for work, owner, flat, members in works:
                work.wait()
                if owner != self.process_group.group_rank:
                    for parameter, part in zip(members, flat.split([parameter.numel() for parameter in members])):
                        parameter.detach().copy_(part.view(parameter.shape))

    def join_hook(self, **options: Any) -> None:
        """Raises NotImplementedError: use DistributedDataParallel.join with an optimizer on each rank."""
        raise NotImplementedError(
            "ZeroRedundancyOptimizer: join is DistributedDataParallel's; use it with SGD or AdamW"
        )

    # ---- files

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather all ranks' states on rank `to`, where `state_dict` returns them."""
        local_states = [self.optim.state.get(parameter) for parameter in self._owners]
        received = [None] * self.process_group.size() if self.process_group.group_rank == to else None
        dist.gather_object(local_states, received, group=self.process_group, group_dst=to)
        self._every_state = received

    def state_dict(self) -> dict:
        """The state of all parameters, as `optimizer_class` has it in one process: it resumes on any number of ranks.

        Raises RuntimeError on ranks that did not consolidate it.
        """
        if self._every_state is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.process_group.group_rank})` on all ranks beforehand if you meant to save the global state."
            )
        states = {
            parameter: self._every_state[owner][number]
            for number, (parameter, owner) in enumerate(self._owners.items())
        }
        everything = [parameter for part in self.param_groups for parameter in part["params"]]
        numbers = {parameter: number for number, parameter in enumerate(everything)}
        groups = [
            {**part, "params": [numbers[parameter] for parameter in part["params"]]} for part in self.param_groups
        ]
        state = {numbers[parameter]: value for parameter, value in states.items() if value}
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict) -> None:
        """Load the state of all parameters; each rank keeps its part."""
        super().load_state_dict(state_dict)
        self.optim.state.clear()
        for parameter, owner in self._owners.items():
            if owner == self.process_group.group_rank and parameter in self.state:
                self.optim.state[parameter] = self.state[parameter]
        self.state.clear()
