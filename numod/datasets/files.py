"""Readers: a CSV file (the extra `data`, pandas) and a folder of images (the extra `data`, pillow)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..core.create.values import from_numpy
from ..core.tensor import Tensor
from ..utils.data import Dataset, TensorDataset

IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


def optional(name: str, package: str) -> Any:
    """A module of the extra `data`. Raises ImportError with the line to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {package}, which is not installed: pip install 'numod[data]'") from error


class CSV(TensorDataset):
    """The rows of a CSV file as samples (features, target).

    `target` is a column's name; columns of text become numbers of their sorted values (`categories[column]`). A target
    of text or whole numbers is a class (int64, `classes`), any other a float32 number. Features are float32 (columns,);
    a missing one is the column's mean, or a category of its own. `columns` chooses the features, `options` go to
    `pandas.read_csv`.
    """

    def __init__(self, file: Any, target: str, columns: Sequence[str] | None = None, **options: Any) -> None:
        frame = optional("pandas", "pandas").read_csv(file, **options)
        missing = [name for name in (target, *(columns or ())) if name not in frame.columns]
        if missing:
            raise ValueError(f"CSV: there is no column {missing[0]!r}; there are {', '.join(map(str, frame.columns))}")
        self.columns = [name for name in frame.columns if name != target] if columns is None else list(columns)
        self.categories: dict[str, list[str]] = {}
        features = [self._numbers(name, frame[name]) for name in self.columns]
        targets = frame[target]
        if targets.isna().any():
            raise ValueError(f"CSV: the target {target!r} is missing in row {int(targets.isna().argmax())}")
        self.classes: list[str] | None = None
        if targets.dtype.kind in "iuf":
            values = targets.to_numpy(np.float32 if targets.dtype.kind == "f" else np.int64)
            if targets.dtype.kind != "f" and len(values) and values.min() >= 0:
                self.classes = [str(number) for number in range(int(values.max()) + 1)]
        else:
            values = self._numbers(target, targets).astype(np.int64)
            self.classes = self.categories.pop(target)
        super().__init__(from_numpy(np.stack(features, 1).astype(np.float32)), from_numpy(np.ascontiguousarray(values)))

    def _numbers(self, name: str, column: Any) -> np.ndarray:
        if column.dtype.kind in "iufb":
            values = column.to_numpy(np.float64)
            return np.where(np.isnan(values), np.nanmean(values), values) if np.isnan(values).any() else values
        texts = ["" if absent else str(number) for number, absent in zip(column, column.isna())]
        known = self.categories[name] = sorted(set(texts))
        return np.array([known.index(text) for text in texts], dtype=np.float64)


class ImageFolder(Dataset):
    """Images in folders named by their class, as torchvision's: samples (image, class number).

    An image is float32 (3, H, W) from 0 to 1, or (1, H, W) with `mode="L"`; `transform` is applied to it,
    `target_transform` to the class. `classes` are the folders' names in order, `samples` the (path, class) pairs.
    Images of one batch must have one size: give `size=(H, W)`, or a transform.
    """

    def __init__(
        self,
        root: str | os.PathLike,
        transform: Callable | None = None,
        target_transform: Callable | None = None,
        mode: str = "RGB",
        size: tuple[int, int] | None = None,
    ) -> None:
        self.root, self.mode, self.size = Path(root), mode, size
        self.transform, self.target_transform = transform, target_transform
        self.classes = sorted(entry.name for entry in self.root.iterdir() if entry.is_dir())
        if not self.classes:
            raise FileNotFoundError(f"Couldn't find any class folder in {self.root}.")
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples = [
            (path, number)
            for name, number in self.class_to_idx.items()
            for path in sorted((self.root / name).rglob("*"))
            if path.suffix.lower() in IMAGES
        ]
        if not self.samples:
            raise FileNotFoundError(f"Found no image in {self.root}; known suffixes are {', '.join(IMAGES)}")
        self.targets = [number for _, number in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        image: Any = read_image(path, self.mode, self.size)
        if self.transform is not None:
            image = self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)


def read_image(path: str | os.PathLike, mode: str = "RGB", size: tuple[int, int] | None = None) -> Tensor:
    """An image file as float32 (C, H, W) from 0 to 1. `mode` is pillow's ("RGB", "L"), `size` is (H, W)."""
    with optional("PIL.Image", "pillow").open(path) as image:
        image = image.convert(mode)
        if size is not None:
            image = image.resize((size[1], size[0]))
        pixels = np.asarray(image, dtype=np.float32) / 255
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return from_numpy(np.ascontiguousarray(pixels))
