"""Writing over tensors: dtypes and shapes, overlapping memory, `out=`, versions."""

import numpy as np
import pytest

import numod
import numod.nn.functional as F

pytestmark = pytest.mark.on_cuda


def vector(*values, dtype=numod.float32):
    return numod.tensor(list(values), dtype=dtype)


# ---- results


def test_in_place_ops_return_their_tensor_and_keep_its_memory():
    x = vector(1.0, 2.0)
    address = x.data_ptr()
    assert x.add_(1) is x and x.mul_(2) is x and x.exp_() is x and x.zero_() is x
    assert x.data_ptr() == address


OPERATORS = {
    "+=": lambda x: x.__iadd__(3),
    "-=": lambda x: x.__isub__(3),
    "*=": lambda x: x.__imul__(3),
    "/=": lambda x: x.__itruediv__(2),
    "//=": lambda x: x.__ifloordiv__(2),
    "%=": lambda x: x.__imod__(2),
    "**=": lambda x: x.__ipow__(2),
}
EXPECTED = {
    "+=": [4, 1, 8],
    "-=": [-2, -5, 2],
    "*=": [3, -6, 15],
    "/=": [0.5, -1, 2.5],
    "//=": [0, -1, 2],
    "%=": [1, 0, 1],
    "**=": [1, 4, 25],
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators(operator):
    x = vector(1.0, -2.0, 5.0)
    view = x.view(3)
    assert OPERATORS[operator](x) is x
    assert x.tolist() == view.tolist() == EXPECTED[operator]


def test_augmented_assignment_in_python():
    x = vector(1.0, 2.0)
    same = x
    x += 1
    x *= x
    assert same is x and same.tolist() == [4.0, 9.0]


def test_named_forms():
    x = vector(-1.5, 0.5, 2.0)
    assert x.clone().clamp_(-1, 1).tolist() == [-1.0, 0.5, 1.0]
    assert x.clone().clamp_(max=1).tolist() == [-1.5, 0.5, 1.0]
    assert x.clone().relu_().tolist() == [0.0, 0.5, 2.0]
    assert x.clone().neg_().abs_().tolist() == [1.5, 0.5, 2.0]
    assert x.clone().fill_(3).tolist() == [3.0] * 3
    assert x.clone().masked_fill_(x > 0, 9).tolist() == [-1.5, 9.0, 9.0]
    assert x.clone().add_(vector(1.0, 1.0, 1.0), alpha=2).tolist() == [0.5, 2.5, 4.0]
    assert x.clone().addcmul_(x, x, value=2).tolist() == [3.0, 1.0, 10.0]
    assert x.clone().lerp_(vector(0.0, 0.0, 0.0), 0.5).tolist() == [-0.75, 0.25, 1.0]
    assert x.clone().round_().tolist() == [-2.0, 0.0, 2.0]
    assert x.clone().pow_(2).tolist() == [2.25, 0.25, 4.0]


def test_copy_converts_and_broadcasts():
    x = numod.zeros(2, 3)
    assert x.copy_(numod.tensor([1, 2, 3])).tolist() == [[1.0, 2.0, 3.0]] * 2
    counts = numod.zeros(3, dtype=numod.int64)
    assert counts.copy_(vector(1.9, -1.9, 0.5)).tolist() == [1, -1, 0]


# ---- dtypes and shapes


def test_the_dtype_of_the_target_stays():
    assert vector(1.0, 2.0).add_(numod.ones(2, dtype=numod.float64)).dtype is numod.float32
    assert vector(1, 2, dtype=numod.int64).add_(True).dtype is numod.int64


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1.5),
        lambda x: x.mul_(vector(1.0, 2.0)),
        lambda x: x.div_(2),
        lambda x: x.exp_(),
        lambda x: x.__itruediv__(2),
        lambda x: x.sub_(vector(1.5, 2.5)),
    ],
    ids=["number", "tensor", "division", "exp", "operator", "sub"],
)
def test_a_float_result_does_not_go_into_an_integer_tensor(write):
    x = vector(1, 2, dtype=numod.int64)
    with pytest.raises(
        RuntimeError, match="result type [Ff]loat can't be cast to the desired output type (Long|long int|int64)"
    ):
        write(x)
    assert x.tolist() == [1, 2] and x._version == 0


def test_a_number_does_not_go_into_a_bool_tensor():
    x = numod.tensor([True, False])
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.add_(1)


def test_integers_wrap_in_a_narrower_target():
    x = vector(100, 1, dtype=numod.int8)
    assert x.add_(vector(100, 1, dtype=numod.int64)).tolist() == [-56, 2]


def test_the_other_side_is_broadcast_and_the_target_is_not():
    x = numod.zeros(2, 3)
    assert x.add_(vector(1.0, 2.0, 3.0)).tolist() == [[1.0, 2.0, 3.0]] * 2
    assert x.mul_(numod.tensor(2.0)).tolist() == [[2.0, 4.0, 6.0]] * 2
    for other in (numod.ones(2, 2, 3), numod.ones(4), numod.ones(1, 2, 3)):
        before = x.tolist()
        with pytest.raises(RuntimeError):
            x.add_(other)
        assert x.tolist() == before
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        numod.zeros(3).add_(numod.ones(2, 3))
    with pytest.raises(RuntimeError):
        numod.zeros(1, 3).add_(numod.ones(2, 3))


def test_copy_into_a_smaller_target_is_refused():
    with pytest.raises(RuntimeError):
        numod.zeros(3).copy_(numod.ones(2, 3))


def test_a_zero_dimensional_target():
    x = numod.tensor(1.0)
    x += 1
    assert x.item() == 2.0 and x.shape == ()
    with pytest.raises(RuntimeError):
        x += numod.ones(1)


# ---- strided targets


@pytest.mark.parametrize(
    "part", [np.s_[1], np.s_[:, 1], np.s_[:, ::2], np.s_[1:, 1:], np.s_[..., 0], np.s_[None, 1]], ids=str
)
def test_writes_through_views(part):
    expected = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = numod.tensor(expected)
    x[part].mul_(10)
    x[part] += 1
    expected[part] = expected[part] * 10 + 1
    assert x.tolist() == expected.tolist()


def test_write_through_a_transpose():
    x = numod.arange(6, dtype=numod.float32).view(2, 3)
    x.t().add_(numod.tensor([[10.0, 20.0]]))
    assert x.tolist() == [[10.0, 11.0, 12.0], [23.0, 24.0, 25.0]]


# ---- overlap of source and target


def overlap_cases():
    def shifted_down(x):
        x[1:] += x[:-1]

    def shifted_up(x):
        x[:-1] += x[1:]

    def copied_down(x):
        x[1:] = x[:-1]

    def copied_up(x):
        x[:-1] = x[1:]

    def reversed_steps(x):
        x[::2] = x[1::2].clone()

    def element_over_all(x):
        x *= x[1]

    def element_added(x):
        x += x[-1:]

    return [shifted_down, shifted_up, copied_down, copied_up, reversed_steps, element_over_all, element_added]


@pytest.mark.parametrize("case", overlap_cases(), ids=lambda case: case.__name__)
@pytest.mark.parametrize("size", [8, 1000])
def test_overlap_is_as_if_the_source_were_read_first(case, size):
    """NumPy's rule, which for these cases copies what overlaps."""
    expected = np.arange(1, size + 1, dtype=np.float32) % 7
    x = numod.tensor(expected)
    array = expected.copy()
    case(x)
    array_case(case.__name__, array)
    assert x.tolist() == array.tolist()


def array_case(name, x):
    if name == "shifted_down":
        x[1:] += x[:-1].copy()
    elif name == "shifted_up":
        x[:-1] += x[1:].copy()
    elif name == "copied_down":
        x[1:] = x[:-1].copy()
    elif name == "copied_up":
        x[:-1] = x[1:].copy()
    elif name == "reversed_steps":
        x[::2] = x[1::2].copy()
    elif name == "element_over_all":
        x *= x[1].copy()
    else:
        x += x[-1:].copy()


@pytest.mark.parametrize("size", [3, 40])
def test_a_matrix_takes_its_transpose(size):
    expected = np.arange(size * size, dtype=np.float32).reshape(size, size)
    x = numod.tensor(expected)
    assert x.copy_(x.t()).tolist() == expected.T.tolist()
    assert x.add_(x.t()).tolist() == (expected.T + expected).tolist()


def test_two_operands_of_one_memory():
    x = vector(1.0, 2.0, 3.0, 4.0)
    x[:3].addcmul_(x[1:], x[1:])
    assert x.tolist() == [5.0, 11.0, 19.0, 4.0]


@pytest.mark.cpu_only
def test_overlap_of_another_width_of_elements():
    memory = np.arange(6, dtype=np.float32)
    x, y = numod.from_numpy(memory[:4]), numod.from_numpy(memory[2:])
    x.copy_(y)
    assert memory.tolist() == [2, 3, 4, 5, 4, 5]


@pytest.mark.cpu_only
def test_overlap_through_numpy_is_noticed():
    """Two tensors made of one array do not share a storage, but do share memory."""
    memory = np.arange(5, dtype=np.float32)
    x, y = numod.from_numpy(memory[1:]), numod.from_numpy(memory[:-1])
    x += y
    assert memory.tolist() == [0, 1, 3, 5, 7]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.fill_(numod.ones(())),
        lambda x: x.copy_(numod.ones(3)),
        lambda x: x.uniform_(),
        lambda x: x.__setitem__(0, 1.0),
    ],
)
def test_an_expanded_target_is_refused(write):
    x = numod.zeros(1).expand(3)
    if write.__code__.co_names == ("__setitem__",):
        x = numod.zeros(1, 1).expand(2, 3)
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"
    ):
        write(x)


def test_an_expanded_target_is_filled():
    x = numod.zeros(2, 1, 1)
    x.expand(2, 3, 4).fill_(2)
    assert x.tolist() == [[[2.0]], [[2.0]]]
    x.expand(3, 2, 2, 5).zero_()
    assert not x.any()
    leaf = numod.zeros(3, requires_grad=True)
    y = leaf * 1
    y.unsqueeze(1).expand(3, 4)[1:].fill_(2)
    y.sum().backward()
    assert y.tolist() == [0.0, 2.0, 2.0] and leaf.grad.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "write, result",
    [
        (lambda x: x.index_fill_(0, numod.tensor([2, 0]), 2.0), [2.0, 2.0, 2.0]),
        (lambda x: x.index_put_((numod.tensor([2, 0]),), numod.tensor([3.0, 4.0])), [4.0, 4.0, 4.0]),
        (lambda x: x.masked_fill_(numod.tensor([False, True, False]), 5.0), [5.0, 5.0, 5.0]),
        (lambda x: x.masked_fill_(numod.zeros(3, dtype=numod.bool), 5.0), [1.0, 1.0, 1.0]),
        (lambda x: x.__setitem__(numod.tensor([1]), 6.0), [6.0, 6.0, 6.0]),
        (lambda x: x.__setitem__(numod.tensor([False, True, False]), 7.0), [7.0, 7.0, 7.0]),
    ],
)
def test_writes_by_index_into_an_expanded_target_are_deprecated(write, result):
    x = numod.ones(1).expand(3)
    with pytest.warns(UserWarning, match="on expanded tensors is deprecated"):
        write(x)
    assert x.tolist() == result


def test_write_by_index_into_rows_that_are_expanded():
    x = numod.arange(6.0).reshape(2, 1, 3)
    with pytest.warns(UserWarning, match="index_put_ on expanded tensors"):
        x.expand(2, 4, 3)[:, numod.tensor([1, 2])] = numod.tensor([[[7.0], [8.0]], [[9.0], [10.0]]])
    assert x.tolist() == [[[8.0] * 3], [[10.0] * 3]]
    with pytest.warns(UserWarning, match="index_fill_ on expanded tensors"):
        x.expand(2, 4, 3).index_fill_(2, numod.tensor([0]), -1.0)
    assert x.tolist() == [[[-1.0, 8.0, 8.0]], [[-1.0, 10.0, 10.0]]]


def test_a_threshold_is_applied_to_an_expanded_target():
    x = numod.tensor([0.2, 0.7])
    numod.nn.functional.threshold(x.expand(3, 2), 0.5, 0.0, inplace=True)
    assert x.tolist() == [0.0, numod.tensor(0.7).item()]


def test_parts_of_unsafe_splits_can_be_written():
    x = numod.ones(3, 3, requires_grad=True)
    first, second, _ = (x * 2).unsafe_split_with_sizes((1, 1, 1))
    first.mul_(second)
    first.sum().backward()
    assert x.grad.tolist() == [[4.0] * 3, [4.0] * 3, [0.0] * 3]


def test_an_expanded_target_of_one_row_is_fine():
    x = numod.zeros(1, 3)
    x.expand(1, 3).add_(1)
    assert x.tolist() == [[1.0, 1.0, 1.0]]


def test_an_overlapping_window_is_refused():
    with pytest.raises(RuntimeError, match="single memory location"):
        numod.arange(5).as_strided((2, 3), (1, 1)).zero_()


# ---- out=


def test_out_receives_and_is_returned():
    x, out = vector(1.0, 2.0), numod.zeros(2)
    address = out.data_ptr()
    assert numod.add(x, 1, out=out) is out and out.tolist() == [2.0, 3.0]
    assert numod.exp(x, out=out).data_ptr() == address


def test_out_may_be_an_input():
    x = vector(1.0, 2.0)
    numod.mul(x, x, out=x)
    assert x.tolist() == [1.0, 4.0]
    numod.add(x[:1], x[1:], out=x[1:])
    assert x.tolist() == [1.0, 5.0]


def test_out_of_another_dtype():
    x, out = vector(1.0, 2.0), numod.zeros(2, dtype=numod.float64)
    assert numod.add(x, 1, out=out).dtype is numod.float64
    with pytest.raises(RuntimeError, match="can't be cast"):
        numod.add(x, 1, out=numod.zeros(2, dtype=numod.int64))


def test_an_empty_out_is_resized():
    out = numod.empty(0)
    assert numod.add(vector(1.0, 2.0), 1, out=out) is out and out.tolist() == [2.0, 3.0]


@pytest.mark.cpu_only
def test_out_of_another_shape_is_never_broadcast_into():
    out = numod.zeros(3, 2)
    with pytest.raises((RuntimeError, UserWarning)):
        numod.add(vector(1.0, 2.0), 1, out=out)


def test_a_strided_out():
    memory = numod.zeros(2, 4)
    numod.add(numod.ones(2, 2), 1, out=memory[:, ::2])
    assert memory.tolist() == [[2.0, 0.0, 2.0, 0.0]] * 2


@pytest.mark.on_cuda(simulator=False)
def test_out_takes_no_part_in_gradients():
    x = numod.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="support automatic differentiation"):
        numod.add(x, 1, out=numod.zeros(2))
    with numod.no_grad():
        assert numod.add(x, 1, out=numod.zeros(2)).tolist() == [2.0, 2.0]


# ---- versions


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1), lambda x: x.exp_(), lambda x: x.fill_(1), lambda x: x.zero_(), lambda x: x.copy_(numod.ones(3)), lambda x: x.__setitem__(0, 1.0),
        lambda x: x.masked_fill_(x > 0, 1.0), lambda x: x.uniform_(), lambda x: x.normal_(), lambda x: x.index_add_(0, numod.tensor([0]), numod.ones(1)),
        lambda x: x.scatter_(0, numod.tensor([0]), numod.ones(1)), lambda x: x.view(3).t().mul_(2), lambda x: numod.add(x, 1, out=x), lambda x: x.clamp_(min=0),
    ],
)  # fmt: skip
def test_every_write_counts_once(write):
    x = numod.zeros(3)
    write(x)
    assert x._version == 1


def test_writes_with_an_index_tensor_count():
    x = numod.zeros(3)
    x[numod.tensor([0, 2])] = 1.0
    x[x > 0] = 5.0
    assert x._version == 2 and x.tolist() == [5.0, 0.0, 5.0]


def test_reading_does_not_count():
    x = numod.zeros(2, 2)
    x.sum(), x.t(), x[0], x.clone(), x.numpy(), x.tolist(), x + x, x.contiguous(), x.detach()
    assert x._version == 0


@pytest.mark.parametrize("function", [
    lambda x: F.batch_norm(x, None, None, training=True), lambda x: F.instance_norm(x), lambda x: F.group_norm(x, 2), lambda x: F.layer_norm(x, (5,)),
    lambda x: F.layer_norm(x, (4, 5)), lambda x: F.linear(x, numod.ones(2, 5)), lambda x: F.conv1d(x[0], numod.ones(2, 4, 1)),
    lambda x: F.conv1d(x[:, :, :1], numod.ones(2, 4, 1)), lambda x: F.conv_transpose1d(x[:, :, :1], numod.ones(4, 3, 1)), lambda x: x @ numod.ones(5),
    lambda x: numod.ones(4) @ x, lambda x: x.repeat(2, 1, 1), lambda x: x.repeat_interleave(2), lambda x: numod.kron(x, x),
    lambda x: F.embedding(numod.tensor([[0, 1]]), x[0]), lambda x: F.pixel_shuffle(x.unsqueeze(-1), 2),
])  # fmt: skip
def test_results_are_tensors_of_their_own(function):
    """Writing to a view costs more, since its base and all other views change with it.

    PyTorch's results of these are no views.
    """
    x = numod.rand(2, 4, 5, requires_grad=True)
    wanted, result = function(x).sin(), function(x)
    assert not result._is_view()
    (expected,), (actual,) = (numod.autograd.grad(tensor.square().sum(), x) for tensor in (wanted, result.sin_()))
    assert numod.equal(result, wanted) and numod.equal(actual, expected)
