"""Callbacks: the events of training, in the order in which they happen, and the exceptions that skip parts of it.

Names, order and meaning are fastai's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop import Loop

EVENTS = (
    "after_create", "before_fit", "before_epoch", "before_train", "before_batch", "after_pred", "after_loss",
    "before_backward", "after_cancel_backward", "after_backward", "before_step", "after_cancel_step", "after_step",
    "after_cancel_batch", "after_batch", "after_cancel_train", "after_train", "before_validate",
    "after_cancel_validate", "after_validate", "after_cancel_epoch", "after_epoch", "after_cancel_fit", "after_fit",
    "cleanup_fit",
)  # fmt: skip
OF_A_BATCH = frozenset(EVENTS[EVENTS.index("before_batch") : EVENTS.index("after_batch") + 1])
IN_THE_STEP = OF_A_BATCH - {"before_batch", "after_cancel_batch", "after_batch"}  # inside the compiled function


class CancelFitException(Exception):
    """Skip the rest of training and go to `after_fit`."""


class CancelEpochException(Exception):
    """Skip the rest of this epoch and go to `after_epoch`."""


class CancelTrainException(Exception):
    """Skip the rest of this epoch's training batches and go to `after_train`."""


class CancelValidException(Exception):
    """Skip the rest of this epoch's validation batches and go to `after_validate`."""


class CancelBatchException(Exception):
    """Skip the rest of this batch and go to `after_batch`."""


class CancelBackwardException(Exception):
    """Skip the backward pass and go to `after_backward`."""


class CancelStepException(Exception):
    """Skip the optimizer's step and go to `after_step`."""


CANCELLED = (
    CancelFitException, CancelEpochException, CancelTrainException, CancelValidException, CancelBatchException,
    CancelBackwardException, CancelStepException,
)  # fmt: skip


class Callback:
    """Base class of callbacks: a method named as an event is called when it happens.

    `self.learn` is the Learner, and attributes that the callback lacks are read from it (`self.loss`); to change one,
    write `self.learn.loss = ...`. `Callback(after_batch=f)` makes a callback of functions of `self`.

    - `order`: callbacks of an event run by increasing order; those with equal order run as they were added.
    - `run`: False switches the callback off until the end of `fit`.
    - `run_train`, `run_valid`: whether the events of a batch are wanted in training and in validation.
    - `only_fit`: the callback does nothing in `lr_find`, `validate` and `get_preds`.
    - `in_step`: `after_backward`, `before_step` and `after_step` only compute with tensors, so that a compiled step may
      contain them.
    - `changes_loss`: the callback replaces `learn.loss_func` while it trains, so that the step is not compiled.
    - `only_rank_0`: of several ranks only rank 0 runs the callback, which prints or writes files. It must not call
      collectives or end training; `learn.save` then does not wait for the other ranks.
    - `spans_ranks`: the callback is the one that trains on several ranks (`DistributedTrainer`).
    - `needs_pred`: False says that `after_batch` does not read `pred`, which a compiled step then need not return.

    `cleanup_fit` is called at the end of every `fit`, also if an exception or Ctrl-C ended it. `state_dict` and
    `load_state_dict` are what `Checkpoint` keeps of a callback.
    """

    order: float = 0
    learn: Loop | None = None
    run_train = run_valid = True
    only_fit = in_step = changes_loss = only_rank_0 = spans_ranks = False
    needs_pred = True

    def __init__(self, **events: Callable[[Any], object]) -> None:
        unknown = events.keys() - set(EVENTS)
        if unknown:
            raise TypeError(f"Callback: {sorted(unknown)[0]!r} is no event; events are {', '.join(EVENTS)}")
        for event, function in events.items():
            setattr(self, event, _method(self, event, function))

    def __getattr__(self, name: str) -> Any:
        learn = self.__dict__.get("learn")
        if learn is None or name in EVENTS or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(learn, name)

    def listens_to(self, event: str) -> bool:
        """Whether the callback has a method for the event."""
        return event in self.__dict__ or hasattr(type(self), event)

    def __deepcopy__(self, memo: dict) -> Callback:
        return self  # copying a model with a callback's hooks does not copy the Learner

    @property
    def run(self) -> bool:
        """Whether the callback is called; may be set at any time."""
        return self.__dict__.get("run", True)

    @run.setter
    def run(self, value: bool) -> None:
        changes, self.__dict__["run"] = value != self.run, value
        if changes and self.learn is not None:
            self.learn._change_events()

    def __repr__(self) -> str:
        return type(self).__name__

    @property
    def name(self) -> str:
        """The attribute of the Learner that holds the callback: the class's name in lower case, without "Callback"."""
        short = re.sub(r"Callback$", "", type(self).__name__) or "callback"
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", short).lower()

    def state_dict(self) -> dict[str, Any]:
        """The state needed to resume: tensors, numbers, strings, and lists and dicts of them."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        for key, value in state.items():
            setattr(self, key, value)


def _method(self: Callback, event: str, function: Callable[[Any], object]) -> Callable[[], object]:
    def call_function() -> object:
        return function(self) if event else None  # `event` is what tell_callback reads

    return call_function


def tell_callback(error: BaseException) -> None:
    """Add a note to an exception: which callback raised it in which event. They are read from the traceback."""
    trace = error.__traceback__
    while trace is not None:
        name, values = trace.tb_frame.f_code.co_name, trace.tb_frame.f_locals
        event = values.get("event") if name == "call_function" else name
        if event in EVENTS and isinstance(values.get("self"), Callback):
            error.add_note(f"raised by the callback {values['self']!r} in {event}")
            return
        trace = trace.tb_next


class TrainEvalCallback(Callback):
    """Sets counters to their start, and the training mode of the model. Every Learner has it."""

    order = -10

    def before_fit(self) -> None:
        """Counters start at 0. The model goes to the data's device; one with a method `reset` is reset."""
        learn = self.learn
        if learn.dls.device is not None:
            learn.model.to(learn.dls.device)
        learn.epoch, learn.train_iter, learn.pct_train = learn.start_epoch, 0, 0.0
        if hasattr(learn.model, "reset"):
            learn.model.reset()

    def before_train(self) -> None:
        """Training mode."""
        learn = self.learn
        learn.pct_train = learn.epoch / learn.n_epoch if learn.n_epoch else 0.0
        learn.model.train()
        learn.training = True

    def before_validate(self) -> None:
        """Evaluation mode."""
        self.learn.model.eval()
        self.learn.training = False
