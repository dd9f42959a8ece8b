"""DistributedTrainer: a fit on several ranks of `numod.distributed`, each with its share of the batches.

Every rank runs the same script. Rank 0 alone prints and writes files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import distributed as dist
from ..autograd import no_grad
from ..core.create.random import randint
from ..nn import SyncBatchNorm
from ..nn.parallel import DistributedDataParallel
from ..utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler
from .callbacks import no_logger
from .events import Callback

if TYPE_CHECKING:
    from .learner import Learner


class DistributedTrainer(Callback):
    """Train on all ranks of the default process group, each with its share of the training batches.

    During `fit` the model is a DistributedDataParallel, which averages the gradients. A DataLoader's samples are
    divided by a DistributedSampler, so a step has `bs` samples from each rank; of any other iterable each rank takes
    every n-th batch. Validation runs on all samples on every rank, so that metrics are exact and the decisions of
    callbacks equal. Losses of training are averaged over the ranks. Rank 0 alone prints, shows progress and writes
    files. Afterwards all ranks have the same model.

    - `sync_bn`: batch norms use the statistics of all ranks; they stay SyncBatchNorms.
    - `options`: those of DistributedDataParallel.

    Example:

        >>> from numod.learner import DistributedTrainer
        >>> trainer = DistributedTrainer(sync_bn=True)  # for Learner(..., cbs=trainer); learn.distrib_ctx() adds one
        >>> trainer.group_rank  # of several processes, if `numod.distributed.run` started the script
        0
    """

    order, only_fit, needs_pred, spans_ranks = -9.5, True, False, True

    def __init__(self, sync_bn: bool = False, **options: Any) -> None:
        self.sync_bn, self.options = sync_bn, options
        self._model: Any = None
        self._loader: Any = None
        self._logger: Any = None
        self._seed = 0

    @property
    def group_rank(self) -> int:
        """This process's rank; 0 without a process group."""
        return rank_distrib()

    def wrap(self) -> None:
        """Wrap the model and the training loader. The Learner calls it before it compiles the step."""
        learn = self.learn
        if not dist.is_initialized():
            raise RuntimeError(
                "DistributedTrainer needs a process group: train in `with learn.distrib_ctx():`, or call "
                "numod.distributed.init_process_group first"
            )
        if learn.dls.device is not None:
            learn.model.to(learn.dls.device)
        if self.sync_bn:
            learn.model = SyncBatchNorm.convert_sync_batchnorm(learn.model)
        self._model, self._loader, self._logger = learn.model, learn.dls.train, learn.logger
        self._seed = self.same_on_all_ranks(int(randint(1 << 31, ()).item()))
        # buffers are sent after each batch instead, before averages and checkpoints read them
        learn.model = DistributedDataParallel(learn.model, **{"broadcast_buffers": False, **self.options})
        learn.dls.loaders[0] = share_of(learn.dls.train, self._seed)
        if self.group_rank:
            learn.logger = no_logger

    def same_on_all_ranks(self, value: Any) -> Any:
        """Rank 0's value."""
        values = [value]
        dist.broadcast_object_list(values, 0)
        return values[0]

    def gathered(self, value: Any) -> list:
        """The values of all ranks."""
        values = [None] * num_distrib()
        dist.all_gather_object(values, value)
        return values

    def before_train(self) -> None:
        """Let the sampler draw the epoch's order."""
        sampler = getattr(self.learn.dls.train, "sampler", None)
        if isinstance(sampler, DistributedSampler):
            sampler.set_epoch(self.learn.epoch)

    def after_batch(self) -> None:
        """Average the loss of training, and take rank 0's buffers, so that all ranks have the same."""
        learn = self.learn
        if not learn.training:
            return
        with no_grad():
            if learn.loss is not None:
                loss = learn.loss.detach().clone()
                dist.all_reduce(loss, dist.ReduceOp.AVG)
                learn.loss = loss
            for buffer in self._model.buffers():
                dist.broadcast(buffer, 0)

    def state_dict(self) -> dict[str, Any]:
        """The seed of the samples' order."""
        return {"seed": self._seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with the order of the run that is resumed."""
        self._seed, sampler = state["seed"], getattr(self.learn.dls.train, "sampler", None)
        if isinstance(sampler, DistributedSampler):
            sampler.seed = self._seed

    def cleanup_fit(self) -> None:
        """Put back the model and the loader."""
        if self._model is not None:
            self.learn.model, self.learn.dls.loaders[0], self.learn.logger = self._model, self._loader, self._logger
            self._model = self._loader = None


def rank_distrib() -> int:
    """This process's rank; 0 without a process group."""
    return dist.get_rank() if dist.is_initialized() else 0


def num_distrib() -> int:
    """The number of ranks; 1 without a process group."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank0_first(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Call a function on rank 0, then on the others: for what the first call downloads or caches. Gives its result."""
    if rank_distrib() == 0:
        result = function(*args, **kwargs)
    if dist.is_initialized():
        dist.barrier()
    return result if rank_distrib() == 0 else function(*args, **kwargs)


@contextmanager
def in_process_group(learn: Learner, sync_bn: bool, options: dict[str, Any]) -> Iterator[Learner]:
    """Context in which `learn.fit` trains on all ranks. A process group is made, and ended, if there is none."""
    starts = not dist.is_initialized()
    if starts:
        dist.init_process_group("mpi")
    try:
        with learn.added_cbs(DistributedTrainer(sync_bn, **options)):
            yield learn
    finally:
        if starts:
            dist.destroy_process_group()


def share_of(loader: Any, seed: int) -> Any:
    """This rank's share of a loader's batches; every rank has as many."""
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset) or loader.batch_size is None:
        return _EveryNth(loader)
    if isinstance(loader.sampler, DistributedSampler):
        return loader
    if type(loader.sampler) not in (RandomSampler, SequentialSampler):
        return _EveryNth(loader)
    sampler = DistributedSampler(
        loader.dataset, shuffle=type(loader.sampler) is RandomSampler, seed=seed, drop_last=loader.drop_last
    )
    workers = (
        {"num_workers": loader.num_workers, "prefetch_factor": loader.prefetch_factor} if loader.num_workers else {}
    )
    return DataLoader(
        loader.dataset, loader.batch_size, sampler=sampler, drop_last=loader.drop_last, collate_fn=loader.collate_fn,
        worker_init_fn=loader.worker_init_fn, generator=loader.generator, pin_memory=loader.pin_memory,
        persistent_workers=loader.persistent_workers, **workers,
    )  # fmt: skip


class _EveryNth:
    """Every n-th batch of a loader that gives the same batches on all ranks; an incomplete last round is left out."""

    def __init__(self, loader: Iterable) -> None:
        self.loader = loader

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __len__(self) -> int:
        return len(self.loader) // num_distrib()

    def __iter__(self) -> Iterator:
        rank, count, own_batch = rank_distrib(), num_distrib(), None
        for number, batch in enumerate(self.loader):
            own_batch = batch if number % count == rank else own_batch
            if number % count == count - 1:
                yield own_batch
