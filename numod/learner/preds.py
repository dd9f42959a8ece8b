"""Predictions for all batches of a loader, and their decoding, which depends on the loss function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from .. import nn
from ..autograd import no_grad
from ..core.shape.joining import cat
from ..core.tensor import Tensor
from ..nn import functional as F
from ..utils.data import default_collate
from .dataloaders import moved_to
from .events import Callback


class GatherPredsCallback(Callback):
    """Keep the predictions and targets of validation; with `with_input` the inputs, with `with_loss` the losses."""

    def __init__(self, with_input: bool = False, with_loss: bool = False) -> None:
        self.with_input, self.with_loss = with_input, with_loss
        self.inputs: list = []
        self.preds: list = []
        self.targets: list = []
        self.losses: list = []

    def before_validate(self) -> None:
        """Clear the results of the previous pass."""
        for batches in (self.inputs, self.preds, self.targets, self.losses):
            batches.clear()

    def after_batch(self) -> None:
        """Keep the results of a validation batch."""
        learn = self.learn
        if learn.training or learn.pred is None:
            return
        self.preds.append(_detached(learn.pred))
        if learn.yb:
            self.targets.append(_detached(learn.y))
        if self.with_input:
            self.inputs.append(_detached(learn.x))
        if self.with_loss and learn.loss is not None:
            loss = learn.loss.detach()
            self.losses.append(loss.flatten(1).mean(1) if loss.dim() > 1 else loss)

    def all_tensors(self) -> tuple:
        """(inputs, preds, targets, losses); None for what there was none of. Raises ValueError for an empty loader."""
        if not self.preds:
            raise ValueError("get_preds: the loader gave no batch")
        return tuple([joined(batches) for batches in (self.inputs, self.preds, self.targets, self.losses)])


GatherPreds = GatherPredsCallback


def _detached(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _detached(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple([_detached(part) for part in value])
    return value.detach() if isinstance(value, Tensor) else value


def joined(parts: list) -> Any:
    """Batches as one: of tensors, or tuples, lists or dicts of them. None without a batch; other values are listed."""
    if not parts:
        return None
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: joined([part[key] for part in parts]) for key in first}
    if isinstance(first, (tuple, list)):
        columns = [joined(list(column)) for column in zip(*parts)]
        return columns if isinstance(first, list) else tuple(columns)
    if not isinstance(first, Tensor):
        return None if first is None else parts
    return cat(parts) if first.dim() else first


def _is_loss(loss_func: Any, module: type, function: Callable) -> bool:
    return isinstance(loss_func, module) or getattr(loss_func, "func", loss_func) is function


def activation_of(loss_func: Any) -> Callable[[Any], Any]:
    """The function from outputs to probabilities: the loss function's `activation`, softmax, sigmoid or identity."""
    if hasattr(loss_func, "activation"):
        return loss_func.activation
    if _is_loss(loss_func, nn.CrossEntropyLoss, F.cross_entropy):
        return partial(F.softmax, dim=1)
    if _is_loss(loss_func, nn.BCEWithLogitsLoss, F.binary_cross_entropy_with_logits):
        return F.sigmoid
    return _same


def decoder_of(loss_func: Any) -> Callable[[Any], Any]:
    """The function from probabilities to classes: the loss function's `decodes`, argmax, a threshold or identity."""
    if hasattr(loss_func, "decodes"):
        return loss_func.decodes
    if _is_loss(loss_func, nn.CrossEntropyLoss, F.cross_entropy) or _is_loss(loss_func, nn.NLLLoss, F.nll_loss):
        return lambda probabilities: probabilities.argmax(1)
    if _is_loss(loss_func, nn.BCEWithLogitsLoss, F.binary_cross_entropy_with_logits):
        return lambda probabilities: probabilities > 0.5
    return _same


def _same(value: Any) -> Any:
    return value


@contextmanager
def unreduced(loss_func: Any) -> Iterator[tuple[Any, str]]:
    """Context manager that yields (the loss function without reduction, its reduction)."""
    reduction = getattr(loss_func, "reduction", None)
    if reduction is None:
        yield partial(loss_func, reduction="none"), "mean"
        return
    loss_func.reduction = "none"
    try:
        yield loss_func, reduction
    finally:
        loss_func.reduction = reduction


@contextmanager
def sample_losses(learn: Any) -> Iterator[None]:
    """`Learner.loss_not_reduced`."""
    loss_func = learn.loss_func
    with unreduced(loss_func) as (loss_per_sample, _):
        learn.loss_func = loss_per_sample
        try:
            yield
        finally:
            learn.loss_func = loss_func


def predicted(learn: Any, tensor: Any) -> Any:
    """A class's name, or the number itself."""
    vocab = learn.dls.vocab
    return vocab[int(tensor)] if vocab is not None and not tensor.is_floating_point() else tensor.item()


def predict(learn: Any, item: Any, with_input: bool) -> tuple:
    """`Learner.predict`."""
    inputs = learn.dls.n_inp or 1
    sample = tuple(item[:inputs]) if isinstance(item, (tuple, list)) else (item,)
    was = [(module, module.training) for module in learn.model.modules()]
    try:
        with no_grad():
            batch = moved_to(tuple([default_collate([field]) for field in sample]), learn._model_device() or "cpu")
            preds = activation_of(learn.loss_func)(learn.model.eval()(*batch))
    finally:
        for module, training in was:
            module.training = training
    decoded = decoder_of(learn.loss_func)(preds)[0]
    known = learn.dls.vocab is not None and decoded.dim() == 0 and not decoded.is_floating_point()
    results = (learn.dls.vocab[int(decoded)] if known else decoded, decoded, preds[0])
    return (item, *results) if with_input else results
