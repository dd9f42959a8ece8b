"""Each callback against a loop written by hand."""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext

import pytest

import numod
from numod import nn, optim
from numod.learner import (
    EMA,
    SWA,
    ActivationStats,
    BnFreeze,
    Callback,
    CSVLogger,
    CutMix,
    EarlyStoppingCallback,
    GradientAccumulation,
    GradientClip,
    MixedPrecision,
    MixUp,
    ParamScheduler,
    Recorder,
    ReduceLROnPlateau,
    SaveModelCallback,
    ShortEpochCallback,
    TerminateOnNaNCallback,
    ValueMetric,
    combined_cos,
)
from numod.nn import functional as F
from small_training import batches, by_hand, learner, network, same


def test_param_scheduler_sets_the_learning_rate_of_each_batch() -> None:
    sched = combined_cos(0.25, 0.01, 0.1, 0.001)
    learn = learner(cbs=[Recorder, ParamScheduler({"lr": sched})])
    learn.fit(2)
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for number, (x, y) in enumerate(batches() * 2):
        optimizer.param_groups[0]["lr"] = sched(number / 6)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert all(numod.allclose(a, b, rtol=1e-6) for a, b in zip(learn.model.parameters(), model.parameters()))
    assert learn.recorder.lrs == learn.recorder.hps["lr"] == pytest.approx([sched(k / 6) for k in range(6)])


def test_gradient_clip() -> None:
    learn = learner(cbs=GradientClip(0.1))
    learn.fit(1)
    assert same(
        learn.model, by_hand(batches(), 1, change=lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.1))
    )


def test_gradient_accumulation_is_a_step_of_the_whole_batch() -> None:
    learn = learner(batches(2), cbs=GradientAccumulation(8))
    learn.fit(1)
    model = network()
    for x, y in batches(2):
        (F.cross_entropy(model(x), y) / 2).backward()
    optim.SGD(model.parameters(), lr=0.1).step()
    assert all(numod.allclose(a, b, rtol=1e-6) for a, b in zip(learn.model.parameters(), model.parameters()))


def test_mixed_precision_fp16_scales_and_skips() -> None:
    learn = learner(cbs=[MixedPrecision(init_scale=2.0**10), Recorder])
    learn.fit(1)
    model = network()
    optimizer, scaler = optim.SGD(model.parameters(), lr=0.1), numod.amp.GradScaler("cpu", init_scale=2.0**10)
    for x, y in batches():
        with numod.autocast("cpu", dtype=numod.float16):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert same(learn.model, model) and not numod.is_autocast_enabled("cpu")
    learn = learner(cbs=MixedPrecision(init_scale=math.inf))
    learn.fit(1)
    assert same(learn.model, network())  # no gradient was finite


def test_mixed_precision_bf16() -> None:
    learn = learner(batches(1), cbs=MixedPrecision("bf16"))
    learn.fit(1)
    model = network()
    x, y = batches(1)[0]
    with numod.autocast("cpu", dtype=numod.bfloat16):
        loss = F.cross_entropy(model(x).float(), y)
    loss.backward()
    optim.SGD(model.parameters(), lr=0.1).step()
    assert same(learn.model, model)


def test_autocast_ends_with_an_interrupted_batch() -> None:
    def press(self: Callback) -> None:
        raise KeyboardInterrupt

    learn = learner(cbs=[MixedPrecision(), Callback(after_pred=press)])
    with pytest.raises(KeyboardInterrupt):
        learn.fit(1)
    assert not numod.is_autocast_enabled("cpu")


class Given(Callback):
    """Gives validation losses from a list, through a metric."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def metric(self) -> ValueMetric:
        return ValueMetric(lambda: self.values[self.learn.epoch], "given_loss")


def tracked(tracker: Callback, values: list[float], **options: object) -> object:
    values_by_epoch = Given(values)
    learn = learner(
        batches(1), batches(1), cbs=[Recorder, values_by_epoch, tracker], metrics=values_by_epoch.metric(), **options
    )
    return learn


def test_early_stopping(capsys: pytest.CaptureFixture) -> None:
    learn = tracked(EarlyStoppingCallback("given_loss", patience=2), [3.0, 2.0, 2.5, 2.5, 1.0])
    learn.fit(5)
    assert (
        len(learn.recorder.values) == 4 and capsys.readouterr().out == "No improvement since epoch 1: early stopping\n"
    )
    learn = tracked(EarlyStoppingCallback("given_loss", min_delta=0.5), [3.0, 2.0, 1.8, 1.0])
    learn.fit(4)
    assert len(learn.recorder.values) == 3
    learn = tracked(EarlyStoppingCallback("given_loss"), [3.0, math.nan, 1.0])
    learn.fit(3)
    assert len(learn.recorder.values) == 2  # NaN is no improvement
    with pytest.raises(
        ValueError, match="monitor='accuracy' is not recorded; there are train_loss, valid_loss, given_loss"
    ):
        tracked(EarlyStoppingCallback("accuracy"), [1.0]).fit(1)


def test_reduce_lr_on_plateau(capsys: pytest.CaptureFixture) -> None:
    learn = tracked(ReduceLROnPlateau("given_loss", factor=2, min_lr=0.03), [3.0, 3.0, 3.0, 3.0])
    learn.fit(4)
    assert [lr for lr in learn.recorder.lrs] == pytest.approx([0.1, 0.1, 0.05, 0.03])
    assert capsys.readouterr().out.splitlines() == ["Epoch 1: reducing lr to 0.05", "Epoch 2: reducing lr to 0.03"]


def test_save_model_loads_the_best(tmp_path: object) -> None:
    learn = tracked(SaveModelCallback("given_loss"), [2.0, 1.0, 3.0], path=tmp_path)
    learn.fit(3)
    assert same(learn.model, by_hand(batches(1), 2)) and (tmp_path / "models" / "model.pth").exists()
    learn = tracked(SaveModelCallback("given_loss", every_epoch=2, fname="each"), [2.0, 1.0, 3.0], path=tmp_path)
    learn.fit(3)
    assert same(learn.model, by_hand(batches(1), 3))
    assert sorted(path.name for path in (tmp_path / "models").glob("each*")) == ["each_0.pth", "each_2.pth"]
    learn = tracked(SaveModelCallback("given_loss", fname="never"), [math.nan], path=tmp_path)
    learn.fit(1)  # nothing was better than nothing: there is no file to load


def test_terminate_on_nan() -> None:
    learn = learner(cbs=[TerminateOnNaNCallback, Recorder], loss_func=lambda pred, target: pred.sum() * math.nan)
    learn.fit(3)
    assert learn.train_iter == 1


def test_csv_logger(tmp_path: object) -> None:
    learn = learner(valid=batches(1), path=tmp_path, cbs=[Recorder(add_time=False), CSVLogger()])
    learn.fit(2)
    rows = learn.csv_logger.read_log()
    assert list(rows[0]) == ["epoch", "train_loss", "valid_loss"]
    assert [[float(value) for value in row.values()] for row in rows] == [
        [k, *learn.recorder.values[k]] for k in range(2)
    ]
    learn.validate()
    assert learn.csv_logger.read_log() == rows


def test_mixup_blends_inputs_and_losses() -> None:
    learn = learner(batches(1), cbs=[MixUp(0.4)], loss_func=nn.CrossEntropyLoss())
    numod.manual_seed(3)
    learn.fit(1)
    model = network()
    (x, y) = batches(1)[0]
    numod.manual_seed(3)
    weight = numod.distributions.Beta(0.4, 0.4).sample((4,))
    weight = weight.maximum(1 - weight)
    order = numod.randperm(4)
    pred = model(x[order] + weight[:, None] * (x - x[order]))
    first, other = F.cross_entropy(pred, y, reduction="none"), F.cross_entropy(pred, y[order], reduction="none")
    (other + weight * (first - other)).mean().backward()
    optim.SGD(model.parameters(), lr=0.1).step()
    assert all(numod.allclose(a, b, rtol=1e-6) for a, b in zip(learn.model.parameters(), model.parameters()))
    assert isinstance(learn.loss_func, nn.CrossEntropyLoss) and learn.loss_func.reduction == "mean"


def test_cutmix_pastes_a_rectangle_and_blends_losses_by_area() -> None:
    x, y = numod.arange(4.0).reshape(4, 1, 1, 1).expand(4, 2, 8, 6).clone(), numod.tensor([0, 1, 2, 1])
    model = nn.Sequential(nn.Flatten(), nn.Linear(96, 3))
    batch, before = [], copy.deepcopy(model)
    cutmix = CutMix()
    learn = learner([(x, y)], loss_func=nn.CrossEntropyLoss())
    learn.model = model
    learn.add_cbs([cutmix, Callback(after_loss=lambda self: batch.append((self.learn.x, self.learn.loss.item())))])
    numod.manual_seed(5)
    learn.fit(1)
    ((mixed, loss),) = batch
    pasted = (mixed != x).any(0).any(0)
    rows, columns = pasted.any(1).nonzero().flatten(), pasted.any(0).nonzero().flatten()
    area = len(rows) * len(columns)
    assert 0 < area < 48 and pasted.sum() == area and cutmix.lam.item() == pytest.approx(1 - area / 48)
    assert numod.equal(x[:, 0, 0, 0], numod.arange(4.0))  # the data is as before
    order = mixed[:, 0, rows[0], columns[0]].long()  # the images hold their numbers
    assert sorted(order.tolist()) == [0, 1, 2, 3]
    losses = [F.cross_entropy(before(mixed), targets).item() for targets in (y, y[order])]
    assert loss == pytest.approx((1 - area / 48) * losses[0] + area / 48 * losses[1], rel=1e-5)
    with pytest.raises(ValueError, match=r"CutMix: expected one input of shape .*, got \[\(4, 4\)\]"):
        learner(batches(1), cbs=[CutMix()]).fit(1)


def test_blending_makes_a_compiled_step_eager() -> None:
    models = []
    for compile in (False, True):
        numod.manual_seed(3)
        learn = learner(batches(1), cbs=[MixUp(0.4)], loss_func=nn.CrossEntropyLoss(), compile=compile)
        with pytest.warns(UserWarning, match="MixUp replaces the loss function") if compile else nullcontext():
            learn.fit(1)
        models.append(learn.model)
    assert same(*models)


def test_ema_is_validated_and_left_in_the_model() -> None:
    seen: list = []
    learn = learner(batches(2), batches(1), cbs=[EMA(0.5), Callback(after_pred=lambda self: seen.append(self.pred))])
    learn.fit(1)
    model, average = network(), None
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(2):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        weights = copy.deepcopy(list(model.parameters()))
        average = weights if average is None else [a.lerp(w, 0.5) for a, w in zip(average, weights)]
    assert all(numod.allclose(a, b, rtol=1e-6) for a, b in zip(learn.model.parameters(), average))
    assert numod.allclose(seen[-1], learn.model(batches(1)[0][0]), rtol=1e-6)


def test_swa_is_the_mean_of_the_last_epochs() -> None:
    learn = learner(batches(1), cbs=SWA(0.5))
    learn.fit(4)
    ends = [by_hand(batches(1), epochs) for epochs in (3, 4)]
    for parameter, first, second in zip(learn.model.parameters(), *[model.parameters() for model in ends]):
        assert numod.allclose(parameter, (first + second) / 2, rtol=1e-6)


def test_activation_stats() -> None:
    learn = learner(batches(1), batches(1), cbs=ActivationStats(with_hist=True))
    hidden = network()[:2](batches(1)[0][0])
    learn.fit(1)
    mean, std, near_zero = learn.activation_stats.layer_stats(1)
    expected = hidden.mean().item(), hidden.std().item(), (hidden <= 0.05).float().mean().item()
    assert [mean, std, near_zero] == [[pytest.approx(value)] for value in expected]
    assert learn.activation_stats.hist(1).shape == (40, 1) and not learn.model[1]._forward_hooks
    assert [name for name, _ in learn.activation_stats.layers] == ["0", "1", "2"]


def test_precisions_are_switched() -> None:
    learn = learner().to_fp16(init_scale=8.0)
    assert learn.mixed_precision.amp_mode == "fp16" and learn.mixed_precision.options == {"init_scale": 8.0}
    assert learn.to_bf16().mixed_precision.amp_mode == "bf16" and len(learn.cbs) == 2
    learn.to_fp32().fit(1)
    assert len(learn.cbs) == 1 and same(learn.model, by_hand(batches(), 1))


def test_statistics_of_frozen_batch_norms_stay() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3))
    model[1].requires_grad_(False)
    learn = learner(cbs=BnFreeze)
    learn.model = model
    learn.fit(1)
    assert numod.equal(model[1].running_mean, numod.zeros(8)) and model[1].num_batches_tracked == 0
    assert model[3].num_batches_tracked == 3


def test_short_epochs_end_early() -> None:
    learn = learner(valid=batches(), cbs=[Recorder, ShortEpochCallback(0.5)])
    learn.fit(2)
    expected = by_hand(batches()[:2], 2)
    assert same(learn.model, expected) and len(learn.recorder.losses) == 4
    with pytest.raises(ValueError, match="loaders of known length"):
        learner((batch for batch in batches()), cbs=ShortEpochCallback).fit(1)
