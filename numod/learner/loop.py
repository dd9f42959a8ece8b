"""The training loop. Everything else that happens during a fit is in callbacks.

`learner` has the methods of a Learner that use it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..autograd import no_grad
from ..core.tensor import Tensor
from . import events
from .callbacks import Callbacks
from .compiled import compiled_steps
from .dataloaders import ended, moved_to


_AROUND = {
    part: (f"before_{part}", f"after_cancel_{part}", f"after_{part}") for part in ("fit", "epoch", "train", "validate")
}


_STATE = (
    "loss_func", "scaler", "xb", "yb", "pred", "loss", "loss_grad", "training", "epoch", "start_epoch", "n_epoch",
    "iter", "n_iter", "train_iter", "pct_train", "pct_batch", "dl", "compile", "logger", "probing", "_handlers",
    "_steps", "_is_fitting", "_is_stale", "_is_in_training", "_on", "_step", "_before_batch", "_after_batch",
    "_listens_inside",
)  # fmt: skip


class Loop(Callbacks):
    """Epochs of training and validation with events. `Learner` adds the rest.

    While it runs, callbacks see `epoch`, `n_epoch`, `iter` and `n_iter` (batch and number of batches of this pass, None
    if unknown), `train_iter` and `pct_train` (batches and share of training done), `training`, `dl`, `xb`, `yb`,
    `pred`, `loss_grad` (what backward starts from) and `loss` (without history).
    """

    def __init__(self) -> None:
        super().__init__()
        self._forget_batch()
        self.model: Any = None
        self.loss_func: Any = None
        self.scaler: Any = None  # of MixedPrecision
        self.opt: Any = None
        self.training = self.probing = False  # probing: in lr_find, validate and get_preds
        self.epoch = self.start_epoch = self.n_epoch = self.iter = self.train_iter = 0
        self.n_iter: int | None = None
        self.pct_train = self.pct_batch = 0.0
        self.dl: Any = None
        self._compiled: dict[bool, tuple] = {}
        self._device: Any = None
        self._is_plain = False

    # ---- the loop

    def _fit(self) -> None:
        for epoch in range(self.start_epoch, self.n_epoch):
            self.epoch = epoch
            self._with_epoch_events(self._one_epoch)

    def _with_epoch_events(self, work: Callable[[], object]) -> None:
        self._with_events("epoch", work, events.CancelEpochException)

    def _one_epoch(self) -> None:
        self._train_epoch()
        if self.dls.valid is not None:
            self._validate_epoch(self.dls.valid)

    def _train_epoch(self) -> None:
        self.dl = self.dls.train
        self._enter(True)
        self._with_events("train", self._all_batches, events.CancelTrainException)

    def _validate_epoch(self, dl: Iterable) -> None:
        self.dl = dl
        self._enter(False)
        with no_grad():
            self._with_events("validate", self._all_batches, events.CancelValidException)

    def _all_batches(self) -> None:
        """Run all batches of an epoch, with the events around each."""
        self._count_batches()
        counted, pairs = int(self.training), (list, tuple) if self._is_plain else ()
        with ended(iter(self.dl)) as batches:
            for number, batch in enumerate(batches, getattr(self.dl, "first", 0)):
                self.iter = number
                if self._is_stale:
                    self._prepare_events()
                if type(batch) in pairs and len(batch) == 2:  # quicker than the general case
                    x, y = batch
                    self.xb, self.yb = (x,), (y,)
                else:
                    self.xb, self.yb = self._split(batch)
                try:
                    for call in self._before_batch:
                        call()
                    if self._step is None or not self.yb:
                        self._batch()
                    else:
                        self.loss = self._step(self.xb, self.yb)
                except events.CancelBatchException:
                    self("after_cancel_batch")
                self.train_iter += counted
                self.pct_train += self.pct_batch
                for call in self._after_batch:
                    call()

    def _batch(self) -> None:
        """Run the forward pass of a batch and, in training, its backward pass and the optimizer's step."""
        listened = self._listens_inside  # events without callbacks cost nothing
        self.pred = self.model(*self.xb)
        if listened:
            self("after_pred")
        if self.yb:
            self.loss = self.loss_grad = self.loss_func(self.pred, *self.yb)
        if listened:
            self("after_loss")
        if not self.training or not self.yb:
            return
        try:
            if listened:
                self("before_backward")
            self.loss_grad.backward()
        except events.CancelBackwardException:
            self("after_cancel_backward")
        if listened:
            self("after_backward")
        try:
            if listened:
                self("before_step")
            self.opt.step()
        except events.CancelStepException:
            self("after_cancel_step")
        if listened:
            self("after_step")
        self.opt.zero_grad()

    def _with_events(self, part: str, work: Callable[[], object], cancelled: type[Exception]) -> None:
        """The work between its events; the exception skips the rest of it."""
        before, after_cancel, after = _AROUND[part]
        try:
            self(before)
            work()
        except cancelled:
            self(after_cancel)
        self(after)

    # ---- around it

    def _run_fit(self, work: Callable[[], object]) -> None:
        """`work` between the events of a fit. Afterwards the Learner is usable however it ended."""
        self._prepare()
        try:
            self._with_events("fit", work, events.CancelFitException)
        except Exception as error:
            events.tell_callback(error)
            raise
        finally:
            with ExitStack() as cleanup:  # all of it runs, also after a handler that raises
                cleanup.callback(self._end_fit)
                self._enter(True)
                if self._is_stale:
                    self._prepare_events()
                for call in reversed(self._on["cleanup_fit"]):
                    cleanup.callback(call)

    def _end_fit(self) -> None:
        self._is_fitting = False
        for callback in self.cbs:
            callback.run = True
        if self.opt is not None and not self.probing:
            self.opt.zero_grad()
        self.training, self.dl = False, None
        self._forget_batch()

    @contextmanager
    def _kept_state(self) -> Iterator[None]:
        """Context in which something else may run, also in the middle of a fit, which then goes on."""
        state = {name: self.__dict__[name] for name in _STATE}
        parts = [*self.cbs, *getattr(self, "metrics", ())] if self._is_fitting else []
        attributes = [dict(vars(part)) for part in parts]
        for callback in self.cbs if self._is_fitting else ():
            if callback.changes_loss and callback.listens_to("cleanup_fit"):
                callback.cleanup_fit()  # the other run starts from the loss itself
        self._forget_handlers()
        try:
            yield
        finally:
            self.__dict__.update(state)
            for part, values in zip(parts, attributes):
                vars(part).clear()
                vars(part).update(values)

    def _prepare(self) -> None:
        """Look up the handlers of all events, and compile the step where that is wanted and possible."""
        if self._trainer is not None and not self.probing:
            self._trainer.wrap()
        self._find_device()
        self._is_fitting = self._is_in_training = True
        self._prepare_events()

    def _compiled_steps(self) -> dict[bool, Callable | None]:
        return compiled_steps(self) if self.compile else super()._compiled_steps()

    def _find_device(self) -> None:
        """Find where batches go, and whether they need no more than to be taken apart."""
        device = self.dls.device if self.dls.device is not None else self._model_device()
        self._device = None if device is None or device.type == "cpu" else device
        self._is_plain = self._device is None and self.dls.n_inp is None

    def _model_device(self) -> Any:
        return next((parameter.device for parameter in self.model.parameters()), None)

    def _count_batches(self) -> None:
        """Set the number of batches of this pass, if it is known, and a batch's fraction of the training."""
        count = operator.length_hint(self.dl, -1)
        known = count >= 0
        if self.training and known:
            self._seen = count
        self.n_iter = count if known else None
        expected = count if known else getattr(self, "_seen", 0)  # an unknown length is taken from the epoch before
        self.pct_batch = 1.0 / (expected * self.n_epoch) if expected and self.training and self.n_epoch else 0.0

    def _split(self, batch: Any) -> tuple[tuple, tuple]:
        """(inputs, targets) of a batch: the last entry is the target, unless `dls.n_inp` is the number of inputs."""
        if isinstance(batch, Tensor):
            batch = (batch,)
        if self._device is not None:
            batch = moved_to(batch, self._device)
        if not isinstance(batch, (tuple, list)):
            raise TypeError(
                f"batches: expected tuples (inputs…, target), got {type(batch).__name__}; change the collate_fn"
            )
        inputs = self.dls.n_inp or len(batch) - 1 or 1
        return tuple(batch[:inputs]), tuple(batch[inputs:])

    def _forget_batch(self) -> None:
        self.xb = self.yb = ()
        self.pred = self.loss = self.loss_grad = None

    @property
    def x(self) -> Any:
        """The batch's input; a tuple if there are several."""
        return self.xb[0] if len(self.xb) == 1 else self.xb

    @property
    def y(self) -> Any:
        """The batch's target; a tuple if there are several."""
        return self.yb[0] if len(self.yb) == 1 else self.yb
