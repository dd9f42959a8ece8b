"""Callbacks that train on blends of two samples: MixUp and CutMix."""

from __future__ import annotations

from typing import Any

from ..core.create.random import randint, randperm
from ..core.tensor import Tensor
from ..distributions import Beta
from .events import Callback
from .metrics import batch_size
from .preds import unreduced


class _Blending(Callback):
    """Blend each sample with another of its batch. `lam` is the share of the first: one number, or one per sample.

    For class indices the losses are blended, for other targets the targets. Subclasses define `_blend_inputs`.
    """

    run_valid, changes_loss = False, True

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self._distribution = Beta(alpha, alpha)
        self._loss: Any = None

    def before_train(self) -> None:
        """Replace the loss function by a blended one."""
        self._loss, self.learn.loss_func = self.learn.loss_func, self._blended

    def after_train(self) -> None:
        """The loss as before."""
        self.cleanup_fit()

    def cleanup_fit(self) -> None:
        """The loss as before."""
        if self._loss is not None:
            self.learn.loss_func, self._loss = self._loss, None

    def before_batch(self) -> None:
        """Blend the inputs, and targets that are not class indices."""
        learn = self.learn
        count, device = batch_size(learn.xb), learn.xb[0].device
        order = self._blend_inputs(count, device)
        self._others = tuple([batch_tensor[order] for batch_tensor in learn.yb])
        self._by_loss = any(not batch_tensor.is_floating_point() for batch_tensor in learn.yb)
        if not self._by_loss:
            learn.yb = tuple(
                [_mixed(batch_tensor, other, self.lam) for batch_tensor, other in zip(learn.yb, self._others)]
            )

    def _blend_inputs(self, count: int, device: Any) -> Tensor:
        """Blend `learn.xb` and set `lam`. Returns the index of each sample's other."""
        raise NotImplementedError(f"{type(self).__name__} must define _blend_inputs(count, device)")

    def _blended(self, pred: Any, *targets: Any) -> Tensor:
        loss_func = self._loss
        if not self._by_loss:
            return loss_func(pred, *targets)
        with unreduced(loss_func) as (loss_per_sample, reduction):
            first, other = loss_per_sample(pred, *targets), loss_per_sample(pred, *self._others)
        loss = _mixed(first, other, self.lam)
        return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _mixed(first: Tensor, other: Tensor, lam: Tensor) -> Tensor:
    weight = lam.to(first.dtype).reshape(-1, *[1] * (first.dim() - 1))
    return other + weight * (first - other)


class MixUp(_Blending):
    """Blend each sample with another of its batch, with weights of a Beta(alpha, alpha) distribution (Zhang, 2017).

    For class indices the losses are blended, for other targets the targets.
    """

    def __init__(self, alpha: float = 0.4) -> None:
        super().__init__(alpha)

    def _blend_inputs(self, count: int, device: Any) -> Tensor:
        weights = self._distribution.sample((count,)).to(device)
        self.lam = weights.maximum(1 - weights)
        order = randperm(count).to(device)
        self.learn.xb = tuple([_mixed(x, x[order], self.lam) for x in self.learn.xb])
        return order


class CutMix(_Blending):
    """Replace a rectangle of each image by that of another of its batch (Yun, 2019).

    The rectangle has a share of the image that is drawn from Beta(alpha, alpha), before it is cut at the border. Inputs
    are images, (batch, channels, height, width). For class indices the losses are blended by area, for other targets
    the targets. Raises ValueError for inputs of other shapes.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__(alpha)

    def _blend_inputs(self, count: int, device: Any) -> Tensor:
        (x,) = self.learn.xb if len(self.learn.xb) == 1 else (None,)
        if x is None or x.dim() != 4:
            shapes = [tuple(x.shape) for x in self.learn.xb]
            raise ValueError(f"CutMix: expected one input of shape (batch, channels, height, width), got {shapes}")
        height, width = x.shape[2:]
        side = (1 - self._distribution.sample(())).sqrt().item()
        rows, columns = _span(height, side), _span(width, side)
        order = randperm(count).to(device)
        x = x.clone()  # the dataset may hold the batch
        x[:, :, rows, columns] = x[order][:, :, rows, columns]
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        self.lam = x.new_tensor([1 - area / (height * width)])
        self.learn.xb = (x,)
        return order


def _span(size: int, share: float) -> slice:
    """Indices of about `share * size` elements around a random centre, cut at the borders."""
    centre, half = int(randint(0, size, ()).item()), round(share * size) // 2
    return slice(max(centre - half, 0), min(centre + half, size))
