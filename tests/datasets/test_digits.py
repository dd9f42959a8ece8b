"""The digits: the data as published, the split, and batches equal to what single samples give."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import numod
from numod import datasets
from numod.datasets import Digits, load_digits
from numod.utils.data import DataLoader, Subset, default_collate

DIGEST = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
FIRST_TEST_LABELS = [5, 5, 8, 5, 7, 1, 1, 5, 2, 4, 6, 5]


def test_shapes_dtypes_and_range():
    images, labels = load_digits()
    assert (images.shape, images.dtype) == ((1797, 1, 8, 8), numod.float32)
    assert (labels.shape, labels.dtype) == ((1797,), numod.int64)
    assert (images.min().item(), images.max().item()) == (0.0, 1.0)


def test_the_data_is_the_published_data():
    """Class counts as the UCI page states them, the first image as printed there, and a digest over every value."""
    images, labels = load_digits()
    counts = [labels.tolist().count(digit) for digit in range(10)]
    assert counts == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    pixels = (images * 16).numpy().astype("uint8")
    assert pixels[0, 0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert labels[:10].tolist() == list(range(10))
    assert hashlib.sha256(pixels.tobytes() + labels.numpy().astype("uint8").tobytes()).hexdigest() == DIGEST


def test_each_call_gives_tensors_of_its_own():
    load_digits()[0][0] = 1
    assert load_digits()[0][0].max().item() < 1


def test_the_file_is_small_and_attributed():
    folder = Path(datasets.__file__).parent
    assert (folder / "digits.npz").stat().st_size < 60_000
    text = (folder / "ATTRIBUTION.md").read_text()
    assert all(part in text for part in ("Alpaydin", "Kaynak", "UCI Machine Learning Repository", "CC BY 4.0"))


def test_the_split_covers_all_digits_once():
    train, test = Digits(train=True), Digits(train=False)
    assert (len(train), len(test)) == (1437, 360)
    rows = [bytes((image * 16).numpy().astype("uint8")) for part in (train, test) for image in part.data]
    published = [bytes((image * 16).numpy().astype("uint8")) for image in load_digits()[0]]
    assert sorted(rows) == sorted(published)
    assert set(test.targets.tolist()) == set(range(10))


def test_the_split_is_always_the_same():
    assert Digits(train=False).targets.tolist() == Digits(train=False).targets.tolist()
    assert Digits(train=False).targets[:12].tolist() == FIRST_TEST_LABELS


def test_samples():
    digits = Digits()
    image, label = digits[3]
    assert image.shape == (1, 8, 8)
    assert type(label) is int
    assert (image.tolist(), label) == (digits.data[3].tolist(), digits.targets[3].item())
    with pytest.raises(IndexError):
        digits[1437]


def test_a_batch_equals_its_samples():
    digits = Digits(train=False)
    batch = next(iter(DataLoader(Subset(digits, [5, 0, 7]), batch_size=3)))
    expected = default_collate([digits[5], digits[0], digits[7]])
    assert [tensor.tolist() for tensor in batch] == [tensor.tolist() for tensor in expected]
    assert [tensor.dtype for tensor in batch] == [numod.float32, numod.int64]


def test_transforms_see_single_samples():
    digits = Digits(train=False, transform=lambda image: image.flatten(), target_transform=lambda label: -label)
    images, labels = next(iter(DataLoader(digits, batch_size=4)))
    assert images.shape == (4, 64)
    assert labels.tolist() == [-label for label in Digits(train=False).targets[:4].tolist()]


def test_repr_says_what_it_is():
    assert repr(Digits(train=False)) == "Digits(test, 360 images of 8x8)"
    assert Digits.classes[7] == "7"
