"""Callbacks that modify the training step."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from .. import dtypes
from ..amp import GradScaler, autocast
from ..core.tensor import Tensor
from ..nn.normalization import _BatchNorm
from ..nn.utils import clip_grad_norm_
from ..optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from .events import (
    Callback,
    CancelBatchException,
    CancelStepException,
    CancelTrainException,
    CancelValidException,
)
from .metrics import batch_size


class MixedPrecision(Callback):
    """Run model and loss under autocast: `amp_mode` "fp16" with a gradient scaler, or "bf16" without.

    `options` are those of `GradScaler`. The loss is computed in float32.
    """

    order = 10

    def __init__(self, amp_mode: str = "fp16", **options: Any) -> None:
        if amp_mode not in ("fp16", "bf16"):
            raise ValueError(f"MixedPrecision: amp_mode must be 'fp16' or 'bf16', got {amp_mode!r}")
        self.amp_mode, self.options = amp_mode, options
        self._context: Any = None

    def before_fit(self) -> None:
        """Create the scaler."""
        device = self.learn._model_device()
        kind = "cpu" if device is None else device.type
        self._dtype = dtypes.float16 if self.amp_mode == "fp16" else dtypes.bfloat16
        self._kind = kind
        self.learn.scaler = GradScaler(kind, enabled=self.amp_mode == "fp16", **self.options)

    def before_batch(self) -> None:
        """Enter autocast."""
        self._context = autocast(self._kind, dtype=self._dtype)
        self._context.__enter__()

    def after_pred(self) -> None:
        """Cast predictions to float32 for the loss."""
        if isinstance(self.learn.pred, Tensor) and self.learn.pred.is_floating_point():
            self.learn.pred = self.learn.pred.float()

    def after_loss(self) -> None:
        """Leave autocast."""
        self._leave()

    def _leave(self) -> None:
        if self._context is not None:
            context, self._context = self._context, None
            context.__exit__(None, None, None)

    def before_backward(self) -> None:
        """Scale the loss."""
        self.learn.loss_grad = self.learn.scaler.scale(self.learn.loss_grad)

    def before_step(self) -> None:
        """Unscale the gradients, and skip the step if one is not finite."""
        self.is_skipped = True
        self.learn.scaler.step(self)
        if self.is_skipped:
            raise CancelStepException

    @property
    def param_groups(self) -> list:
        """The optimizer's parameter groups, for the scaler, which is passed this callback as the optimizer."""
        return self.learn.opt.param_groups

    def step(self) -> None:
        """Called by the scaler if the gradients are finite."""
        self.is_skipped = False

    def after_step(self) -> None:
        """Adapt the scale."""
        self.learn.scaler.update()

    def after_batch(self) -> None:
        """Leave autocast where the batch was cancelled."""
        self._leave()

    def cleanup_fit(self) -> None:
        """Leave autocast where training was interrupted."""
        self._leave()

    def state_dict(self) -> dict[str, Any]:
        """The scaler's state."""
        return {"scaler": self.learn.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take it over."""
        self.learn.scaler.load_state_dict(state["scaler"])


class GradientClip(Callback):
    """Scale the gradients down to a norm of at most `max_norm`."""

    order, in_step, needs_pred = MixedPrecision.order + 1, True, False

    def __init__(self, max_norm: float = 1.0, norm_type: float = 2.0) -> None:
        self.max_norm, self.norm_type = max_norm, norm_type

    def before_fit(self) -> None:
        """Run after MixedPrecision, so that unscaled gradients are clipped."""
        self._parameters = list(self.learn.model.parameters())

    def before_step(self) -> None:
        """Clip."""
        clip_grad_norm_(self._parameters, self.max_norm, self.norm_type)


class GradientAccumulation(Callback):
    """Take a step only after `n_acc` samples: the gradients of the batches are summed, weighted by their size."""

    order, run_valid = MixedPrecision.order - 4, False

    def __init__(self, n_acc: int = 32) -> None:
        self.n_acc, self.count = n_acc, 0

    def before_fit(self) -> None:
        """No samples yet."""
        self.count = 0

    def after_loss(self) -> None:
        """Weight the loss by the batch's size."""
        if self.learn.yb:
            self.learn.loss_grad = self.learn.loss_grad * (batch_size(self.learn.yb) / self.n_acc)

    def before_step(self) -> None:
        """Skip the step and keep the gradients until there are enough samples."""
        self.count += batch_size(self.learn.yb)
        if self.count < self.n_acc:
            raise CancelBatchException
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        """The samples so far; their gradients are kept by `Checkpoint`."""
        return {"count": self.count}


class BnFreeze(Callback):
    """Keep the statistics of batch norms whose parameters are not trained."""

    run_valid = needs_pred = False

    def before_train(self) -> None:
        """Leave these layers in evaluation mode."""
        for module in self.learn.model.modules():
            parameters = list(module.parameters(recurse=False))
            if isinstance(module, _BatchNorm) and parameters and not any(p.requires_grad for p in parameters):
                module.eval()


class ShortEpochCallback(Callback):
    """End each pass after the share `pct` of its batches, to try a training script quickly; `short_valid`: also those
    of validation.
    """

    order, needs_pred = 95, False

    def __init__(self, pct: float = 0.01, short_valid: bool = True) -> None:
        self.pct, self.short_valid = pct, short_valid

    def after_batch(self) -> None:
        """Cancel the rest of the pass."""
        learn = self.learn
        if learn.n_iter is None:
            raise ValueError("ShortEpochCallback: expected loaders of known length, got one without")
        if learn.iter + 1 >= self.pct * learn.n_iter and (learn.training or self.short_valid):
            raise CancelTrainException if learn.training else CancelValidException


class _Averaged(Callback):
    """Average the weights of training; validation uses the average, and so does the model after `fit`."""

    order, only_fit, needs_pred = 70, True, False
    _options: dict[str, Any] = {}

    def before_fit(self) -> None:
        """Start the average from the weights."""
        self._average: AveragedModel | None = None
        self._trained: dict | None = None

    def _update(self) -> None:
        if self._average is None:
            self._average = AveragedModel(self.learn.bare_model, **self._options)
        self._average.update_parameters(self.learn.bare_model)

    def before_validate(self) -> None:
        """Load the average into the model."""
        if self._average is not None:
            self._trained = deepcopy(self.learn.bare_model.state_dict())
            self.learn.bare_model.load_state_dict(self._average.module.state_dict())

    def after_validate(self) -> None:
        """Put the trained weights back."""
        self.cleanup_fit()

    def cleanup_fit(self) -> None:
        """Put the trained weights back where validation was interrupted."""
        trained, self._trained = self.__dict__.get("_trained"), None
        if trained is not None:
            self.learn.bare_model.load_state_dict(trained)

    def after_fit(self) -> None:
        """The average becomes the model."""
        if self._average is not None:
            self.learn.bare_model.load_state_dict(self._average.module.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """The average."""
        return {"average": None if self._average is None else self._average.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take it over."""
        if state["average"] is not None:
            self._average = AveragedModel(self.learn.bare_model, **self._options)
            self._average.load_state_dict(state["average"])


class EMA(_Averaged):
    """An exponential moving average of the weights, updated after each step."""

    run_valid = False

    def __init__(self, decay: float = 0.999) -> None:
        self.decay = decay
        self._options = {"multi_avg_fn": get_ema_multi_avg_fn(decay), "use_buffers": True}

    def after_batch(self) -> None:
        """Add the weights to the average."""
        self._update()


class SWA(_Averaged):
    """Stochastic weight averaging: the mean of the weights at the end of each epoch from `start` (a share of training)
    on; the statistics of batch norms are computed again (Izmailov, 2018).
    """

    def __init__(self, start: float = 0.75) -> None:
        self.start = start

    def after_train(self) -> None:
        """Add the weights to the average."""
        if self.learn.epoch + 1 > self.start * self.learn.n_epoch:
            self._update()
            self._is_complete = False

    def before_fit(self) -> None:
        """Start the average from the weights."""
        super().before_fit()
        self._is_complete = False

    def after_fit(self) -> None:
        """The average, with statistics of its own, becomes the model."""
        if self._average is not None and not self._is_complete:
            update_bn(self.learn.dls.train, self._average.module, self.learn._device)
            self._is_complete = True
        super().after_fit()

    def state_dict(self) -> dict[str, Any]:
        """The average, and whether it has its statistics, which are computed on batches in another order each time."""
        return super().state_dict() | {"is_complete": self._is_complete}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take it over."""
        super().load_state_dict(state)
        self._is_complete = state["is_complete"]
