"""DLPack capsules: consumed once, kept alive while in use, refused if unsupported."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import numod
from numod.core.convert import exchange
from numod.utils.dlpack import from_dlpack, to_dlpack


def test_a_capsule_is_read_once():
    x = numod.arange(6.0).reshape(2, 3)
    capsule = to_dlpack(x.t())
    y = from_dlpack(capsule)
    y[0, 1] = 9
    assert y.shape == (3, 2) and x[1, 0].item() == 9
    with pytest.raises(RuntimeError, match="only once"):
        from_dlpack(capsule)


def test_asarray_and_tensor_take_what_only_dlpack_describes():
    x = numod.arange(3.0)

    class Exporting:
        def __dlpack__(self, **options):
            return x.__dlpack__(**options)

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    for shared in (numod.asarray(to_dlpack(x)), numod.asarray(Exporting(), copy=False), numod.as_tensor(Exporting())):
        assert shared.data_ptr() == x.data_ptr()
    copied = numod.tensor(Exporting())
    assert copied.data_ptr() != x.data_ptr() and copied.tolist() == [0, 1, 2]


def test_bfloat16_leaves_and_enters():
    x = numod.tensor([1.5, -2.0, float("inf")]).bfloat16()
    y = numod.from_dlpack(to_dlpack(x))
    assert y.dtype is numod.bfloat16 and y.data_ptr() == x.data_ptr() and y.tolist() == [1.5, -2.0, float("inf")]


def test_memory_lives_as_long_as_somebody_reads_it():
    gc.collect()  # what other tests left
    before = len(exchange._exported)
    capsule = to_dlpack(numod.full((1000,), 7.0).bfloat16())
    gc.collect()
    assert len(exchange._exported) == before + 1
    y = from_dlpack(capsule)
    part = y[10:20]
    del capsule, y
    gc.collect()
    assert part.tolist() == [7.0] * 10 and len(exchange._exported) == before + 1
    del part
    gc.collect()
    assert len(exchange._exported) == before


def test_a_capsule_that_nobody_reads_is_freed():
    gc.collect()  # what other tests left
    before = len(exchange._exported)
    capsule = to_dlpack(numod.ones(3).bfloat16())
    assert len(exchange._exported) == before + 1
    del capsule
    gc.collect()
    assert len(exchange._exported) == before


@pytest.mark.parametrize(
    "array",
    [np.arange(6.0).reshape(2, 3)[:, ::2], np.zeros((0, 3), dtype=np.int32), np.array(2.5), np.array([True, False])],
    ids=["strided", "empty", "scalar", "bool"],
)
def test_arrays_enter(array):
    x = numod.from_dlpack(array)
    assert x.shape == array.shape and x.tolist() == array.tolist() and str(x.dtype).endswith(str(array.dtype))
    if array.size > 1:
        x.zero_()
        assert not array.any()


def test_read_only_memory_is_copied():
    array = np.arange(3)
    array.flags.writeable = False
    x = numod.from_dlpack(array)
    x[0] = 5
    assert array.tolist() == [0, 1, 2]


def test_copies_where_asked():
    x = numod.arange(3)
    assert numod.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert np.from_dlpack(x, copy=True).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("arguments", "error", "words"), [
    (5, RuntimeError, "expected an array"), (np.arange(3)[::-1], ValueError, "negative strides"),
], ids=["number", "reversed"])  # fmt: skip
def test_invalid_buffers_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        numod.from_dlpack(arguments)


def test_a_tensor_of_the_cpu_has_no_cuda_interface():
    assert not hasattr(numod.ones(2), "__cuda_array_interface__")
    with pytest.raises(BufferError):
        numod.ones(2).__dlpack__(dl_device=(13, 0))


@pytest.mark.parity
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_with_pytorch(dtype):
    torch = pytest.importorskip("torch")
    theirs = torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=getattr(torch, dtype))
    mine = numod.from_dlpack(theirs.t())
    assert (
        mine.dtype is getattr(numod, dtype)
        and mine.tolist() == theirs.t().tolist()
        and mine.data_ptr() == theirs.data_ptr()
    )
    back = torch.from_dlpack(mine)
    assert back.data_ptr() == theirs.data_ptr() and back.stride() == (1, 3)
    capsule = torch.utils.dlpack.from_dlpack(to_dlpack(mine))
    assert torch.equal(capsule, theirs.t())
    del theirs, back, capsule
    gc.collect()
    assert mine.tolist() == [[0, 1], [1, 0], [1, 1]]


def test_mapped_files(tmp_path):
    path = tmp_path / "numbers"
    shared = numod.from_file(str(path), shared=True, size=3, dtype=numod.int16)
    shared[1] = 7
    private = numod.from_file(str(path), size=3, dtype=numod.int16)
    private[0] = 1
    assert (
        path.read_bytes() == bytes([0, 0, 7, 0, 0, 0])
        and private.tolist() == [1, 7, 0]
        and shared.tolist() == [0, 7, 0]
    )
    with pytest.raises(RuntimeError, match="9 elements of numod.float32 are 36 bytes, but .* has 6"):
        numod.from_file(str(path), size=9)
    with pytest.raises(RuntimeError, match="unable to open file .*missing"):
        numod.from_file(str(tmp_path / "missing"), size=1)
