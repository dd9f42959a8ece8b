"""DistributedTrainer: a fit on two ranks gives the weights of one process with both halves of each batch.

Each test starts two processes, which takes a few seconds.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path

import pytest
from ranks import on_ranks

import numod
import numod.distributed as dist
from numod import nn
from numod.learner import (
    EMA, Callback, Checkpoint, CSVLogger, DataLoaders, DistributedTrainer, EarlyStoppingCallback, Learner,
    SaveModelCallback, TerminateOnNaNCallback, accuracy, num_distrib, rank0_first, rank_distrib,
)  # fmt: skip
from numod.nn import functional as F
from numod.utils.data import DataLoader, DistributedSampler, TensorDataset


def dataset() -> TensorDataset:
    generator = numod.Generator().manual_seed(1)
    x = numod.randn(48, 4, generator=generator)
    return TensorDataset(x, (x.sum(1) > 0).long())


def network() -> nn.Module:
    numod.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def make_learner(folder: str | Path = ".", shuffle: bool = True, **options: object) -> Learner:
    data = dataset()
    loaders = DataLoader(data, 6, shuffle=shuffle), DataLoader(data, 48)
    return Learner(DataLoaders(*loaders), network(), opt_func=numod.optim.SGD, path=folder, **options)


def quiet_fit(learn: Learner, *arguments: object, **options: object) -> None:
    with learn.distrib_ctx(), learn.no_bar(), learn.no_logging():
        learn.fit(*arguments, **options)


def same_on_both(model: nn.Module) -> bool:
    """Whether both ranks have the same tensors, bit for bit."""
    for value in model.state_dict().values():
        parts = [numod.empty_like(value) for _ in range(2)]
        dist.all_gather(parts, value)
        if not numod.equal(*parts):
            return False
    return True


def difference(model: nn.Module, other: nn.Module) -> float:
    pairs = zip(model.parameters(), other.parameters())
    return max((a - b).abs().max().item() for a, b in pairs)


def shared_folder() -> str:
    """A folder that both ranks know."""
    names = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names, 0)
    return names[0]


def by_hand(model: nn.Module, epochs: int, seed: int, shuffle: bool) -> None:
    """The training of both ranks in one process: the mean of the gradients of both shares."""
    data, optimizer = dataset(), numod.optim.SGD(model.parameters(), lr=0.1)
    samplers = [DistributedSampler(data, 2, rank, shuffle=shuffle, seed=seed) for rank in range(2)]
    for epoch in range(epochs):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        for batches in zip(*[DataLoader(data, 6, sampler=sampler) for sampler in samplers]):
            optimizer.zero_grad()
            for x, y in batches:
                (F.cross_entropy(model(x), y) / 2).backward()
            optimizer.step()


@on_ranks(2)
def test_two_ranks_train_as_one_process_with_both_shares() -> None:
    for shuffle in (False, True):
        for compiled in (False, True):
            learn = make_learner(shuffle=shuffle, compile=compiled)
            trainer = DistributedTrainer()
            with learn.no_bar(), learn.no_logging(), learn.added_cbs(trainer):
                learn.fit(2, 0.1)
            expected = network()
            by_hand(expected, 2, trainer._seed, shuffle)
            assert difference(learn.model, expected) < 1e-6 and same_on_both(learn.model)
            assert type(learn.model) is nn.Sequential and learn.dls.train.batch_size == 6
            assert len(learn.recorder.losses) == 2 * 48 // 12


@on_ranks(2)
def test_losses_and_metrics_are_those_of_all_ranks() -> None:
    learn = make_learner(metrics=accuracy)
    quiet_fit(learn, 2, 0.1)
    rows = [None, None]
    dist.all_gather_object(rows, (learn.recorder.losses, learn.recorder.values))
    assert rows[0] == rows[1]
    loss, correct = learn.recorder.values[-1][1:]
    x, y = dataset().tensors
    with numod.no_grad():
        pred = learn.model(x)
    assert abs(F.cross_entropy(pred, y).item() - loss) < 1e-6
    assert abs((pred.argmax(1) == y).float().mean().item() - correct) < 1e-6


@on_ranks(2)
def test_rank_0_alone_prints_and_writes() -> None:
    folder = shared_folder()
    callbacks = [CSVLogger(), SaveModelCallback(fname="best"), EarlyStoppingCallback(patience=1, min_delta=10.0)]
    learn, text = make_learner(folder, cbs=callbacks), io.StringIO()
    opened = []
    with contextlib.redirect_stdout(text), learn.distrib_ctx():
        learn.add_cb(Callback(after_epoch=lambda callback: opened.append(callback.csv_logger._file is not None)))
        learn.fit(5, 0.1)
    assert opened == [dist.get_rank() == 0] * 2  # the second epoch is not better
    assert bool(text.getvalue()) == (dist.get_rank() == 0)
    assert text.getvalue().count("early stopping") == (dist.get_rank() == 0)
    assert sorted(os.listdir(folder)) == ["history.csv", "models"] and os.listdir(f"{folder}/models") == ["best.pth"]
    assert len(learn.csv_logger.read_log()) == 2 and same_on_both(learn.model)
    alone = make_learner(folder)
    alone.load("best")
    assert difference(alone.model, learn.model) == 0


@on_ranks(2)
def test_averages_and_buffers_are_the_same_on_all_ranks() -> None:
    data = dataset()
    numod.manual_seed(dist.get_rank())
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    learn = Learner(DataLoaders(DataLoader(data, 6, shuffle=True), DataLoader(data, 48)), model, cbs=EMA(0.5))
    quiet_fit(learn, 2, 0.1)
    assert same_on_both(learn.model)
    with learn.distrib_ctx(sync_bn=True), learn.no_bar(), learn.no_logging():
        learn.fit_one_cycle(1, learn.lr_find().valley)
    assert same_on_both(learn.model) and isinstance(learn.model[1], nn.SyncBatchNorm)


@on_ranks(2)
def test_all_ranks_stop_where_one_has_no_finite_loss() -> None:
    learn = make_learner(cbs=TerminateOnNaNCallback())

    def spoil(callback: Callback) -> None:
        if callback.learn.iter == 1 and dist.get_rank() == 1:
            callback.learn.loss = callback.learn.loss * float("nan")

    with learn.added_cbs(Callback(after_loss=spoil)):
        quiet_fit(learn, 2, 0.1)
    assert learn.train_iter == 2


class Writer(Callback):
    """Saves the model after each epoch."""

    only_rank_0 = True

    def after_epoch(self) -> None:
        self.path = self.learn.save(f"epoch{self.learn.epoch}")


@on_ranks(2)
def test_a_callback_of_rank_0_can_save_the_model() -> None:
    folder = shared_folder()
    learn = make_learner(folder, cbs=Writer())
    quiet_fit(learn, 2, 0.1)
    assert same_on_both(learn.model) and sorted(os.listdir(f"{folder}/models")) == ["epoch0.pth", "epoch1.pth"]


class Interrupted(Exception):
    """Ends a run in the middle of an epoch."""


@on_ranks(2)
def test_an_interrupted_run_goes_on_bit_by_bit() -> None:
    def run(folder: str, at: int | None, resume: bool) -> nn.Module:
        data = dataset()
        numod.manual_seed(5 + dist.get_rank())  # dropout differs between ranks
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 2))
        dls = DataLoaders(DataLoader(data, 6, shuffle=True), DataLoader(data, 48))

        def stop(callback: Callback) -> None:
            if callback.learn.training and callback.learn.train_iter == at:
                raise Interrupted

        learn = Learner(dls, model, path=folder, cbs=[Checkpoint(every=2), Callback(before_batch=stop)])
        quiet_fit(learn, 3, 0.01, resume=resume)
        return model

    expected, folder = run(shared_folder(), None, False), shared_folder()
    for at in (3, 6, 9):
        with pytest.raises(Interrupted):
            run(folder, at, True)
    model = run(folder, None, True)
    assert same_on_both(model) and difference(model, expected) == 0


@on_ranks(2)
def test_other_iterables_give_every_rank_its_batches() -> None:
    generator = numod.Generator().manual_seed(1)
    x = numod.randn(5, 6, 4, generator=generator)
    batches = [(part, (part.sum(1) > 0).long()) for part in x]
    learn = Learner(DataLoaders(batches), network(), F.cross_entropy, numod.optim.SGD)
    sums = []
    learn.add_cb(Callback(before_batch=lambda callback: sums.append(callback.learn.xb[0].sum().item())))
    quiet_fit(learn, 1, 0.1)
    expected = [part.sum().item() for part in x]
    assert sums == expected[dist.get_rank() : 4 : 2] and same_on_both(learn.model)
    assert rank_distrib() == dist.get_rank() and num_distrib() == 2
    assert rank0_first(lambda: dist.get_rank()) == dist.get_rank()


def test_one_process_trains_as_without_ranks() -> None:
    learn, plain = make_learner(shuffle=False), make_learner(shuffle=False)
    quiet_fit(learn, 2, 0.1)
    with plain.no_bar(), plain.no_logging():
        plain.fit(2, 0.1)
    assert difference(learn.model, plain.model) < 1e-7
    assert not dist.is_initialized() and rank_distrib() == 0 and num_distrib() == 1


def test_without_a_process_group_an_error_says_what_to_do() -> None:
    learn = make_learner(cbs=DistributedTrainer())
    with learn.no_bar(), pytest.raises(RuntimeError, match="distrib_ctx"):
        learn.fit(1, 0.1)


def test_a_checkpoint_of_other_ranks_is_refused(tmp_path: Path) -> None:
    learn = make_learner(tmp_path, cbs=Checkpoint())
    with learn.no_bar(), learn.no_logging():
        learn.fit(1, 0.1)
        state = numod.load(learn.checkpoint.file)
        numod.save({**state, "ranks": [None, None]}, learn.checkpoint.file)
        with pytest.raises(ValueError, match="the run had 2 ranks, this one has 1"):
            learn.fit(2, 0.1, resume=True)
