"""Values in and out: NumPy, DLPack, pickles and copies, Python's protocols, and tensor() from nested data."""

import copy
import io
import pickle

import numpy as np
import pytest

import numod

DTYPES = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]


# ---- NumPy


@pytest.mark.parametrize("dtype", DTYPES)
def test_from_numpy_and_back_share_memory(dtype):
    array = np.array([[1, 0, 1], [0, 1, 1]], dtype=dtype)
    x = numod.from_numpy(array)
    assert x.dtype is getattr(numod, dtype) and x.tolist() == array.tolist()
    back = x.numpy()
    assert back.dtype == array.dtype and np.shares_memory(back, array)
    array[0, 1] = 1
    assert x[0, 1].item() == 1
    x[1, 0] = 1
    assert array[1, 0] == 1 and back[1, 0] == 1


@pytest.mark.parametrize(
    "part", [np.s_[1], np.s_[:, ::2], np.s_[1:, 1:], np.s_[..., 0], np.s_[1, 2], np.s_[:0]], ids=str
)
def test_strided_arrays_share_memory(part):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[part]
    x = numod.from_numpy(np.asarray(array))
    assert x.tolist() == array.tolist() and x.shape == array.shape
    y = numod.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))[part]
    assert y.numpy().tolist() == array.tolist() and np.shares_memory(y.numpy(), y.numpy()) == bool(y.numel())


def test_transposed_arrays_share_memory():
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    x = numod.from_numpy(array)
    assert x.stride() == (1, 3) and np.shares_memory(x.numpy(), array)
    x[0, 1] = 100
    assert array[0, 1] == 100


def test_broadcast_arrays_are_read_only_and_copied():
    array = np.broadcast_to(np.float32(3), (2, 2))
    with pytest.warns(UserWarning, match="array is not writable"):
        x = numod.from_numpy(array)
    x[0, 0] = 5
    assert array[0, 0] == 3 and x.tolist() == [[5.0, 3.0], [3.0, 3.0]]


def test_negative_strides_are_refused():
    with pytest.raises(ValueError, match="negative"):
        numod.from_numpy(np.arange(3)[::-1])
    assert numod.tensor(np.arange(3)[::-1]).tolist() == [2, 1, 0]


def test_from_numpy_shares_memory_whatever_the_stride_of_a_single_element():
    memory = np.zeros(4)
    array = np.lib.stride_tricks.as_strided(memory, (1, 3), (12, 8))  # 12 bytes are no number of elements
    numod.from_numpy(array)[0, 1] = 2.0
    assert memory[1] == 2.0


def test_read_only_arrays_are_copied():
    array = np.arange(3.0)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="array is not writable"):
        x = numod.from_numpy(array)
    x[0] = 100
    assert array[0] == 0 and x[0].item() == 100


def test_foreign_byte_order():
    array = np.array([1.5, -2.0], dtype=">f4")
    assert numod.tensor(array).tolist() == [1.5, -2.0]
    try:
        x = numod.from_numpy(array)
    except (ValueError, TypeError) as error:
        assert "byte order" in str(error)  # as PyTorch does
    else:
        assert x.tolist() == [1.5, -2.0]


def test_misaligned_arrays():
    array = np.frombuffer(bytearray(b"\0" + np.arange(3, dtype=np.float32).tobytes()), dtype=np.float32, offset=1)
    assert numod.from_numpy(array).add(1).tolist() == [1.0, 2.0, 3.0]
    fields = np.zeros(3, dtype=[("a", "i1"), ("b", "f4")])
    fields["b"] = [1, 2, 3]
    assert numod.from_numpy(fields["b"]).mul(2).tolist() == [2.0, 4.0, 6.0]


def test_invalid_arrays_and_dtypes():
    for value in ([1.0], 3, "text"):
        with pytest.raises(TypeError, match="expected np.ndarray"):
            numod.from_numpy(value)
    for array in (np.zeros(2, dtype="U3"), np.zeros(2, dtype=object), np.zeros(2, dtype="datetime64[s]")):
        with pytest.raises(TypeError):
            numod.from_numpy(array)


def test_the_array_lives_as_long_as_the_tensor():
    x = numod.from_numpy(np.arange(1000.0)[5:])
    others = [np.zeros(995) for _ in range(20)]
    assert x[0].item() == 5.0 and len(others) == 20


def test_empty_and_scalar_arrays():
    assert numod.from_numpy(np.zeros((0, 3), dtype=np.float32)).shape == (0, 3)
    scalar = np.array(3.0)
    x = numod.from_numpy(scalar)
    x.fill_(4)
    assert scalar == 4.0 and x.numpy().shape == () and numod.zeros(2, 0).numpy().shape == (2, 0)


def test_bool_arrays_are_bool_both_ways():
    x = numod.tensor([1.0, -1.0]) > 0
    array = x.numpy()
    assert array.dtype == np.bool_ and array.tolist() == [True, False]
    array[1] = True
    assert x.tolist() == [True, True]


def test_numpy_refuses_to_cut_the_tape():
    x = numod.ones(2, requires_grad=True)
    for refused in (x.numpy, (x * 2).numpy, lambda: np.asarray(x)):
        with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
            refused()
    assert x.numpy(force=True).tolist() == x.detach().numpy().tolist() == [1.0, 1.0]


def test_the_array_protocol():
    x = numod.tensor([1.5, 2.5])
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.int64).tolist() == [1, 2]
    assert np.array(x, dtype=np.float64).dtype == np.float64
    assert np.shares_memory(np.array(x, copy=False), x.numpy())
    with pytest.raises(ValueError):
        np.array(x, dtype=np.float64, copy=False)
    assert np.sin(x.numpy()).tolist() == pytest.approx(np.sin([1.5, 2.5]).tolist())


def test_arrays_and_tensors_in_one_formula():
    x, array = numod.tensor([1.0, 2.0]), np.array([10.0, 20.0], dtype=np.float32)
    assert type(np.float32(3) * x) is numod.Tensor and (np.float32(3) * x).tolist() == [3.0, 6.0]
    assert (x * np.float64(2)).dtype is numod.float32
    assert numod.as_tensor(array).add(x).tolist() == [11.0, 22.0]


# ---- DLPack


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bool"])
def test_dlpack_with_numpy(dtype):
    x = numod.tensor([[1, 2], [3, 4]], dtype=getattr(numod, dtype))
    array = np.from_dlpack(x)
    assert array.tolist() == [[1, 2], [3, 4]] and array.dtype == dtype and np.shares_memory(array, x.numpy())
    source = np.arange(6, dtype=dtype).reshape(2, 3)[:, ::2]
    y = numod.from_dlpack(source)
    source[0, 0] = 9
    assert y.tolist() == source.tolist()


def test_dlpack_of_views():
    x = numod.arange(6, dtype=numod.float32).view(2, 3)
    assert np.from_dlpack(x.t()).tolist() == x.t().tolist()
    assert np.from_dlpack(x[1, 1:]).tolist() == [4.0, 5.0]
    assert x.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_with_torch(dtype):
    torch = pytest.importorskip("torch")
    x = numod.tensor([[1, 0], [1, 1]], dtype=getattr(numod, dtype))
    theirs = torch.from_dlpack(x)
    assert theirs.tolist() == x.tolist() and theirs.dtype is getattr(torch, dtype)
    theirs[0, 1] = 1
    assert x[0, 1].item() == 1
    back = numod.from_dlpack(theirs.t())
    back[0, 0] = 0
    assert theirs[0, 0].item() == 0 and back.dtype is x.dtype


def test_dlpack_with_numod():
    x = numod.tensor([1.0, 2.0])
    numod.from_dlpack(x).mul_(2)
    assert x.tolist() == [2.0, 4.0]


def test_dlpack_refuses_to_cut_the_tape():
    x = numod.ones(2, requires_grad=True)
    for tensor in (x, x * 2):
        with pytest.raises((BufferError, RuntimeError), match="require gradient"):
            np.from_dlpack(tensor)
    assert np.from_dlpack(x.detach()).tolist() == [1.0, 1.0]


def test_dlpack_keeps_the_memory_alive():
    array = np.from_dlpack(numod.arange(1000) + 7)
    others = [numod.zeros(1000, dtype=numod.int64) for _ in range(20)]
    assert array[0] == 7 and len(others) == 20


# ---- pickle and copies


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def saved(value):
    file = io.BytesIO()
    pickle.dump(value, file, protocol=2)
    file.seek(0)
    return pickle.load(file)


COPIES = pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled, saved], ids=["deepcopy", "pickle", "pickle2"])


@COPIES
@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_hold_the_values(duplicate, dtype):
    x = numod.tensor([[1, 0], [1, 1]], dtype=getattr(numod, dtype))
    y = duplicate(x)
    assert y.dtype is x.dtype and y.tolist() == x.tolist() and not y.requires_grad
    y[0, 0] = 0
    assert x[0, 0].item() == 1


@COPIES
@pytest.mark.parametrize(
    "make",
    [
        lambda: numod.tensor(3.0),
        lambda: numod.zeros(0, 2),
        lambda: numod.ones(2, 3).t(),
        lambda: numod.arange(6)[::2],
        lambda: numod.ones(1).expand(3),
    ],
)
def test_copies_of_any_layout(duplicate, make):
    x = make()
    y = duplicate(x)
    assert y.tolist() == x.tolist() and y.shape == x.shape


@COPIES
def test_copies_of_a_leaf_require_a_gradient(duplicate):
    x = numod.ones(2, requires_grad=True)
    y = duplicate(x)
    assert y.requires_grad and y.is_leaf
    (y * 2).sum().backward()
    assert x.grad is None and y.grad.tolist() == [2.0, 2.0]


def test_a_deep_copy_has_a_gradient_of_its_own():
    x = numod.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    y = copy.deepcopy(x)
    y.grad.zero_()
    assert x.grad.tolist() == [2.0, 2.0]


def test_computed_tensors_pickle_without_history_and_refuse_deepcopy():
    x = numod.ones(2, requires_grad=True)
    y = pickle.loads(pickle.dumps(x * 2))
    assert y.tolist() == [2.0, 2.0] and y.is_leaf and y.grad_fn is None
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly"):
        copy.deepcopy({"computed": x * 2})


@COPIES
def test_ties_within_one_structure_are_kept(duplicate):
    x = numod.ones(2)
    a, b = duplicate([x, {"again": x}])
    assert a is b["again"]


@COPIES
def test_views_of_one_memory_stay_tied_or_are_apart_but_right(duplicate):
    x = numod.arange(6, dtype=numod.float32)
    a, b = duplicate([x, x[2:4]])
    assert a.tolist() == x.tolist() and b.tolist() == [2.0, 3.0]


@COPIES
def test_parameters_stay_parameters(duplicate):
    p = numod.nn.Parameter(numod.ones(2), requires_grad=False)
    p.note = ["mine"]
    q = duplicate(p)
    assert type(q) is numod.nn.Parameter and not q.requires_grad and q.note == ["mine"] and q.note is not p.note


def test_a_shallow_copy_shares_memory():
    x = numod.ones(2)
    y = copy.copy(x)
    y[0] = 5
    assert x.tolist() in ([5.0, 1.0], [1.0, 1.0]) and y.tolist() == [5.0, 1.0]


@COPIES
def test_a_view_is_copied_small(duplicate):
    x = numod.zeros(100_000)[:2]
    assert len(pickle.dumps(x)) < 2000 and duplicate(x).numel() == 2


def test_pickled_on_the_meta_device():
    module = pickled(numod.nn.Linear(2, 3, device="meta"))
    assert module.weight.is_meta and module.weight.shape == (3, 2) and isinstance(module.weight, numod.nn.Parameter)


@pytest.mark.parametrize(
    "value", [numod.float32, numod.device("cpu"), numod.Size([2, 3]), numod.zeros(2).shape], ids=str
)
def test_small_things_survive(value):
    assert pickled(value) == copy.deepcopy(value) == value and type(pickled(value)) is type(value)


# ---- Python's protocols


def test_item():
    assert numod.tensor(2.5).item() == 2.5 and numod.tensor([[7]]).item() == 7
    assert (
        type(numod.tensor(7).item()) is int
        and type(numod.tensor(True).item()) is bool
        and type(numod.tensor(1.0).item()) is float
    )
    assert numod.arange(4)[2].item() == 2
    assert numod.tensor(2.5, requires_grad=True).item() == 2.5
    for x in (numod.zeros(2), numod.zeros(0)):
        with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
            x.item()


def test_tolist():
    assert numod.tensor(3).tolist() == 3 and numod.zeros(2, 0).tolist() == [[], []]
    assert numod.tensor([[1, 2], [3, 4]]).t().tolist() == [[1, 3], [2, 4]]
    assert [
        type(number)
        for number in (numod.tensor([True]).tolist()[0], numod.tensor([1]).tolist()[0], numod.tensor([1.0]).tolist()[0])
    ] == [bool, int, float]
    assert numod.ones(2, requires_grad=True).tolist() == [1.0, 1.0]


def test_numbers():
    assert int(numod.tensor(2.9)) == 2 and int(numod.tensor(-2.9)) == -2 and float(numod.tensor([3])) == 3.0
    assert complex(float(numod.tensor(1.0))) == 1
    for convert in (int, float):
        with pytest.raises((RuntimeError, TypeError, ValueError)):
            convert(numod.zeros(2))
    with pytest.raises((OverflowError, ValueError)):
        int(numod.tensor(float("inf")))


def test_truth():
    assert numod.tensor(1.0) and not numod.tensor([[0]]) and numod.tensor(float("nan"))
    for x in (numod.zeros(2), numod.zeros(0)):
        with pytest.raises(
            RuntimeError, match="Boolean value of Tensor with (more than one value|no values) is ambiguous"
        ):
            bool(x)


def test_as_an_index():
    assert (
        [10, 20, 30][numod.tensor(1)] == 20
        and list(range(numod.tensor(3))) == [0, 1, 2]
        and "ab" * numod.tensor(2) == "abab"
    )
    for x in (numod.tensor(1.0), numod.tensor([1, 2])):
        with pytest.raises(TypeError, match="only integer tensors of a single element can be converted to an index"):
            [10, 20][x]


def test_length():
    assert len(numod.zeros(3, 2)) == 3 and len(numod.zeros(0)) == 0
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(numod.tensor(1))


def test_iteration():
    assert [row.tolist() for row in numod.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    a, b = numod.tensor([5, 6])
    assert (a.item(), b.item()) == (5, 6) and list(numod.zeros(0, 3)) == []
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(numod.tensor(1))
    rows = iter(numod.ones(2, 2, requires_grad=True))
    assert next(rows).requires_grad


def test_membership():
    x = numod.tensor([1, 2, 3])
    assert 2 in x and 5 not in x and numod.tensor(3) in x
    with pytest.raises((RuntimeError, TypeError)):
        "text" in x  # noqa: B015


def test_formatting():
    assert f"{numod.tensor(2.5):.2f}" == "2.50" and f"{numod.tensor(7):03d}" == "007"
    assert f"{numod.tensor(2.5)}" == "2.5" and f"{numod.tensor(True)}" == "True"
    assert f"{numod.tensor([2.5])}" == str(numod.tensor([2.5]))


def test_tensors_are_keys_by_identity():
    x, y = numod.ones(2), numod.ones(2)
    table = {x: 1, y: 2}
    assert table[x] == 1 and table[y] == 2


# ---- tensor()


@pytest.mark.parametrize(
    ("data", "dtype"),
    [(1, "int64"), (1.5, "float32"), (True, "bool"), ([1, 2], "int64"), ([1, 2.5], "float32"), ([True, False], "bool"), ([True, 2], "int64"),
     ([True, 2.5], "float32"),
     ([], "float32"), ([[], []], "float32"), ((1, (2, 3)[0]), "int64"), (range(3), "int64"), (np.float64(2), "float64"), (np.int32(2), "int32"),
     (np.zeros(2), "float64"), ([np.float32(1), np.float32(2)], "float32")],
)  # fmt: skip
def test_the_dtype_follows_the_data(data, dtype):
    assert numod.tensor(data).dtype is getattr(numod, dtype)


def test_nested_sequences():
    assert numod.tensor([[1, 2, 3], (4, 5, 6)]).shape == (2, 3)
    assert numod.tensor([numod.tensor(1.0), numod.tensor(2.0)]).tolist() == [1.0, 2.0]
    assert numod.tensor([np.array([1, 2]), np.array([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert numod.tensor([[[]]]).shape == (1, 1, 0)


def test_tensor_copies():
    array, x = np.zeros(2), numod.zeros(2)
    numod.tensor(array)[0] = 1
    x.clone().fill_(1)
    assert array.tolist() == x.tolist() == [0.0, 0.0]
    assert numod.as_tensor(array).data_ptr() == array.ctypes.data and numod.as_tensor(x) is x


def test_conversion():
    assert numod.tensor([1.9, -1.9], dtype=numod.int64).tolist() == [1, -1]
    assert numod.tensor([0, 2, -1], dtype=numod.bool).tolist() == [False, True, True]
    assert numod.tensor([0.5, 0.0], dtype=numod.bool).tolist() == [True, False]
    assert numod.tensor([1, 2], dtype=numod.float64, requires_grad=True).requires_grad


@pytest.mark.parametrize("data", [[[1, 2], [3]], [1, [2]], [[1], 2], [[[1]], [[1, 2]]]], ids=str)
def test_ragged_sequences_are_refused(data):
    with pytest.raises((ValueError, TypeError), match="expected sequence|sequences? of|not a sequence|int"):
        numod.tensor(data)


@pytest.mark.parametrize("data", ["text", ["a"], None, [None], {"a": 1}, object(), [{}]])
def test_tensor_refuses_data_that_is_not_numeric(data):
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        numod.tensor(data)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (2**63, None),
        ([2**63], None),
        (2**64, None),
        (-(2**63) - 1, None),
        (300, "uint8"),
        ([128], "int8"),
        (2**31, "int32"),
    ],
)
def test_overflow_is_an_error(data, dtype):
    with pytest.raises((RuntimeError, OverflowError, ValueError), match="[Oo]verflow|cannot be converted"):
        numod.tensor(data, dtype=dtype and getattr(numod, dtype))


def test_the_greatest_integers():
    limits = [-(2**63), 2**63 - 1]
    assert numod.tensor(limits).tolist() == limits
    assert numod.tensor(limits[1]).item() == limits[1]


def test_values_beyond_float32_become_infinite():
    assert numod.tensor([1e39, -1e39]).tolist() == [float("inf"), float("-inf")]
