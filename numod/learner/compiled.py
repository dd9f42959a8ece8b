"""The steps of `Learner(compile=True)`: a batch's work as one compiled function, with the events around it.

A callback that handles an event inside the step makes the step eager, unless it can be compiled into the step
(`in_step`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import warn_caller
from .. import dtypes
from ..autograd import no_grad, set_grad_enabled
from ..core.create.creation import zeros
from ..core.tensor import Tensor
from ..graph.compile import compile
from .events import IN_THE_STEP, Callback

if TYPE_CHECKING:
    from .loop import Loop

_INSIDE = ("after_backward", "before_step", "after_step")  # events that a compiled step may contain


def compiled_steps(learn: Loop) -> dict[bool, Callable | None]:
    """The steps of training (True) and of validation (False)."""
    return {training: _step(learn, training) for training in (True, False)}


def _step(learn: Loop, training: bool) -> Callable | None:
    """The compiled function of (inputs, targets) that runs a batch; None if a callback must run in the middle."""
    active = list(_active(learn, training))
    for callback in active:
        reason = _reason(callback)
        if reason is not None:
            if training:
                warn_caller(f"compile=True: the step runs eagerly, because {callback!r} {reason}")
            return None
    inside = tuple([callback for callback in active if callback.in_step])
    with_pred = not training or any(callback.needs_pred for callback in active if callback.listens_to("after_batch"))
    key = (learn.model, learn.loss_func, learn.opt if training else None, with_pred, learn.dls.n_inp, *inside)
    known = learn._compiled.get(training)
    if known is None or len(known[0]) != len(key) or any(old is not new for old, new in zip(known[0], key)):
        known = learn._compiled[training] = key, (_training if training else _validation)(learn, inside, with_pred)
    return known[1]


def _active(learn: Loop, training: bool) -> Iterator[Callback]:
    for callback in learn.ordered_cbs():
        if (callback.run_train if training else callback.run_valid) and not (learn.probing and callback.only_fit):
            yield callback


def _reason(callback: Callback) -> str | None:
    """Why a step with this callback is not compiled; None if it can be."""
    if callback.changes_loss:
        return "replaces the loss function. Remove the callback, or leave compile out"
    event = next((event for event in sorted(IN_THE_STEP) if _hinders(callback, event)), None)
    if event is None:
        return None
    return (
        f"listens to {event}, which happens inside it. Remove the callback, or set in_step=True on it if it only "
        "computes with tensors there"
    )


def _hinders(callback: Callback, event: str) -> bool:
    return callback.listens_to(event) and not (callback.in_step and event in _INSIDE)


def _training(learn: Loop, inside: tuple[Callback, ...], with_pred: bool) -> Callable:
    """The compiled training step, with the callbacks `inside` it."""
    handlers = [
        tuple([getattr(callback, event) for callback in inside if callback.listens_to(event)]) for event in _INSIDE
    ]
    # one tuple, since each variable of the function is compared before each call
    parts = learn.model, learn.loss_func, learn.opt, with_pred, *handlers

    @compile
    def step(inputs, targets):
        model, loss_func, opt, with_pred, after_backward, before_step, after_step = parts
        pred = model(*inputs)
        loss = loss_func(pred, *targets)
        loss.backward()
        for call in after_backward:
            call()
        for call in before_step:
            call()
        opt.step()
        for call in after_step:
            call()
        opt.zero_grad()
        return (loss, pred.detach()) if with_pred else loss

    def step_with_pred(inputs, targets):
        loss, learn.pred = step(inputs, targets)
        return loss

    return step_with_pred if with_pred else step


def _validation(learn: Loop, inside: tuple[Callback, ...], with_pred: bool) -> Callable:
    model, loss_func = learn.bare_model, learn.loss_func

    @compile
    def step(inputs, targets):
        pred = model(*inputs)
        return loss_func(pred, *targets), pred

    def step_with_pred(inputs, targets):
        loss, learn.pred = step(inputs, targets)
        return loss

    return step_with_pred


# ---- going on in another process: a compiled function runs eagerly where it is recorded, with other roundings

_CALLS = 8  # after which all versions of a step for a shape are recorded; counters take five


class Batches:
    """How often batches of which shapes a compiled step has seen, in the order of their first appearance."""

    def __init__(self, counted: Iterable = ()) -> None:
        self._counts = {(training, shapes): count for training, shapes, count in map(_as_entry, counted)}

    def count(self, learn: Loop) -> None:
        """Count the Learner's batch."""
        parts = (*learn.xb, *learn.yb)
        if all(type(part) is Tensor for part in parts):
            shapes = (len(learn.xb), *[(tuple(part.shape), part.dtype.name) for part in parts])
            key = learn.training, shapes
            self._counts[key] = self._counts.get(key, 0) + 1

    def as_list(self) -> list:
        """The counts as plain data."""
        return [
            [training, [shapes[0], *[[list(shape), kind] for shape, kind in shapes[1:]]], min(count, _CALLS)]
            for (training, shapes), count in self._counts.items()
        ]

    def repeat(self, learn: Loop) -> bool:
        """Run the steps as often as the counts say, on zeros, so that they are recorded where the counted run has
        recorded them. The model, the optimizer and the random numbers change. Returns whether all have been recorded:
        not where the step is eager, or cannot compute with zeros, such as the inverse of the inputs.
        """
        if learn._steps[True] is None:
            return False
        try:
            self._run_steps(learn)
        except Exception:
            return False  # training records them as it goes on
        finally:
            learn._forget_batch()
        return True

    def _run_steps(self, learn: Loop) -> None:
        for (training, (inputs, *shapes)), count in self._counts.items():
            batch = [zeros(shape, dtype=dtypes.ALL[kind], device=learn._model_device()) for shape, kind in shapes]
            learn.xb, learn.yb = tuple(batch[:inputs]), tuple(batch[inputs:])
            learn.model.train(training)
            step = learn._steps[training] if learn.yb else None
            for _ in range(min(count, _CALLS)):
                with set_grad_enabled(training):
                    learn._batch() if step is None else step(learn.xb, learn.yb)


def _as_entry(entry: list) -> tuple[bool, tuple, int]:
    training, (inputs, *shapes), count = entry
    return training, (inputs, *[(tuple(shape), kind) for shape, kind in shapes]), count


def load_optimizer(optimizer: Any, state: dict[str, Any], in_place: bool) -> None:
    """Load an optimizer's state; `in_place` into the tensors that it has, for which a compiled step was recorded."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    saved_states = state["state"]
    if not in_place or any(
        optimizer.state[parameter].keys() != saved_states.get(number, {}).keys()
        for number, parameter in enumerate(parameters)
    ):
        optimizer.load_state_dict(state)
        return
    with no_grad():
        for number, parameter in enumerate(parameters):
            values = optimizer.state[parameter]
            for key, saved in saved_states.get(number, {}).items():
                if isinstance(values[key], Tensor):
                    values[key].copy_(saved)
                else:
                    values[key] = type(values[key])(saved) if isinstance(values[key], (int, float)) else saved
    for group, saved_group in zip(optimizer.param_groups, state["param_groups"]):
        group.update({key: value for key, value in saved_group.items() if key != "params"})
