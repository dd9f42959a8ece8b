"""DataLoaders: the loaders of training and of validation."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.tensor import Tensor
from ..device.device import Device
from ..nn import CrossEntropyLoss, MSELoss
from ..utils.data import DataLoader, Dataset, IterableDataset


class DataLoaders:
    """Loaders of training and validation (`train`, `valid`), and any more by number.

    A loader is any iterable of batches `(inputs…, target)`. `n_inp` says how many of a batch's entries are inputs (all
    but the last), `vocab` what the classes are called (the dataset's `classes`). Batches go to `device`, or to where
    the model is. Without a second loader there is no validation.
    """

    def __init__(
        self,
        *loaders: Iterable,
        path: str | Path = ".",
        device: Any = None,
        n_inp: int | None = None,
        vocab: Sequence | None = None,
    ) -> None:
        if not loaders:
            raise ValueError("DataLoaders: expected a loader for training, and usually one for validation")
        self.loaders, self.path, self.n_inp, self._vocab = list(loaders), Path(path), n_inp, vocab
        self.device = None if device is None else Device(device) if isinstance(device, str) else device

    @classmethod
    def from_dsets(
        cls,
        *datasets: Dataset,
        path: str | Path = ".",
        bs: int = 64,
        device: Any = None,
        n_inp: int | None = None,
        vocab: Sequence | None = None,
        shuffle: bool = True,
        drop_last: bool = True,
        **options: Any,
    ) -> DataLoaders:
        """Loaders of datasets in batches of `bs`; `options` go to the DataLoaders.

        The first dataset is for training: only there samples are shuffled and an incomplete last batch is dropped. It
        is kept if it is the only one.
        """
        loaders = []
        for number, dataset in enumerate(datasets):
            stream = isinstance(dataset, IterableDataset)
            drop = drop_last and number == 0 and (stream or len(dataset) >= bs)
            order = {} if stream else {"shuffle": shuffle and number == 0}
            loaders.append(DataLoader(dataset, bs, drop_last=drop, **order, **options))
        return cls(*loaders, path=path, device=device, n_inp=n_inp, vocab=vocab)

    @property
    def train(self) -> Any:
        """The training loader."""
        return self.loaders[0]

    @property
    def valid(self) -> Any:
        """The validation loader, or None."""
        return self.loaders[1] if len(self.loaders) > 1 else None

    @property
    def train_ds(self) -> Any:
        """The training dataset, or None if the loader has no `dataset`."""
        return getattr(self.train, "dataset", None)

    @property
    def valid_ds(self) -> Any:
        """The validation dataset, or None if the loader has no `dataset`."""
        return getattr(self.valid, "dataset", None)

    @property
    def vocab(self) -> Sequence | None:
        """Names of the classes, or None."""
        return self._vocab if self._vocab is not None else getattr(innermost(self.train_ds), "classes", None)

    def __getitem__(self, number: int) -> Any:
        return self.loaders[number]

    def __len__(self) -> int:
        return len(self.loaders)

    def to(self, device: Any) -> DataLoaders:
        """Send batches to a device."""
        self.device = Device(device) if isinstance(device, str) else device
        return self

    def one_batch(self) -> Any:
        """The first batch of training."""
        return next(iter(self.train))


def innermost(dataset: Any) -> Any:
    """The dataset under any Subset wrappers."""
    while hasattr(dataset, "indices") and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    return dataset


def in_order(loader: Any) -> Any:
    """The loader, without shuffling and with the last batch, where it is a DataLoader over a map-style dataset."""
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset) or loader.batch_size is None:
        return loader
    return DataLoader(loader.dataset, loader.batch_size, num_workers=loader.num_workers, collate_fn=loader.collate_fn)


def moved_to(batch: Any, device: Any) -> Any:
    """The batch with all its tensors on a device."""
    return mapped(batch, lambda tensor: tensor.to(device))


def mapped(batch: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The batch with each of its tensors, also in tuples, lists and dicts, replaced by the function's result."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: mapped(value, function) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        parts = [mapped(part, function) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


@contextmanager
def ended(iterator: Iterator) -> Iterator[Iterator]:
    """Context that ends a generator, also where a traceback keeps it."""
    try:
        yield iterator
    finally:
        if isinstance(iterator, Generator):
            iterator.close()


def as_dataloaders(dls: Any) -> DataLoaders:
    """`dls` as DataLoaders; it may also be a pair (train, valid) or an object with these attributes."""
    if isinstance(dls, DataLoaders):
        return dls
    if isinstance(dls, (tuple, list)):
        return DataLoaders(*dls)
    if not hasattr(dls, "train"):
        raise TypeError(f"Learner: expected DataLoaders(train, valid), got {type(dls).__name__}")
    loaders = DataLoaders(dls.train, *([dls.valid] if getattr(dls, "valid", None) is not None else []))
    loaders.device, loaders.n_inp = getattr(dls, "device", None), getattr(dls, "n_inp", None)
    loaders.path = Path(getattr(dls, "path", "."))
    return loaders


def default_loss(dls: DataLoaders) -> Callable:
    """The loss that fits the targets."""
    known = getattr(dls.train_ds, "loss_func", None)
    if known is not None:
        return known
    try:
        target = dls.train_ds[0][-1]
    except (TypeError, IndexError, KeyError, NotImplementedError):
        target = None
    if isinstance(target, int) or (isinstance(target, Tensor) and not target.is_floating_point()):
        return CrossEntropyLoss()
    if isinstance(target, (float, Tensor)):
        return MSELoss()
    raise ValueError("Learner: could not infer a loss function from the data; pass loss_func")
