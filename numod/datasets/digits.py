"""The UCI handwritten digits: 1,797 grey images of 8x8 pixels with their labels. Not MNIST, whose images are 28x28.

The data is the test part of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (1998), UCI
Machine Learning Repository, https://doi.org/10.24432/C50P49, licence CC BY 4.0. It is stored as bytes in `digits.npz`;
see `ATTRIBUTION.md`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np

from ..core.tensor import Tensor
from ..core.create.values import from_numpy
from ..utils.data import Dataset
from ..utils.data.dataset import gather, rewrites

_FILE = Path(__file__).with_name("digits.npz")
_TEST_COUNT = 360  # a fifth of the images
_SPLIT_SEED = 0


def load_digits() -> tuple[Tensor, Tensor]:
    """All digits in the order of the original file.

    Images are float32 (1797, 1, 8, 8) between 0 and 1, labels int64 (1797,).
    """
    images, labels = _arrays()
    return from_numpy(images), from_numpy(labels)


class Digits(Dataset):
    """The digits as samples `(image, label)`: a float32 tensor (1, 8, 8) between 0 and 1, and an int.

    `train=True` selects the 1,437 training images, `train=False` the other 360. The split is drawn from a fixed seed
    and is the same on every machine. `transform` is applied to an image, `target_transform` to a label, when a sample
    is read. `data` (N, 1, 8, 8) and `targets` (N,) are the tensors of the samples.
    """

    classes: ClassVar[list[str]] = [str(digit) for digit in range(10)]

    def __init__(
        self, train: bool = True, transform: Callable | None = None, target_transform: Callable | None = None
    ) -> None:
        images, labels = _arrays()
        chosen = _split(len(labels), train)
        self.train, self.transform, self.target_transform = train, transform, target_transform
        self.data, self.targets = from_numpy(images[chosen]), from_numpy(labels[chosen])

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = self.data[index], int(self.targets[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return image, label

    def __getbatch__(self, indices: list[int]) -> list[Tensor]:
        """Images (B, 1, 8, 8) and labels (B,) by one index call each, or NotImplemented if samples are transformed."""
        transformed = self.transform is not None or self.target_transform is not None
        if transformed or rewrites(self, Digits, "__getitem__", "__getitems__"):
            return NotImplemented
        return gather((self.data, self.targets), indices)

    def __len__(self) -> int:
        return len(self.targets)

    def __repr__(self) -> str:
        return f"Digits({'train' if self.train else 'test'}, {len(self)} images of 8x8)"


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    """Images float32 (1797, 1, 8, 8) in 0..1 and labels int64 (1797,), as new arrays."""
    with np.load(_FILE, allow_pickle=False) as stored:
        images, labels = stored["images"], stored["labels"]
    return images[:, None].astype(np.float32) / 16, labels.astype(np.int64)


def _split(count: int, train: bool) -> list[int]:
    """Sorted indices of one part.

    Python guarantees the sequence of `random.random()` for a seed, so the split never changes.
    """
    draw = random.Random(_SPLIT_SEED)
    keys = [draw.random() for _ in range(count)]
    shuffled = sorted(range(count), key=keys.__getitem__)
    return sorted(shuffled[_TEST_COUNT:] if train else shuffled[:_TEST_COUNT])
