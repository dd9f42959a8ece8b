"""The training loop. Everything else that happens during a fit is in callbacks.

`learner` has the methods of a Learner that use it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..autograd import no_grad
from ..core.tensor import Tensor
from . import events
from .callbacks import Callbacks
from .compiled import compiled_steps
from .dataloaders import moved_to


_AROUND = {
    part: (f"before_{part}", f"after_cancel_{part}", f"after_{part}") for part in ("fit", "epoch", "train", "validate")
}


class Loop(Callbacks):
    """Epochs of training and validation with events. `Learner` adds the rest.

    While it runs, callbacks see `epoch`, `n_epoch`, `iter` and `n_iter` (batch and number of batches of this pass, None
    if unknown), `train_iter` and `pct_train` (batches and share of training done), `training`, `dl`, `xb`, `yb`,
    `pred`, `loss_grad` (what backward starts from) and `loss` (without history).
    """

    def __init__(self) -> None:
        self.cbs: list[events.Callback] = []
        self.opt: Any = None
        self.training = self.probing = False  # probing: in lr_find, validate and get_preds
        self.epoch = self.start_epoch = self.n_epoch = self.iter = self.train_iter = 0
        self.n_iter: int | None = None
        self.pct_train = self.pct_batch = 0.0
        self.dl: Any = None
        self._forget_batch()
        self._compiled: dict[bool, tuple] = {}
        self._handlers: dict[bool, dict[str, list[Callable]]] = {}
        self._on: dict[str, list[Callable]] = dict.fromkeys(events.EVENTS, [])  # the handlers of this phase

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
        self.dl, self._on = self.dls.train, self._handlers[True]
        self._with_events("train", self._all_batches, events.CancelTrainException)

    def _validate_epoch(self, dl: Iterable) -> None:
        self.dl, self._on = dl, self._handlers[False]
        with no_grad():
            self._with_events("validate", self._all_batches, events.CancelValidException)

    def _all_batches(self) -> None:
        """Run all batches of an epoch, with the events around each."""
        self._count_batches()
        step, counted = (self._training_step, 1) if self.training else (self._validation_step, 0)
        with _ended(iter(self.dl)) as batches:
            for number, batch in enumerate(batches, getattr(self.dl, "first", 0)):
                self.iter = number
                self.xb, self.yb = self._split(batch)
                try:
                    for call in self._on["before_batch"]:
                        call()
                    step()
                except events.CancelBatchException:
                    self("after_cancel_batch")
                self.train_iter += counted
                self.pct_train += self.pct_batch
                for call in self._on["after_batch"]:
                    call()

    def _batch(self) -> None:
        """Run the forward pass of a batch and, in training, its backward pass and the optimizer's step."""
        on = self._on  # read here and looped over in place, as a batch has many events and they should cost nothing
        self.pred = self.model(*self.xb)
        for call in on["after_pred"]:
            call()
        if self.yb:
            self.loss = self.loss_grad = self.loss_func(self.pred, *self.yb)
        for call in on["after_loss"]:
            call()
        if not self.training or not self.yb:
            return
        try:
            for call in on["before_backward"]:
                call()
            self.loss_grad.backward()
        except events.CancelBackwardException:
            self("after_cancel_backward")
        for call in on["after_backward"]:
            call()
        try:
            for call in on["before_step"]:
                call()
            self.opt.step()
        except events.CancelStepException:
            self("after_cancel_step")
        for call in on["after_step"]:
            call()
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

    def __call__(self, event: str) -> None:
        """Call the callbacks of an event."""
        for call in self._on[event]:
            call()

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
            for call in self._handlers[True]["cleanup_fit"]:
                call()
            for callback in self.cbs:
                callback.run = True
            if self.opt is not None:
                self.opt.zero_grad()
            self.training, self.dl = False, None
            self._forget_batch()

    def _prepare(self) -> None:
        """Look up the handlers of all events, and compile the step where that is wanted and possible."""
        if self._trainer is not None and not self.probing:
            self._trainer.wrap()
        self._prepare_events()
        self._training_step = self._validation_step = self._batch
        device = self.dls.device if self.dls.device is not None else self._model_device()
        self._device = None if device is None or device.type == "cpu" else device
        self._is_plain = self._device is None and self.dls.n_inp is None
        if self.compile:
            self._training_step, self._validation_step = compiled_steps(self)

    def _prepare_events(self) -> None:
        """Look up the handlers of all events, for training and validation."""
        self._handlers = {training: self._table(training) for training in (True, False)}
        self._on = self._handlers[self.training or self.dl is None]

    def _table(self, training: bool) -> dict[str, list[Callable]]:
        active = [
            callback
            for callback in self.ordered_cbs()
            if callback.run and not (self.probing and callback.only_fit) and not (self.rank and callback.only_rank_0)
        ]
        return {
            event: [
                partial(self._run_alone, getattr(callback, event))
                if callback.only_rank_0 and self._trainer is not None
                else getattr(callback, event)
                for callback in active
                if hasattr(callback, event)
                and (event not in events.OF_A_BATCH or (callback.run_train if training else callback.run_valid))
            ]
            for event in events.EVENTS
        }

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
        if self._is_plain and len(batch) == 2 and type(batch) in (list, tuple):
            x, y = batch
            return (x,), (y,)
        if isinstance(batch, Tensor):
            batch = (batch,)
        if self._device is not None:
            batch = moved_to(batch, self._device)
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


@contextmanager
def _ended(iterator: Iterator) -> Iterator[Iterator]:
    """Context that ends a generator, also where a traceback keeps it."""
    try:
        yield iterator
    finally:
        if isinstance(iterator, Generator):
            iterator.close()
