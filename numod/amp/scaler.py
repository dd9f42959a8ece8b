"""GradScaler: a factor on the loss that avoids underflow of float16 gradients. Not needed for float32 and bfloat16."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, overload

from ..errors import warn_caller
from .. import dtypes
from ..autograd import no_grad
from ..core.listeners import with_gradients
from ..core.create.creation import full
from ..core.functions import stack
from ..core.tensor import Tensor
from ..cuda import is_available


class GradScaler:
    """Scales losses, unscales gradients before the optimizer's step, and leaves the step out where one of them is not
    finite.

    `update` multiplies the scale by `backoff_factor` after such a step, and by `growth_factor` after `growth_interval`
    others in a row. With `enabled=False` it does nothing but call `optimizer.step()`; so it is, with a warning, for
    CUDA where there is none.

    The scale and the count of steps are tensors on the device of the first outputs, so that a compiled step changes
    them as any others.

    Example:

        >>> weight = nn.Parameter(torch.ones(1))
        >>> optimizer = optim.SGD([weight], lr=0.1)
        >>> scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        >>> scaler.scale(weight.sum()).backward()
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> weight
        Parameter containing:
        tensor([0.9000], requires_grad=True)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device == "cuda" and not is_available():
            warn_caller("numod.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._enabled, self._scale, self._growth_tracker = enabled, None, None
        self._init_scale, self._init_growth_tracker = float(init_scale), 0
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._all_finite: dict[
            int, bool
        ] = {}  # id of an optimizer whose gradients are unscaled -> whether all were finite
        self._stepped: set[int] = set()

    @overload
    def scale(self, outputs: Tensor) -> Tensor: ...
    @overload
    def scale(self, outputs: Iterable) -> Any: ...
    def scale(self, outputs: Tensor | Iterable) -> Any:
        """Tensors, or lists, tuples and mappings of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._scale = full((), self._init_scale, dtype=dtypes.float32, device=outputs.device)
                self._growth_tracker = full((), self._init_growth_tracker, dtype=dtypes.int32, device=outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, Mapping):
            return type(outputs)((key, self.scale(value)) for key, value in outputs.items())
        if isinstance(outputs, Iterable) and not isinstance(outputs, (str, bytes)):
            scaled = [self.scale(output) for output in outputs]
            return type(outputs)(scaled) if isinstance(outputs, (list, tuple)) else scaled
        raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}")

    def unscale_(self, optimizer: object) -> None:
        """Divide the gradients of the optimizer's parameters by the scale.

        Raises RuntimeError the second time between updates.
        """
        if not self._enabled:
            return
        self._check_in_use("unscale_")
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() is being called after step(); call it before.")
        if id(optimizer) in self._all_finite:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        gradients = [
            with_gradient.grad for group in optimizer.param_groups for with_gradient in with_gradients(group["params"])
        ]
        with no_grad():
            finite = [gradient.isfinite().all().to(self._scale.device) for gradient in gradients]
            self._all_finite[id(optimizer)] = not finite or stack(finite).all()._observe()
            factor = self._scale.double().reciprocal().float()
            for gradient in gradients:
                gradient.mul_(factor.to(gradient.device))

    def step(self, optimizer: object, *args: object, **kwargs: object) -> object:
        """`optimizer.step(...)`, after unscaling if that was not done yet, unless a gradient is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_in_use("step")
        if id(optimizer) in self._stepped:
            raise RuntimeError(
                "step() has already been called since the last update(); call update() after each step()."
            )
        if id(optimizer) not in self._all_finite:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return optimizer.step(*args, **kwargs) if self._all_finite[id(optimizer)] else None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adjust the scale by the overflows since the last update, or set it."""
        if not self._enabled:
            return
        self._check_in_use("update")
        if new_scale is not None:
            self._scale.fill_(new_scale)
        elif not self._all_finite:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif not all(self._all_finite.values()):
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.zero_()
        else:
            self._grow()
        self._all_finite.clear()
        self._stepped.clear()

    def _grow(self) -> None:
        """Count a step, and after an interval of them grow, unless that overflows."""
        self._growth_tracker.add_(1)
        due, grown = self._growth_tracker == self._growth_interval, self._scale * self._growth_factor
        self._scale.copy_(grown.where(due & grown.isfinite(), self._scale))
        self._growth_tracker.masked_fill_(due, 0)

    def _check_in_use(self, method: str) -> None:
        if self._scale is None:
            raise AssertionError(
                f"Attempted {method} but _scale is None.  This may indicate your script did not use scaler.scale(loss "
                "or outputs) earlier in the iteration."
            )

    def get_scale(self) -> float:
        """The scale; 1.0 if not enabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after an interval of finite steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set it; above 1."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """The factor of the scale after a step with gradients that were not finite."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set it; below 1."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """The number of finite steps in a row after which the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set it."""
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def state_dict(self) -> dict:
        """The scale, its rules, and the steps since it last changed; empty if not enabled."""
        if not self._enabled:
            return {}
        rules = {name: getattr(self, f"_{name}") for name in ("growth_factor", "backoff_factor", "growth_interval")}
        return {
            "scale": self.get_scale(),
            **rules,
            "_growth_tracker": self._init_growth_tracker
            if self._growth_tracker is None
            else self._growth_tracker.item(),
        }

    def load_state_dict(self, state_dict: dict) -> None:
        """Restore a state of `state_dict`. Raises RuntimeError for the empty state of a disabled scaler."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        for name in ("growth_factor", "backoff_factor", "growth_interval"):
            setattr(self, f"_{name}", state_dict[name])
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
