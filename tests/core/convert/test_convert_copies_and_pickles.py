"""Copies, pickles, storages and conversions: shared memory, dtypes and memory order."""

import copy
import pickle

import numpy as np
import pytest

import numod
from numod import nn


def test_numbers_written_into_float64_keep_their_digits():
    x = numod.zeros(3, dtype=numod.float64)
    x[0], x[1:] = 0.1234567890123, [0.2345678901234, 1e300]
    assert x.tolist() == [0.1234567890123, 0.2345678901234, 1e300]


def test_shallow_copies_share_memory():
    x = numod.tensor([1.0, 2.0])
    copy.copy(x).fill_(5)
    p = copy.copy(nn.Parameter(x))
    assert x.tolist() == [5, 5] and type(p) is nn.Parameter and p.requires_grad and p.data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "name", ["tanh", "relu", "sigmoid", "matmul", "sum", "max", "cat", "softmax", "clamp", "absolute"]
)
def test_functions_are_pickled_by_name(name):
    function = getattr(numod, name)
    assert pickle.loads(pickle.dumps(function)) is function


def test_storages_by_element():
    x = numod.arange(6, dtype=numod.float64).reshape(2, 3)
    storage = x[1].storage()
    assert (len(storage), storage[3], storage.nbytes(), storage.data_ptr()) == (
        6,
        3.0,
        48,
        x.data_ptr(),
    ) and storage.tolist() == list(range(6))
    storage[0] = 9
    assert x[0, 0].item() == 9 and not storage.is_shared()
    assert numod.ones(2, 3, 4, 5).contiguous(memory_format=numod.channels_last).dim_order() == (0, 2, 3, 1)
    assert numod.ones(1, 2, 3).dim_order(ambiguity_check=[numod.contiguous_format]) == (0, 1, 2)
    with pytest.raises(RuntimeError, match="unique dim order"):
        numod.ones(1, 2, 3).dim_order(ambiguity_check=True)


def test_copies_asked_for_by_position():
    x = numod.ones(2)
    assert x.to("cpu", numod.float32, False, True).data_ptr() != x.data_ptr() and x.to(numod.float32, False) is x


def test_casts_take_a_memory_format():
    x = numod.ones(2, 3, 4, 5, dtype=numod.float64)
    assert x.float(memory_format=numod.channels_last).is_contiguous(memory_format=numod.channels_last)


def test_asarray_of_tensors_and_buffers():
    x = numod.ones(3, requires_grad=True)
    assert (
        numod.asarray(x, copy=True).grad_fn is not None
        and numod.asarray(x, copy=True).data_ptr() != x.data_ptr()
        and numod.asarray(x) is x
    )
    assert not numod.asarray(x, requires_grad=False).requires_grad
    memory = bytearray(8)
    numod.asarray(memory, copy=False)[1] = 1.0
    assert np.frombuffer(memory, dtype=np.float32).tolist() == [0, 1] and numod.asarray(
        memoryview(memory), dtype=numod.uint8
    ).shape == (8,)


def test_copies_of_views_share_memory():
    x = numod.arange(4.0)
    whole, part, transposed = copy.deepcopy([x, x[1:], x.view(2, 2).t()])
    whole.fill_(7)
    assert (
        part.tolist() == [7, 7, 7]
        and transposed.tolist() == [[7, 7], [7, 7]]
        and transposed.stride() == (1, 2)
        and x.tolist() == [0, 1, 2, 3]
    )


def test_numbers_are_copied():
    assert numod.zeros(2).copy_(2).tolist() == [2, 2] == numod.zeros(2).copy_(np.float32(2)).tolist()


def test_storages_of_files(tmp_path):
    """How safetensors reads a file: bytes of a mapped storage, seen as another dtype."""
    np.arange(6, dtype=np.float32).tofile(tmp_path / "memory")
    storage = numod.UntypedStorage.from_file(str(tmp_path / "memory"), nbytes=24)
    part = storage[8:16]
    x = numod.asarray(part, dtype=numod.uint8).view(dtype=numod.float32)
    assert (
        x.tolist() == [2, 3]
        and (len(part), part.element_size(), storage.untyped() is storage) == (8, 1, True)
        and part.tolist()[3] == part[3] == 64
    )
    x[0] = 7
    assert (
        numod.asarray(storage, dtype=numod.float32).tolist() == [0, 1, 7, 3, 4, 5]
        and np.fromfile(tmp_path / "memory", np.float32)[2] == 2
    )
    with pytest.raises(RuntimeError, match="step of 2"):
        storage[::2]
    y = numod.arange(3.0)
    bits = numod.asarray(y.untyped_storage(), dtype=numod.int32)
    y.fill_(1)
    assert bits.tolist() == [1065353216] * 3


def test_a_tensor_s_dict_is_what_the_user_set():
    x = nn.Parameter(numod.ones(2))
    assert vars(x) == {} and type(x)(x.detach(), **x.__dict__).requires_grad  # how accelerate makes a parameter anew
    x.tag, x.__dict__["other"] = 3, 4
    x.__dict__.update(third=5)
    assert (
        (x.other, x.third, x.__dict__.pop("third")) == (4, 5, 5)
        and x.__dict__ == {"tag": 3, "other": 4}
        and not hasattr(x, "third")
    )
    assert vars(copy.copy(x)) == vars(copy.deepcopy(x)) == vars(pickle.loads(pickle.dumps(x))) == {"tag": 3, "other": 4}
    with pytest.raises(KeyError):
        x.__dict__.pop("third")
    x.__dict__ = {"only": 1}
    assert vars(x) == {"only": 1} and x.tolist() == [1, 1]
    x.__dict__.clear()
    assert vars(x) == {} and x.sum().item() == 2


def test_constructors_by_dtype_refuse_tensors_of_another():
    assert numod.LongTensor(numod.tensor([1])).dtype is numod.int64
    with pytest.raises(TypeError, match="expected LongTensor"):
        numod.LongTensor(numod.tensor([1.5]))


def test_sizes_are_integers():
    assert numod.Size([numod.tensor(2), np.int64(3)]) == (2, 3) and type((1,) + numod.Size([2])) is numod.Size
    with pytest.raises(TypeError, match="item 1 is 'float'"):
        numod.Size([1, 1.5])


def test_pickles_keep_the_order_of_dimensions_in_memory():
    for x in (numod.arange(6).view(2, 3).t(), numod.ones(2, 3, 4, 5).to(memory_format=numod.channels_last)):
        again = pickle.loads(pickle.dumps(x))
        assert again.equal(x) and again.stride() == x.stride()


def test_a_tensor_in_a_list_is_a_number_whatever_its_shape():
    """`numod.tensor([loss, loss])` of losses of shape (1,) was a column."""
    one = numod.ones(1)
    assert [tuple(numod.tensor(nested).shape) for nested in ([one, one], [one[0], one], [one.reshape(1, 1)], [[one], [2]],
        [np.ones(1), one])] == [
        (2,), (2,), (1,), (2, 1), (2, 1),
    ]  # fmt: skip
    assert (
        numod.tensor([[1, 2], numod.ones(2)]).tolist() == [[1, 1 + 1], [1, 1]]
        and numod.as_tensor([one, one.double()]).dtype is numod.float64
    )
    with pytest.raises(ValueError, match="only one element tensors can be converted.*use stack"):
        numod.tensor([numod.ones(2), numod.ones(2)])
    itself = []
    itself.append(itself)
    with pytest.raises(ValueError, match="contains itself"):
        numod.tensor(itself)


def test_great_integers_become_floats_where_the_dtype_is_one():
    assert (
        numod.tensor([2**64, 1], dtype=numod.float32).tolist() == [2.0**64, 1]
        and numod.tensor(2**64, dtype=numod.complex64).item() == 2**64
    )
    with pytest.raises(ValueError, match="does not fit in 64 bits"):
        numod.tensor([2**64])
