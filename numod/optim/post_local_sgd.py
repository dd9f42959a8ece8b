"""PostLocalSGDOptimizer: an optimizer after whose steps the ranks average their parameters now and then.

It is at PyTorch's path `numod.distributed.optim`.
"""

from __future__ import annotations

from typing import Any

from ..errors import warn_caller
from ..distributed.local_sgd import ModelAverager
from .optimizer import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps `optim`, then calls `averager.average_parameters`. Their counters are saved together.

    The averager's `warmup_steps` should be the `start_localSGD_iter` of the `PostLocalSGDState` that
    DistributedDataParallel's hook has.

    Examples:
        >>> import numod.distributed as dist
        >>> from numod.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> from numod.distributed.optim import PostLocalSGDOptimizer
        >>> dist.init_process_group("mpi")
        >>> model = numod.nn.Linear(2, 1)
        >>> averager = PeriodicModelAverager(period=4, warmup_steps=100)
        >>> optimizer = PostLocalSGDOptimizer(numod.optim.SGD(model.parameters(), lr=0.1), averager)
        >>> model(numod.ones(1, 2)).sum().backward()
        >>> optimizer.step()
        >>> optimizer.state_dict()["step"]
        1
        >>> dist.destroy_process_group()
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups, self.defaults = optim.param_groups, optim.defaults

    @property
    def state(self) -> Any:
        """The state of `optim`."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def step(self) -> None:
        """One step of `optim`; then the parameters are averaged, if it is time."""
        self.optim.step()
        self.averager.average_parameters(self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict) -> None:
        """Add a group to `optim`."""
        self.optim.add_param_group(param_group)

    def state_dict(self) -> dict:
        """That of `optim`, with the averager's counter as "step"."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict) -> None:
        """Load `optim` and the averager's counter. Warns if there is none: it then starts at 0."""
        self.optim.load_state_dict({name: value for name, value in state_dict.items() if name != "step"})
        self.averager.step = state_dict.get("step", 0)
        self.param_groups = self.optim.param_groups
        if "step" not in state_dict:
            warn_caller("Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.")
