"""The list of a Learner's callbacks: add, remove, order; and which of them print. `events` defines callbacks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..nn import Module
from .events import Callback
from .progress import ProgressCallback


class Callbacks:
    """Base class with a list of callbacks, `cbs`."""

    cbs: list[Callback]
    model: Module
    logger: Any
    _is_alone = False  # whether a callback runs that the other ranks do not have

    def ordered_cbs(self, event: str | None = None) -> list[Callback]:
        """The callbacks in the order in which they run; only those that handle `event`, if one is given."""
        ordered = sorted(self.cbs, key=operator.attrgetter("order"))
        return ordered if event is None else [callback for callback in ordered if hasattr(callback, event)]

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

    def _run_alone(self, handler: Callable[[], object]) -> None:
        """Call a handler that the other ranks do not call, so that it must not wait for them."""
        self._is_alone = True
        try:
            handler()
        finally:
            self._is_alone = False


def no_logger(row: Any) -> None:
    """Logs nothing."""


def as_list(value: Any) -> list:
    """None as an empty list, a single object as a list of one."""
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, set)) else [value]
