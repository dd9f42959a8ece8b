"""The callbacks of a Learner: add, remove, order; their handlers of each event; and which of them print.

`events` defines callbacks.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..nn import Module
from .events import EVENTS, IN_THE_STEP, OF_A_BATCH, Callback
from .progress import ProgressCallback


class Callbacks:
    """Base class with a list of callbacks, `cbs`, and the handlers that they have for each event."""

    model: Module
    logger: Any
    probing: bool
    _is_alone = False  # whether a callback runs that the other ranks do not have

    def __init__(self) -> None:
        self.cbs: list[Callback] = []
        self._forget_handlers()

    def ordered_cbs(self, event: str | None = None) -> list[Callback]:
        """The callbacks in the order in which they run; only those that handle `event`, if one is given."""
        ordered = sorted(self.cbs, key=operator.attrgetter("order"))
        return ordered if event is None else [callback for callback in ordered if callback.listens_to(event)]

    def add_cbs(self, cbs: Iterable | Callback | type | None) -> Callbacks:
        """Add callbacks, or one; classes are called without arguments."""
        for callback in as_list(cbs):
            self.add_cb(callback)
        return self

    def add_cb(self, cb: Callback | type) -> Callbacks:
        """Add a callback. It becomes an attribute named by its `name`."""
        callback = cb() if isinstance(cb, type) else cb
        if not isinstance(callback, Callback):
            raise TypeError(f"add_cb: expected a Callback, got {type(callback).__name__}")
        callback.learn = self
        setattr(self, callback.name, callback)
        self.cbs.append(callback)
        self._change_events()
        return self

    def remove_cbs(self, cbs: Iterable | Callback | type | None) -> Callbacks:
        """Remove callbacks, or one, or all of a class."""
        for callback in as_list(cbs):
            self.remove_cb(callback)
        return self

    def remove_cb(self, cb: Callback | type) -> Callbacks:
        """Remove a callback, or all of a class."""
        for callback in [
            registered
            for registered in self.cbs
            if registered is cb or (isinstance(cb, type) and isinstance(registered, cb))
        ]:
            self.cbs.remove(callback)
            callback.learn = None
            if self.__dict__.get(callback.name) is callback:
                delattr(self, callback.name)
        self._change_events()
        return self

    @contextmanager
    def added_cbs(self, cbs: Iterable | Callback | type | None) -> Iterator[Callbacks]:
        """Context with further callbacks."""
        added = [callback() if isinstance(callback, type) else callback for callback in as_list(cbs)]
        self.add_cbs(added)
        try:
            yield self
        finally:
            self.remove_cbs(added)

    @contextmanager
    def removed_cbs(self, cbs: Iterable | Callback | type | None) -> Iterator[Callbacks]:
        """Context without some callbacks, or without all of a class."""
        unwanted = as_list(cbs)
        removed = [
            registered
            for registered in self.cbs
            if any(isinstance(registered, cb) if isinstance(cb, type) else registered is cb for cb in unwanted)
        ]
        self.remove_cbs(removed)
        try:
            yield self
        finally:
            self.add_cbs(removed)

    def to_fp16(self, **options: Any) -> Callbacks:
        """Train under autocast with float16 and a gradient scaler, whose `options` these are."""
        return self._to_precision("fp16", options)

    def to_bf16(self) -> Callbacks:
        """Train under autocast with bfloat16."""
        return self._to_precision("bf16", {})

    def to_fp32(self) -> Callbacks:
        """Train without autocast again."""
        from .training import MixedPrecision

        return self.remove_cbs(MixedPrecision)

    def _to_precision(self, mode: str, options: dict[str, Any]) -> Callbacks:
        from .training import MixedPrecision

        return self.to_fp32().add_cb(MixedPrecision(mode, **options))

    # ---- handlers: looked up once, so that an event without callbacks costs nothing

    def __call__(self, event: str) -> None:
        """Call the callbacks of an event."""
        if self._is_stale:
            self._prepare_events()
        for call in self._on[event]:
            call()

    def _compiled_steps(self) -> dict[bool, Callable | None]:
        """What runs a batch instead of `_batch`, in training (True) and in validation (False)."""
        return {True: None, False: None}

    def _forget_handlers(self) -> None:
        self._is_fitting = self._is_stale = False
        self._steps = Callbacks._compiled_steps(self)
        self._handlers = {training: {event: [] for event in EVENTS} for training in (True, False)}
        self._enter(True)

    def _prepare_events(self) -> None:
        """Look up the handlers of all events, for training and validation."""
        self._handlers = {training: self._table(training) for training in (True, False)}
        if self._is_fitting:
            self._steps = self._compiled_steps()
        self._is_stale = False
        self._enter(self._is_in_training)

    def _change_events(self) -> None:
        """During a fit, callbacks that were removed or switched off are not called any more, and all handlers are
        looked up before the next event or batch.
        """
        if not self._is_fitting:
            return
        self._is_stale = True
        for training, table in self._handlers.items():
            new = self._table(training)
            for event, calls in table.items():  # in place: a loop over the list may be running
                calls[:] = [call if call in new[event] else _nothing for call in calls]

    def _enter(self, training: bool) -> None:
        """Take the handlers and the step of training or of validation."""
        self._is_in_training, self._on, self._step = training, self._handlers[training], self._steps[training]
        self._before_batch, self._after_batch = self._on["before_batch"], self._on["after_batch"]
        self._listens_inside = any([self._on[event] for event in IN_THE_STEP])

    def _table(self, training: bool) -> dict[str, list[Callable[[], object]]]:
        active = [
            callback
            for callback in self.ordered_cbs()
            if callback.run and not (self.probing and callback.only_fit) and not (self.rank and callback.only_rank_0)
        ]
        return {
            event: [
                RunAlone(self, getattr(callback, event))
                if callback.only_rank_0 and self._trainer is not None
                else getattr(callback, event)
                for callback in active
                if callback.listens_to(event)
                and (event not in OF_A_BATCH or (callback.run_train if training else callback.run_valid))
            ]
            for event in EVENTS
        }

    # ---- output

    @contextmanager
    def no_logging(self) -> Iterator[Callbacks]:
        """Context in which epochs are not printed."""
        logger, self.logger = self.logger, no_logger
        try:
            yield self
        finally:
            self.logger = logger

    @contextmanager
    def no_bar(self) -> Iterator[Callbacks]:
        """Context without the progress bar and table."""
        with self.removed_cbs(ProgressCallback):
            yield self

    no_mbar = no_bar  # fastai's bar of epochs, here the table

    def show_training_loop(self) -> None:
        """Print the events in their order, with the callbacks that listen to them."""
        for event in EVENTS:
            print(f"{event:22} {', '.join(map(repr, self.ordered_cbs(event)))}".rstrip())

    # ---- ranks

    @property
    def _trainer(self) -> Any:
        """The callback that trains on several ranks, or None."""
        return next((callback for callback in self.cbs if callback.spans_ranks), None)

    @property
    def rank(self) -> int:
        """This process's number among those that train together, else 0."""
        return 0 if self._trainer is None else self._trainer.group_rank

    @property
    def bare_model(self) -> Module:
        """The model, without the wrapper that it has while it is trained on several ranks."""
        trainer = self._trainer
        return self.model if trainer is None or trainer._model is None else trainer._model

    def same_on_all_ranks(self, value: Any) -> Any:
        """The value of rank 0, where several train together; in a callback of rank 0 alone, the value."""
        return value if self._trainer is None or self._is_alone else self._trainer.same_on_all_ranks(value)


@dataclass(frozen=True)
class RunAlone:
    """A handler that the other ranks do not call, so that it must not wait for them."""

    learn: Callbacks
    handler: Callable[[], object]

    def __call__(self) -> None:
        """Call the handler."""
        self.learn._is_alone = True
        try:
            self.handler()
        finally:
            self.learn._is_alone = False


def _nothing() -> None:
    """In the place of a handler that was removed while its list is iterated over."""


def no_logger(row: Any) -> None:
    """Logs nothing."""


def as_list(value: Any) -> list:
    """None as an empty list, a single object as a list of one."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, set)) else [value]
