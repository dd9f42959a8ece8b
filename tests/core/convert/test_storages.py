"""Storages seen as elements of a dtype, and PyTorch's classes of them by dtype."""

from __future__ import annotations

import copy

import pytest

import numod


def test_classes_by_dtype() -> None:
    made = numod.FloatStorage([1, 2])
    assert (
        made.tolist() == [1.0, 2.0]
        and made.dtype is numod.float32
        and made.type() == "numod.FloatStorage"
        and made.element_size() == 4
    )
    assert (
        isinstance(made, numod.FloatStorage)
        and isinstance(made, numod.TypedStorage)
        and not isinstance(made, numod.LongStorage)
    )
    assert (
        isinstance(numod.arange(3).storage(), numod.LongStorage)
        and numod.ByteStorage(3).size() == 3
        and len(numod.HalfStorage()) == 0
    )
    assert {
        name: getattr(numod, f"{name}Storage").dtype
        for name in ("Double", "Bool", "BFloat16", "ComplexFloat", "Char", "Short", "Int", "ComplexDouble")
    }.keys()


def test_memory_of_others_and_copies() -> None:
    x = numod.ones(2)
    over = numod.FloatStorage(wrap_storage=x.untyped_storage())
    over[1] = 5.0
    assert x.tolist() == [1, 5]
    for other in (
        over.clone(),
        copy.copy(over),
        copy.deepcopy(over),
        over.double(),
        over.type("numod.LongStorage"),
        over.long(),
    ):
        other.fill_(3)
        assert x.tolist() == [1, 5] and other.tolist() == [3, 3]
    assert over.float() is over and over.copy_(numod.DoubleStorage([7, 8])).tolist() == [7, 8] == x.tolist()
    assert numod.FloatStorage.from_buffer(b"\0\0\x80?\0\0\0@", byte_order="little").tolist() == [1, 2]
    assert numod.FloatStorage.from_buffer(b"?\x80\0\0", byte_order="big").tolist() == [1]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: numod.FloatStorage(1, 2), RuntimeError, "a size, a sequence"), (lambda: numod.FloatStorage("x"), TypeError, "argument type"),
        (lambda: numod.FloatStorage(numod.ones(2)), TypeError, "argument type"), (lambda: numod.FloatStorage(-1), RuntimeError, "negative"),
    ],
)  # fmt: skip
def test_invalid_sizes_and_sequences(make: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        make()
