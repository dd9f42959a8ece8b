"""The loop: its weights are those of a loop written by hand, its events come in fastai's order, exceptions skip what
they name, and whatever happens the Learner stays usable.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import numod
from numod import nn, optim
from numod.learner import (
    EVENTS,
    Callback,
    CancelBackwardException,
    CancelBatchException,
    CancelEpochException,
    CancelFitException,
    CancelStepException,
    CancelTrainException,
    CancelValidException,
    DataLoaders,
    GradientAccumulation,
    GradientClip,
    Learner,
    MixedPrecision,
    MixUp,
    Recorder,
    accuracy,
)
from numod.nn import functional as F
from small_training import X, Y, batches, by_hand, learner, network, same
from numod.utils.data import DataLoader, IterableDataset, TensorDataset


class Log(Callback):
    """Keeps the names of events."""

    order = 1000

    def __init__(self) -> None:
        self.seen: list[str] = []


def _listen(event: str) -> Callable[[Log], None]:
    return lambda self: self.seen.append(event)


for name in EVENTS:
    setattr(Log, name, _listen(name))
BATCH = ["before_batch", "after_pred", "after_loss"]
TRAINED = [*BATCH, "before_backward", "after_backward", "before_step", "after_step", "after_batch"]


@pytest.mark.parametrize("compiled", [False, True])
def test_weights_are_those_of_a_loop_by_hand(compiled: bool) -> None:
    learn = learner(compile=compiled, cbs=Recorder)
    learn.fit(2)
    assert same(learn.model, by_hand(batches(), 2, compiled=compiled))
    assert len(learn.recorder.losses) == 6 and learn.train_iter == 6 and learn.pct_train == pytest.approx(1)


def test_events_come_in_fastais_order() -> None:
    log = Log()
    learn = learner(batches(1), batches(1), cbs=log)
    assert log.seen == ["after_create"]
    log.seen.clear()
    learn.fit(1)
    assert log.seen == [
        "before_fit", "before_epoch", "before_train", *TRAINED, "after_train",
        "before_validate", *BATCH, "after_batch", "after_validate", "after_epoch", "after_fit", "cleanup_fit",
    ]  # fmt: skip


CANCEL = [
    (CancelFitException, "before_epoch", ["before_epoch", "after_cancel_fit", "after_fit", "cleanup_fit"]),
    (CancelEpochException, "before_train", ["before_train", "after_cancel_epoch", "after_epoch", "after_fit", "cleanup_fit"]),
    (CancelTrainException, "before_batch", ["before_batch", "after_cancel_train", "after_train", "after_epoch"]),
    (CancelBatchException, "after_pred", ["after_pred", "after_cancel_batch", "after_batch", "after_train"]),
    (CancelBackwardException, "before_backward", ["before_backward", "after_cancel_backward", "after_backward", "before_step"]),
    (CancelStepException, "before_step", ["before_step", "after_cancel_step", "after_step", "after_batch"]),
]  # fmt: skip


@pytest.mark.parametrize("exception, event, expected", CANCEL, ids=lambda value: getattr(value, "__name__", None))
def test_an_exception_skips_what_it_names(exception: type, event: str, expected: list[str]) -> None:
    log = Log()

    def cancel(self: Callback) -> None:
        raise exception

    stop = Callback(**{event: cancel})
    stop.order = 2000
    learner(batches(1), cbs=[log, stop]).fit(1)
    start = log.seen.index(event)
    assert log.seen[start : start + len(expected)] == expected


def test_validation_can_be_skipped() -> None:
    log = Log()
    stop = Callback(before_validate=lambda self: (_ for _ in ()).throw(CancelValidException()))
    stop.order = 2000
    learner(batches(1), batches(1), cbs=[log, stop]).fit(1)
    start = log.seen.index("before_validate")
    assert log.seen[start : start + 3] == ["before_validate", "after_cancel_validate", "after_validate"]


def test_callbacks_run_by_order_and_only_where_they_want() -> None:
    calls: list[str] = []
    late, early = (
        Callback(after_batch=lambda self: calls.append("late")),
        Callback(after_batch=lambda self: calls.append("early")),
    )
    late.order, early.order, early.run_valid = 5, -5, False
    learn = learner(batches(1), batches(1), cbs=[late, early])
    learn.fit(1)
    assert calls == ["early", "late", "late"]
    late.run = False
    learn.fit(1)
    assert calls == ["early", "late", "late", "early"] and late.run


@pytest.mark.parametrize("compiled", [False, True])
def test_callbacks_come_and_go_during_a_fit(compiled: bool) -> None:
    calls: list[str] = []
    guest, leaver = (
        Callback(after_batch=lambda self: calls.append(f"guest {self.train_iter}")),
        Callback(after_batch=lambda self: calls.append(f"leaver {self.train_iter}")),
    )
    guest.order, leaver.order = 3, 2

    class Host(Callback):
        order = 1

        def after_batch(self) -> None:
            if self.train_iter == 2:
                self.learn.add_cb(guest)
                self.learn.remove_cb(leaver)
            if self.train_iter == 4:
                guest.run = False

    learn = learner(compile=compiled, cbs=[leaver, Host, Recorder])
    learn.fit(2)
    assert calls == ["leaver 1", "guest 3"]
    assert len(learn.recorder.losses) == 6 and same(learn.model, by_hand(batches(), 2, compiled=compiled))


def test_a_callback_that_changes_the_step_is_added_to_a_compiled_fit() -> None:
    class Host(Callback):
        def after_batch(self) -> None:
            if self.train_iter == 1:
                self.learn.add_cb(Callback(before_step=lambda self: steps.append(self.train_iter)))

    steps: list[int] = []
    with pytest.warns(UserWarning, match="the step runs eagerly, because Callback listens to before_step"):
        learner(compile=True, cbs=Host).fit(1)
    assert steps == [1, 2]


@pytest.mark.parametrize("use", ["validate", "get_preds", "lr_find"])
def test_the_learner_is_used_in_the_middle_of_a_fit(use: str) -> None:
    class Host(Callback):
        only_fit = True

        def after_batch(self) -> None:
            if self.training and self.train_iter == 2:
                getattr(self.learn, use)(**({"num_it": 6} if use == "lr_find" else {}))

        def after_epoch(self) -> None:
            self.learn.validate()

    learn = learner(valid=batches(1), cbs=[Host, Recorder, log := Log()])
    learn.fit(2)
    assert same(learn.model, by_hand(batches(), 2))
    assert learn.train_iter == 6 and learn.pct_train == pytest.approx(1) and len(learn.recorder.values) == 2
    assert len(learn.recorder.losses) == 6 and log.seen[-3:] == ["after_epoch", "after_fit", "cleanup_fit"]


@pytest.mark.parametrize("use", ["validate", "get_preds", "lr_find"])
@pytest.mark.parametrize("kind", [MixUp, GradientAccumulation, GradientClip, MixedPrecision])
def test_callbacks_keep_their_state_while_the_learner_is_used_in_a_fit(kind: type, use: str) -> None:
    settings = {GradientAccumulation: (8,), GradientClip: (0.01,)}.get(kind, ())
    options = {"init_scale": 8.0, "growth_interval": 2} if kind is MixedPrecision else {}

    class Host(Callback):
        order, only_fit = 2000, True

        def after_batch(self) -> None:
            if self.training and self.train_iter == 3:
                results.append(getattr(self.learn, use)(**({"num_it": 6} if use == "lr_find" else {})))

    results: list = []
    models, scales = [], []
    for hosts in ([], [Host]):
        numod.manual_seed(0)
        learn = learner(valid=batches(1), cbs=[kind(*settings, **options), *hosts])
        loss_func = learn.loss_func
        learn.fit(2)
        assert learn.loss_func is loss_func
        models.append(learn.model)
        scales.append(learn.scaler and learn.scaler.get_scale())
    assert same(*models) and scales[0] == scales[1] and len(results) == 1
    if use == "get_preds":
        assert numod.allclose(results[0][0].sum(1), numod.ones(4))


def test_an_exception_in_a_cleanup_leaves_the_learner_usable() -> None:
    broken, cleaned = Callback(cleanup_fit=lambda self: 1 / 0), []
    broken.order = -1
    learn = learner(valid=batches(1), cbs=[broken, Callback(cleanup_fit=lambda self: cleaned.append(self.training))])
    logger = learn.logger
    with pytest.raises(ZeroDivisionError):
        learn.fit(1)
    assert len(cleaned) == 1 and learn.logger is logger and learn.opt.param_groups[0]["params"][0].grad is None
    learn.remove_cb(broken)
    learn.fit(1)
    assert len(cleaned) == 2 and same(learn.model, by_hand(batches(), 2))


def test_an_exception_names_the_callback_and_the_event() -> None:
    class Broken(Callback):
        def after_batch(self) -> None:
            raise ZeroDivisionError("no")

    learn = learner(cbs=Broken)
    with pytest.raises(ZeroDivisionError) as caught:
        learn.fit(1)
    assert caught.value.__notes__ == ["raised by the callback Broken in after_batch"]
    learn.remove_cb(Broken)
    learn.fit(1)

    learn.add_cb(Callback(before_fit=lambda self: 1 / 0))
    with pytest.raises(ZeroDivisionError) as caught:
        learn.fit(1)
    assert caught.value.__notes__ == ["raised by the callback Callback in before_fit"]


def test_an_error_of_the_model_is_not_put_down_to_a_callback() -> None:
    learn = learner([(X[:4, :3], Y[:4])], cbs=Recorder)
    with pytest.raises(RuntimeError) as caught:
        learn.fit(1)
    assert not any("callback" in note for note in caught.value.__notes__)  # they name the layer


@pytest.mark.parametrize("event", ["before_batch", "after_pred", "before_step", "after_batch"])
def test_ctrl_c_leaves_a_usable_learner(event: str) -> None:
    def press(self: Callback) -> None:
        if self.train_iter == 2:
            raise KeyboardInterrupt

    learn = learner(cbs=[Recorder, log := Log()])
    with pytest.raises(KeyboardInterrupt):
        learn.fit(2, cbs=Callback(**{event: press}))
    assert log.seen[-1] == "cleanup_fit" and len(learn.cbs) == 3 and not learn.training
    assert all(parameter.grad is None for parameter in learn.model.parameters())
    learn.opt = None
    learn.model.load_state_dict(network().state_dict())
    learn.fit(2)
    assert same(learn.model, by_hand(batches(), 2))


def test_an_empty_validation_set_and_a_last_batch_of_one() -> None:
    data = [*batches(2), (X[8:9], Y[8:9])]
    learn = learner(data, [], cbs=Recorder, metrics=accuracy)
    learn.fit(1)
    assert same(learn.model, by_hand(data, 1))
    assert learn.recorder.values[0][1:] == [None, None] and learn.recorder.metric_names[1:4] == [
        "train_loss",
        "valid_loss",
        "accuracy",
    ]
    with pytest.raises(ValueError, match="gave no batch"):
        learn.get_preds()


class Stream(IterableDataset):
    def __iter__(self) -> object:
        return iter([(x, y) for x, y in zip(X, Y)])


def test_a_loader_of_unknown_length() -> None:
    learn = learner(DataLoader(Stream(), 4), DataLoader(Stream(), 4), cbs=Recorder)
    learn.fit_one_cycle(2, 0.1)
    assert learn.train_iter == 6 and len(learn.recorder.hps["lr"]) == 6
    learn = learner(DataLoader(Stream(), 4), cbs=Recorder)
    learn.fit(1)
    assert same(learn.model, by_hand(batches(), 1))


def test_a_metric_may_be_nan() -> None:
    learn = learner(valid=batches(1), cbs=Recorder, metrics=lambda pred, target: numod.tensor(float("nan")))
    learn.fit(1)
    assert learn.recorder.values[0][-1] != learn.recorder.values[0][-1] and learn.recorder.values[0][1] > 0


def test_loaders_that_are_no_dataloaders() -> None:
    class Loaders:  # as miniai's
        train, valid = batches(), batches(1)

    learn = Learner(Loaders(), network(), F.cross_entropy, optim.SGD, lr=0.1, default_cbs=False)
    learn.fit(1)
    assert same(learn.model, by_hand(batches(), 1))
    with pytest.raises(TypeError, match="expected DataLoaders"):
        Learner(3, network(), F.cross_entropy)


def test_batches_without_targets_and_with_several_inputs() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, a: numod.Tensor, b: numod.Tensor) -> numod.Tensor:
            return self.inner(a + b)

    learn = Learner(
        DataLoaders([(x, x, y) for x, y in batches()]), Sum(), F.cross_entropy, optim.SGD, lr=0.1, default_cbs=False
    )
    learn.fit(1)
    assert same(learn.model, by_hand([(x + x, y) for x, y in batches()], 1))
    preds, targets = learner([X[:4]], [X[:4]]).get_preds()
    assert preds.shape == (4, 3) and targets is None


def test_reason_for_an_eager_step_is_reported() -> None:
    with pytest.warns(UserWarning, match="the step runs eagerly, because GradientAccumulation listens to after_loss"):
        learner(compile=True, cbs=GradientAccumulation(4)).fit(1)


def test_a_compiled_step_may_contain_a_callback_of_tensors() -> None:
    learn = learner(compile=True, cbs=[GradientClip(0.1), Recorder])
    learn.fit(1)
    expected = by_hand(batches(), 1, change=lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1))
    assert all(numod.allclose(a, b, rtol=1e-6) for a, b in zip(learn.model.parameters(), expected.parameters()))


def test_the_last_batch_of_a_compiled_epoch_may_be_smaller() -> None:
    data = [*batches(2), (X[8:9], Y[8:9])]
    learn = learner(data, data, compile=True, cbs=Recorder, metrics=accuracy)
    learn.fit(1)
    assert all(numod.allclose(a, b, rtol=1e-6) for a, b in zip(learn.model.parameters(), by_hand(data, 1).parameters()))
    assert learn.recorder.values[0] == pytest.approx([learn.recorder.losses[-1], *learn.validate()])


def test_names_of_unknown_events_are_refused() -> None:
    with pytest.raises(TypeError, match="'after_btach' is no event"):
        Callback(after_btach=lambda self: None)


def test_from_dsets_shuffles_training_only() -> None:
    dls = DataLoaders.from_dsets(TensorDataset(X, Y), TensorDataset(X, Y), bs=5)
    assert len(dls.train) == 2 and len(dls.valid) == 3
    assert numod.equal(numod.cat([x for x, _ in dls.valid]), X)
