"""What PyTorch's own tests found: corners of indexing, copies, pickles, storages and switches."""

import copy
import pickle

import numpy as np
import pytest

import numod
from numod import nn, optim


def test_numbers_written_into_float64_keep_their_digits():
    x = numod.zeros(3, dtype=numod.float64)
    x[0], x[1:] = 0.1234567890123, [0.2345678901234, 1e300]
    assert x.tolist() == [0.1234567890123, 0.2345678901234, 1e300]


@pytest.mark.parametrize("dtype", [numod.int64, numod.int16, numod.int8])
def test_an_index_without_dimensions_makes_a_view(dtype):
    x, i = numod.zeros(3, 2), numod.tensor(1, dtype=dtype)
    x[i].add_(5)
    x[:, 1][i] = 7
    assert x.tolist() == [[0, 0], [5, 7], [0, 0]] and x[i, numod.tensor(0)].data_ptr() == x[1].data_ptr()
    y = numod.arange(24).reshape(2, 3, 4)
    assert [tuple(each.shape) for each in (y[i, [0, 1]], y[[0, 1], i], y[[0, 1], :, i], y[i, :, i])] == [
        (2, 4),
        (2, 4),
        (2, 3),
        (3,),
    ]


def test_a_recorded_program_takes_other_indices():
    @numod.compile
    def row(x, i):
        return x[i] * 2

    x = numod.arange(6.0).reshape(3, 2)
    assert [row(x, numod.tensor(k)).tolist() for k in (0, 2, 1)] == [[0, 2], [8, 10], [4, 6]]


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


def test_the_other_way_round():
    assert (
        reversed(numod.arange(6).reshape(2, 3)).tolist() == [[3, 4, 5], [0, 1, 2]]
        and reversed(numod.tensor(2)).item() == 2
    )


def test_old_and_mixed_forms():
    ones = numod.ones(2)
    assert numod.addcdiv(ones, 2, ones, ones * 4).tolist() == [1.5, 1.5] and ones.new(size=(3, 4)).shape == (3, 4)
    wide = numod.ones(2, dtype=numod.float64)
    assert numod.addcmul(wide, wide, wide, out=numod.empty(2)).tolist() == [2.0, 2.0]
    assert numod.arange(3).type(numod.Tensor).dtype is numod.float32


def test_switches():
    before = numod.get_num_interop_threads()
    numod.set_num_interop_threads(2)
    assert numod.get_num_interop_threads() == 2 and not numod.set_flush_denormal(True)
    numod.set_num_interop_threads(before)
    generator = numod.Generator().manual_seed(-1)
    assert generator.initial_seed() == 2**64 - 1
    with pytest.raises(RuntimeError, match="three"):
        numod._check(False, lambda: "three")


def test_conversion_may_make_new_parameters():
    future, layer = numod.__future__, nn.Linear(2, 2)
    weight = layer.weight
    weight.grad = numod.ones(2, 2)
    future.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        future.set_overwrite_module_params_on_conversion(False)
    assert layer.weight is not weight and weight.dtype is numod.float32 and layer.weight.grad.dtype is numod.float64
    assert layer.to(numod.float32).weight is layer.weight and not future.get_swap_module_params_on_conversion()


def test_refusals():
    for wrong, error, words in (
        (lambda: nn.PixelShuffle(2)(numod.ones(4)), RuntimeError, "at least 3 dimensions"),
        (lambda: nn.functional.group_norm(numod.ones(1, 4), 4), ValueError, "more than 1 value per channel"),
        (lambda: nn.functional.pad(numod.ones(0, 2), (1, 1), mode="reflect"), RuntimeError, "Expected 2D or 3D"),
        (lambda: nn.GRU(3, 4, proj_size=2), ValueError, "only supported for LSTM"),
        (lambda: nn.Linear(2, 2).to("cpu", copy=True), RuntimeError, "copy argument"),
        (
            lambda: nn.functional.interpolate(numod.ones(1, 1, 2, 2), size=(2.0, 2.0)),
            TypeError,
            "argument 'size' must be int or tuple of ints",
        ),
        (
            lambda: nn.functional.interpolate(numod.ones(1, 1, 2, 2), size=(numod.tensor(2.5), 2)),
            TypeError,
            "argument 'size' must be int or tuple of ints",
        ),
        (
            lambda: nn.functional.affine_grid(numod.ones(1, 2, 3), (1, 2, 0, 1), align_corners=False),
            ValueError,
            "positive output size",
        ),
        (lambda: nn.PixelUnshuffle(2)(numod.ones(4)), RuntimeError, "at least 3 dimensions"),
        (lambda: nn.ChannelShuffle(2)(numod.ones(2, 2)), RuntimeError, "at least 3 dimensions"),
    ):
        with pytest.raises(error, match=words):
            wrong()


def test_a_plateau_with_a_group_more():
    sgd = optim.SGD([nn.Parameter(numod.ones(1))], lr=0.1)
    schedules = [optim.lr_scheduler.ReduceLROnPlateau(sgd, patience=0, min_lr=least) for least in ([1e-5], 1e-5)]
    sgd.add_param_group({"params": [nn.Parameter(numod.ones(1))]})
    for schedule in schedules:
        schedule.step(1.0)
    with pytest.raises(RuntimeError, match="number of param groups"):
        schedules[0].step(1.0)
    schedules[1].step(1.0)
    assert np.allclose([group["lr"] for group in sgd.param_groups], 0.01)


def test_gradients_and_draws_at_the_edges():
    logits = numod.tensor(0.0, requires_grad=True)
    numod.distributions.Binomial(numod.tensor(1.0), logits=logits).log_prob(numod.tensor(0.0)).backward()
    assert logits.grad.item() == -0.5
    drawn = numod.distributions.Beta(numod.full((500,), 1e-2), numod.full((500,), 1e-2)).sample()
    assert 0 < drawn.min().item() and drawn.max().item() < 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: numod.zeros(10**13),
        lambda: numod.zeros(2).resize_([2, 4, 2**29, 2**29]),
        lambda: numod.ones(1).expand(10**13).contiguous(),
    ],
)
def test_no_room_is_an_error_of_either_kind(make):
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        make()
    with pytest.raises(MemoryError):
        make()


def test_ranges_keep_the_shape_of_what_they_fill():
    x = numod.zeros(2, 3)
    numod.linspace(0, 3, 4, out=x.narrow(1, 1, 2))
    assert x.tolist() == [[0, 0, 1], [0, 2, 3]]
    numod.arange(4, 8, out=x.narrow(1, 0, 2))
    assert x.tolist() == [[4, 5, 1], [6, 7, 3]]


def test_draws_within_what_a_dtype_holds():
    for dtype, digits in ((numod.bfloat16, 8), (numod.float16, 11), (numod.float32, 24)):
        drawn = numod.zeros(50, dtype=dtype).random_()
        assert 0 <= drawn.min().item() and drawn.max().item() <= 2**digits
    for wrong, words in (
        (lambda x: x.random_(-4), "'from' to be less than 'to'"),
        (lambda x: x.uniform_(-3e38, 3e38), "to-from"),
    ):
        with pytest.raises(RuntimeError, match=words):
            wrong(numod.zeros(3))


def test_integers_and_bools():
    small = numod.tensor([1, 255], dtype=numod.uint8)
    assert numod.isclose(small, numod.tensor([2, 0], dtype=numod.uint8), atol=2).tolist() == [True, False]
    assert (
        np.isclose(numod.tensor([True, False]).logsumexp(0).item(), np.log(np.e + 1))
        and numod.vander(numod.tensor([-3], dtype=numod.int8), 6)[0, 0].item() == -243
    )
    x = numod.zeros(0).set_(numod.arange(4.0).storage(), 0, (2, 2), (2, 1))
    assert x.tolist() == [[0, 1], [2, 3]] and np.isclose(
        numod.logcumsumexp(numod.zeros(2), axis=0)[1].item(), np.log(2)
    )
    with pytest.raises(RuntimeError, match="dtype of long"):
        numod.tensor_split(numod.ones(3), numod.tensor(1.1))


def test_results_of_rows_with_defaults_are_written_out():
    x = numod.full((2, 2), 3.0)
    assert numod.addcmul(x, x, x, out=numod.empty(2, 2)).tolist() == [[12, 12], [12, 12]]
    assert numod.addcdiv(x, x, x, value=2, out=numod.empty(0)).tolist() == [[5, 5], [5, 5]]


def test_sums_of_products_of_bytes_stay_bytes():
    x = numod.ones(2, 3, 3, dtype=numod.uint8)
    assert numod.addbmm(x[0], x, x).tolist() == [[7] * 3] * 3


def test_losses_and_windows_without_a_batch():
    assert numod.nn.functional.kl_div(numod.tensor(0.5), numod.tensor(1.0), reduction="batchmean").item() == -0.5
    assert nn.FractionalMaxPool3d(2, output_ratio=0.5, _random_samples=numod.rand(2, 4, 3))(
        numod.rand(4, 5, 5, 5)
    ).shape == (4, 2, 2, 2)


def test_schedules_inside_schedules():
    sgd = optim.SGD([nn.Parameter(numod.zeros(1))], lr=1.0)
    schedule = optim.lr_scheduler
    both = schedule.ChainedScheduler([schedule.ConstantLR(sgd, 0.5, 2), schedule.ExponentialLR(sgd, 0.1)])
    whole = schedule.SequentialLR(sgd, [schedule.ConstantLR(sgd, 0.25, 9), both], milestones=[2])
    rates = []
    for _ in range(5):
        rates.append(sgd.param_groups[0]["lr"])
        sgd.step(), whole.step()
    assert rates == pytest.approx([0.25, 0.25, 0.5, 0.05, 0.01])


def test_schedules_copy_the_rates_they_are_given():
    rate = numod.tensor(0.5)
    sgd = optim.SGD([nn.Parameter(numod.zeros(1))], lr=1.0)
    schedule = optim.swa_utils.SWALR(sgd, rate, anneal_epochs=1)
    rate.fill_(7)
    sgd.step(), schedule.step()
    assert sgd.param_groups[0]["swa_lr"].item() == 0.5 and schedule.get_last_lr() == [0.5]


def test_copies_asked_for_by_position():
    x = numod.ones(2)
    assert x.to("cpu", numod.float32, False, True).data_ptr() != x.data_ptr() and x.to(numod.float32, False) is x


def test_letters_of_a_sum_are_ordered_as_its_numbers():
    a, b = numod.arange(6.0).reshape(2, 3), numod.arange(4.0)
    assert numod.einsum(a, [30, 2], b, [7]).shape == (3, 4, 2)  # 2, 7, 30
    assert numod.einsum("bA,a", a, b).shape == (3, 4, 2)


def test_infinite_elements_in_norms_and_conditions():
    inf = float("inf")
    assert (
        numod.linalg.vector_norm(numod.tensor([inf, -inf]), -1).item() == inf
        and numod.linalg.vector_norm(numod.tensor([0.0, 1.0]), -2).item() == 0
    )
    assert (
        numod.linalg.cond(numod.tensor([[1.0, 2.0], [3.0, inf]]), 1).item() == inf
        and numod.linalg.cond(numod.ones(2, 2), "nuc").item() == inf
    )
    assert np.isnan(numod.linalg.cond(numod.tensor([[1.0, np.nan], [3.0, 1.0]]), 1).item())
    assert numod.histogram(numod.tensor(3.0), 1).bin_edges.tolist() == [2.5, 3.5]


def test_real_results_are_not_cut_to_integers_in_place():
    for name in ("logit_", "mvlgamma_", "polygamma_"):
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
            getattr(numod.tensor([1, 2]), name)(*() if name == "logit_" else (1,))


def test_results_written_out():
    F = nn.functional
    x, w, out = numod.tensor([[-1.0, 2.0]]), numod.eye(2), numod.empty(1, 2)
    for call in (
        lambda **o: F.linear(x, w, **o),
        lambda **o: F.gelu(x, **o),
        lambda **o: F.softplus(x, **o),
        lambda **o: F.logsigmoid(x, **o),
        lambda **o: F.softshrink(x, **o),
    ):
        assert call(out=out) is out and out.tolist() == call().tolist()
    pooled = numod.empty(1, 1, 1)
    assert F.avg_pool2d(x.reshape(1, 1, 2), (1, 2), out=pooled) is pooled and pooled.item() == 0.5
    assert x.prelu(numod.tensor([0.25])).tolist() == [[-0.25, 2.0]]
    assert [each.shape for each in numod.unravel_index(numod.tensor([5], dtype=numod.uint8), (2, 3))] == [(1,)] * 2


def test_arrays_on_the_right_of_an_operator_and_functions_of_numpy_give_tensors():
    x, n = numod.tensor([1.0, 2.0], requires_grad=True), np.array([2.0, 2.0])
    y = x.detach()
    assert (
        (y == n).tolist() == [False, True]
        and (y >= n).tolist() == [False, True]
        and (y - n).tolist() == [-1, 0]
        and (y + n).dtype is numod.float64
    )
    (x * n).sum().backward()
    assert x.grad.tolist() == [2, 2]
    for each in (np.exp(y), np.add(y, n), np.isnan(y)):
        assert isinstance(each, numod.Tensor)


def test_casts_take_a_memory_format():
    x = numod.ones(2, 3, 4, 5, dtype=numod.float64)
    assert x.float(memory_format=numod.channels_last).is_contiguous(memory_format=numod.channels_last)


def test_indices_without_elements_write_nothing():
    x, none = numod.ones(2, 2), numod.tensor([], dtype=numod.int64)
    assert x.scatter_add(0, none, x).tolist() == x.scatter_reduce(0, none, x, "sum").tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="cannot be empty"):
        numod.autograd.grad(x.requires_grad_().sum(), [])


def test_what_asarray_makes_of_tensors_and_buffers():
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


def test_a_histograms_range_may_be_one_point():
    assert numod.histogram(numod.tensor([1.0, 5.0]), 2, range=(5.0, 5.0)).bin_edges.tolist() == [4.5, 5, 5.5]
    assert numod.histc(numod.tensor([1.0, 5.0]), 2, min=5, max=5).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("reduce", "reference"), [("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min), ("prod", np.prod)]
)
def test_segments_are_reduced(reduce, reference):
    x = np.random.default_rng(0).normal(size=(2, 5, 3))
    lengths = [[1, 4], [3, 2]]
    found = numod.segment_reduce(numod.tensor(x), reduce, lengths=numod.tensor(lengths), axis=1)
    wanted = [[reference(part, axis=0) for part in np.split(row, [first])] for row, (first, _) in zip(x, lengths)]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    flat = numod.tensor(x[0], requires_grad=True)
    numod.autograd.gradcheck(lambda each: numod.segment_reduce(each, reduce, offsets=numod.tensor([0, 2, 5])), flat)
    empty = numod.segment_reduce(numod.ones(2), reduce, lengths=numod.tensor([0, 2]), initial=3)
    assert empty[0].item() == 3
    with pytest.raises(RuntimeError, match="to sum to data.size"):
        numod.segment_reduce(flat, reduce, lengths=numod.tensor([2, 2]))


def test_products_of_chains_name_the_vector_inside():
    with pytest.raises(RuntimeError, match="tensor 1 must be 2D but got 1D"):
        numod.linalg.multi_dot([numod.ones(3, 3), numod.ones(3), numod.ones(3, 3)])
    with pytest.raises(RuntimeError, match="Expected one or more matrices"):
        numod.chain_matmul()
    assert numod.vmap(lambda row: row * 2, out_dims=(1,))(numod.ones(4, 5)).shape == (5, 4)


def test_norms_of_matrices_without_elements():
    norm = numod.linalg.matrix_norm
    assert norm(numod.ones(0, 0), 1).item() == norm(numod.ones(5, 0), 2).item() == 0 and norm(
        numod.ones(2, 3, 0), 1
    ).tolist() == [0, 0]
    with pytest.raises(IndexError):
        norm(numod.ones(5, 0), -1)


def test_writes_through_data_are_not_noticed_by_autograd():
    x, w = numod.tensor([3.0, 4.0], requires_grad=True), numod.tensor([5.0, 6.0], requires_grad=True)
    y = x * 1
    z = (y * y).sum()
    y.data[0], y.data[1:] = 10.0, 20.0
    z.backward()
    assert x.grad.tolist() == [20, 40] and y._version == 0
    d = y.data
    product = (d * w).sum()
    d.view(1, 2)[:, 1] = 0.0  # what is saved is `d` itself, which counts the writes through it and its views
    assert d._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    d.mul_(w)
    assert d.view(-1).grad_fn is not None


def test_copies_of_views_share_memory():
    x = numod.arange(4.0)
    whole, part, turned = copy.deepcopy([x, x[1:], x.view(2, 2).t()])
    whole.fill_(7)
    assert (
        part.tolist() == [7, 7, 7]
        and turned.tolist() == [[7, 7], [7, 7]]
        and turned.stride() == (1, 2)
        and x.tolist() == [0, 1, 2, 3]
    )


def test_complex_numbers_have_no_order():
    with pytest.raises(NotImplementedError, match="complex"):
        numod.tensor([1j, 2.0]).argsort()
    assert (
        numod.tensor([1j, 1j]).logsumexp(0).isclose(numod.tensor(0.6931471805599453 + 1j))
        and numod.float_power(numod.tensor([1j]), 2).dtype is numod.complex128
    )


def test_marks_of_a_tensor_that_is_gone_fall_on_no_other():
    class Twice(numod.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x.detach() + 1)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return 2 * g + 3 * h

    assert all(each.requires_grad for each in Twice.apply(numod.ones(2, requires_grad=True)))


@pytest.mark.parametrize("shape", [(70, 64), (3, 70, 40)])
def test_formulas_may_name_inputs_as_loops_name_variables(shape):
    """Inputs called `end`, `min` and `max`, and an optimizer's `share`, in loops over turned tensors."""
    x = numod.rand(*shape).transpose(-1, -2)
    end, weight = numod.rand(*x.shape), numod.rand(*x.shape)
    low = end * 0.5
    assert numod.allclose(x.lerp(end, weight), x + weight * (end - x), atol=1e-6)
    assert (x.clamp(low, end) == numod.minimum(numod.maximum(x, low), end)).all() and (
        x.clone().clamp_(min=end) == numod.maximum(x, end)
    ).all()
    p, q = x.clone().requires_grad_(), x.contiguous().requires_grad_()
    for each in (p, q):
        each.grad = weight
        optim.ASGD([each]).step()
    assert numod.equal(p, q)


def test_windows_of_signals():
    from numod.signal import windows

    np.testing.assert_allclose(windows.hann(6, sym=False), numod.hann_window(6), atol=1e-7)
    np.testing.assert_allclose(windows.kaiser(7, beta=8.0), np.kaiser(7, 8.0), rtol=1e-6)
    np.testing.assert_allclose(windows.blackman(7, dtype=numod.float64), np.blackman(7), atol=1e-15)
    np.testing.assert_allclose(windows.gaussian(3, std=2.0), np.exp([-0.125, 0, -0.125]), rtol=1e-6)
    assert windows.cosine(0).shape == (0,) and windows.nuttall(1).tolist() == [1]
    with pytest.raises(ValueError, match="non-negative"):
        windows.hann(-1)


def test_stft_as_pairs_and_lists_of_factors():
    x = numod.randn(100)
    assert numod.equal(
        x.stft(16, window=numod.ones(16), return_complex=False),
        numod.view_as_real(x.stft(16, window=numod.ones(16), return_complex=True)),
    )
    one, two = numod._foreach_addcdiv(
        [numod.ones(1), numod.ones(1)], [numod.ones(1)] * 2, [numod.full((1,), 4.0)] * 2, [2.0, 8.0]
    )
    assert (one.item(), two.item()) == (1.5, 3.0) and numod._foreach_pow(2.0, [numod.tensor(3.0)])[0] == 8


def test_masked_scatter_broadcasts_and_differences_of_order_0_take_no_more():
    assert numod.ones(2).masked_scatter(numod.tensor([[True], [False]]), numod.arange(2.0)).tolist() == [[0, 1], [1, 1]]
    assert numod.ones(3).diff(0, prepend=numod.ones(1)).shape == (3,)


@pytest.mark.parametrize("function", [
    lambda x: x.clamp(0, 256), lambda x: x.clip(max=256), lambda x: x.clone().clamp_(min=256), lambda x: numod.clamp_min(x, 256), lambda x: numod.where(x > 1, x, 256),
    lambda x: x.where(x > 1, 256), lambda x: nn.functional.threshold(x, 1, 256), lambda x: numod.add(x, x, alpha=256), lambda x: nn.functional.hardtanh(x, 0, 256),
])  # fmt: skip
def test_integers_beyond_the_dtype_are_refused(function):
    """They were taken modulo 256: `x.clamp(0, 256)` was 0 everywhere."""
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8 without overflow"):
        function(numod.arange(5, dtype=numod.uint8))
    assert function(numod.arange(5)).dtype is numod.int64


def test_a_tensor_in_a_list_is_a_number_whatever_its_shape():
    """`numod.tensor([loss, loss])` of losses of shape (1,) was a column."""
    one = numod.ones(1)
    assert [tuple(numod.tensor(each).shape) for each in ([one, one], [one[0], one], [one.reshape(1, 1)], [[one], [2]],
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


def test_slopes_beside_infinities_and_of_complex_steps():
    inf = float("inf")
    values = np.array([2.0, -2, inf, inf, -inf, 3, -inf, 2])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(numod.gradient(numod.tensor(values))[0], np.gradient(values))
    y, at = np.array([2.0, -2, 5, 7], complex), np.array([0, 1j, 2, 4])
    for order in (1, 2):
        np.testing.assert_allclose(
            numod.gradient(numod.tensor(y.real), spacing=2j, edge_order=order)[0], np.gradient(y, 2j, edge_order=order)
        )
        np.testing.assert_allclose(
            numod.gradient(numod.tensor(y.real), spacing=[numod.tensor(at)], edge_order=order)[0],
            np.gradient(y, at, edge_order=order),
        )


def test_permutations_and_random_integers_fill_what_the_dtype_holds():
    assert numod.randperm(256, dtype=numod.uint8).sort().values.tolist() == list(range(256))
    for dtype in (numod.uint8, numod.float16):
        with pytest.raises(RuntimeError, match="n cannot be greater than"):
            numod.randperm(3000, dtype=dtype)
    numod.manual_seed(0)
    assert numod.zeros(4000, dtype=numod.uint8).random_().aminmax() == (0, 255) and numod.zeros(
        4000, dtype=numod.int8
    ).random_(-128, None).aminmax() == (
        -128,
        127,
    )
    with pytest.raises(RuntimeError, match="expects 'from' to be less than 'to'"):
        numod.zeros(3).random_(0)


def test_out_decides_the_dtype_of_totals():
    x = numod.tensor([0.5, 1.5, 2.5])
    assert x.sum(0).item() == 4.5 and numod.sum(x, 0, out=numod.empty(0, dtype=numod.int64)).item() == 3
    assert numod.cumsum(x, 0, out=numod.empty(0, dtype=numod.int8)).tolist() == [0, 1, 3]
    assert numod.linalg.norm(numod.tensor([3j, 4]), out=numod.empty(0)).item() == 5


def test_an_empty_index_of_any_dtype_gathers_nothing():
    assert numod.ones(3).gather(0, numod.tensor([])).shape == (0,) and numod.ones(3).scatter(
        0, numod.zeros(0, dtype=numod.uint8), 5
    ).tolist() == [1, 1, 1]


def test_factors_of_sums_are_real_among_real_numbers():
    with pytest.raises(RuntimeError, match="argument alpha must not be a complex number"):
        numod.ones(2).add(numod.ones(2), alpha=1j)
    assert numod.ones(1).add(1j * numod.ones(1), alpha=1j).item() == 0


def test_operators_in_place_leave_other_objects_their_word():
    """As `x + other` does: an array makes another tensor, an object answers itself."""

    class Other:
        def __rsub__(self, tensor):
            return "mine"

    x = y = numod.ones(2)
    x -= Other()
    y += np.ones(2)
    assert x == "mine" and y.tolist() == [2, 2] and y.dtype is numod.float64
    with pytest.raises(TypeError, match="unsupported operand"):
        y *= "text"


def test_segments_that_leave_out_places():
    x = numod.tensor([1.0, 2, 3, 4])
    # the last took what was left
    assert numod.segment_reduce(x, "sum", lengths=numod.tensor([2, 1]), unsafe=True).tolist() == [3, 3]
    assert numod.segment_reduce(x, "prod", offsets=numod.tensor([1, 2, 3]), unsafe=True).tolist() == [2, 3]
    # offsets may leave out what they like
    assert numod.segment_reduce(x, "sum", offsets=numod.tensor([1, 2])).tolist() == [2]
    with pytest.raises(RuntimeError, match="offsets from 0"):
        numod.segment_reduce(x, "sum", offsets=numod.tensor([0, 9]))


def test_numbers_are_copied():
    assert numod.zeros(2).copy_(2).tolist() == [2, 2] == numod.zeros(2).copy_(np.float32(2)).tolist()


def test_addr_promotes():
    x = numod.addr(numod.ones(1, 2), numod.tensor([2j]), numod.tensor([1.0, 2.0]))
    assert x.tolist() == [[1 + 2j, 1 + 4j]]


def test_nuclear_norm_writes_into_out():
    out = numod.empty(())
    assert numod.nuclear_norm(numod.eye(3), out=out) is out and out.item() == pytest.approx(3)


def test_numbers_before_tensors_as_in_older_programs():
    x, y = numod.ones(2), numod.tensor([1.0, 2.0])
    for found in (
        x.add(2, y),
        numod.add(x, 2, y),
        x.clone().add_(2, y),
        x.addcmul(2, y, x),
        x.clone().addcmul_(2, x, y),
        x.clone().addcdiv_(2, y, x),
    ):
        assert found.tolist() == [3, 5]
    assert x.sub(2, y).tolist() == numod.sub(x, 2, y).tolist() == x.clone().sub_(2, y).tolist() == [-1, -3]
    for call in (
        lambda: x.add(y, y),
        lambda: x.add_(2, 3),
        lambda: x.sub_(2, y, y),
        lambda: x.addcmul_(y, y, y),
        lambda: x.addcmul(2, 3, y),
    ):
        with pytest.raises(TypeError):
            call()
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("name", "numbers", "expected"),
    [
        ("add", (2, 3), numod.tensor(5)), ("sub", (7, 2.0), numod.tensor(5.0)), ("mul", (3, 2), numod.tensor(6)), ("div", (2, 4), numod.tensor(0.5)),
        ("floor_divide", (7, 2), numod.tensor(3)), ("true_divide", (1, 2j), numod.tensor(-0.5j)),
    ],
)  # fmt: skip
def test_arithmetic_of_two_numbers_gives_a_tensor(name, numbers, expected):
    result = getattr(numod, name)(*numbers)
    assert result.dtype is expected.dtype and result.shape == () and result == expected


def test_what_arithmetic_of_numbers_refuses():
    assert numod.div(7, 2, rounding_mode="trunc").item() == 3 and numod.add(1, 2, alpha=3).item() == 7
    with pytest.raises(RuntimeError, match="Subtraction"):
        numod.sub(True, True)
    for name in ("pow", "maximum", "fmod"):
        with pytest.raises(TypeError):
            getattr(numod, name)(2, 3)


def test_gradients_of_softmax_from_its_results():
    x, g = numod.rand(3, 4, requires_grad=True), numod.rand(3, 4)
    for name in ("softmax", "log_softmax"):
        y = getattr(numod, name)(x, 1)
        expected = numod.autograd.grad(y, x, g)[0]
        numod.testing.assert_close(getattr(numod, f"_{name}_backward_data")(g, y.detach(), 1, x.dtype), expected)


def test_numbers_of_the_exporter_are_numbers():
    assert (
        numod.sym_int(2.7),
        numod.sym_max(2, 3),
        numod.sym_not(True),
        numod.sym_sum([1, 2]),
        numod.sym_ite(False, 1, 2),
    ) == (2, 3, False, 3, 2)
    assert numod.zeros_like(numod.ones(2), memory_format=numod.legacy_contiguous_format).tolist() == [0, 0]


@pytest.mark.parametrize(
    "formula",
    [
        lambda x: x / x.sum(), lambda x: x**0.5, lambda x: x**-1, nn.functional.elu, nn.functional.selu, nn.functional.celu,
        numod.sinc, nn.functional.tanhshrink, lambda x: nn.functional.normalize(x, dim=0), numod.cov,
    ],
)  # fmt: skip
def test_results_that_may_be_changed_before_backward(formula):
    gradients = []
    for change in (lambda y: y, lambda y: y.mul_(1).add_(1)):
        x = numod.tensor([0.5, 1.0, 2.0], requires_grad=True)
        (change(formula(x)) * numod.arange(3)).sum().backward()
        gradients.append(x.grad)
    assert numod.equal(*gradients)


def test_fills_of_expanded_tensors():
    x = numod.zeros(2, 1)
    y = x.expand(2, 3)
    y.fill_(2)
    assert x.tolist() == [[2], [2]] and y.zero_() is y and x.sum() == 0
    assert nn.init.ones_(y) is y and x.sum() == 2
    for write in (lambda: y.add_(1), lambda: y.fill_(numod.tensor(1.0)), lambda: y.__setitem__(0, 4)):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()


def test_products_by_index_over_what_needs_no_gradient():
    source, index = numod.tensor([[1.0, 2], [3, 4], [5, 6]], requires_grad=True), numod.tensor([0, 1, 0])
    for write in (
        lambda x: x.scatter_reduce_(0, index[:, None].expand(3, 2), source, "prod"),
        lambda x: x.index_reduce_(0, index, source, reduce="prod"),
    ):
        x = numod.full((2, 2), 2.0)
        (gradient,) = numod.autograd.grad(write(x).sum(), source)
        assert x.tolist() == [[10, 24], [6, 8]] and gradient.tolist() == [[10, 12], [2, 2], [2, 4]]


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


def test_views_of_the_same_shape_are_other_tensors():
    x = numod.ones(3, requires_grad=True)
    for view in (x.expand(3), x.expand_as(x), x.broadcast_to(3), numod.broadcast_to(x, (3,)), x.t()):
        assert view is not x and view._base is x and view.grad_fn.next_functions[0][0].variable is x


def test_numbers_are_searched_as_what_they_are():
    whole, fine = numod.tensor([1, 3, 5]), numod.tensor([1.0, 3.1], dtype=numod.float64)
    assert numod.searchsorted(whole, 3.5).item() == numod.bucketize(3.5, whole).item() == 2
    assert numod.searchsorted(fine, 3.1).item() == 1 and numod.searchsorted(whole, 3).item() == 1


def test_integers_far_apart_are_not_close():
    assert numod.isclose(numod.tensor([0, 5, 100]), numod.tensor([-(2**63), 5, 101]), rtol=0.1).tolist() == [
        False,
        True,
        True,
    ]


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


def test_corners_that_were_errors():
    with pytest.warns(UserWarning, match="imaginary part"):
        assert numod.sum(numod.tensor([1j, 2]), dtype=numod.float32).item() == 2
    assert numod.arange(12).view(4, 3)[np.array(2)].tolist() == [6, 7, 8]
    assert numod.tensor([[1, 2], [4, 5]]).index_fill_(1, numod.tensor([-1]), 0).tolist() == [[1, 0], [4, 0]]
    assert numod.zeros(2, dtype=numod.int64).index_add_(
        0, numod.tensor([0]), numod.tensor([1]), alpha=2.0
    ).tolist() == [2, 0]
    assert numod.gather(numod.ones(2, 3), 1, numod.empty(0, dtype=numod.int64)).shape == (0,)
    assert numod.tensor(1).mT.item() == 1
    averaged = optim.swa_utils.AveragedModel(model := nn.BatchNorm1d(2), use_buffers=True)
    for _ in range(3):
        model(numod.randn(3, 2))
        averaged.update_parameters(model)
    assert averaged.module.num_batches_tracked.item() == 1  # a mean, of integers
    norm = nn.InstanceNorm1d(3, track_running_stats=True)
    assert (
        norm(numod.ones(2, 3, 4, dtype=numod.float64)).dtype is numod.float64
        and norm.running_mean.dtype is numod.float32
    )


def test_the_greatest_norm_of_windows():
    x = numod.arange(16.0).reshape(1, 1, 4, 4) - 8
    for pool in (nn.functional.lp_pool2d, lambda *given: nn.LPPool2d(*given[1:])(given[0])):
        assert pool(x, float("inf"), 2).tolist() == [[[[8, 6], [5, 7]]]] and pool(x, -float("inf"), 2).tolist() == [
            [[[3, 1], [0, 2]]]
        ]


def test_functions_of_functions_under_inference_mode():
    with numod.inference_mode():
        x = numod.ones(2)
        assert numod.func.grad(lambda x: (x**2).sum())(x).tolist() == [2, 2]
        assert numod.func.jvp(lambda x: x**2, (x,), (x,))[1].tolist() == [2, 2]
        assert numod.func.hessian(lambda x: (x**3).sum())(x).tolist() == [[6, 0], [0, 6]]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: numod.unravel_index(numod.tensor([1]), (1, 2, 2.0)), TypeError), (lambda: numod.unravel_index(numod.tensor(0), (2, -3)), ValueError),
        (lambda: numod.ones(2)[object()], IndexError), (lambda: numod.ones(2)["a"], TypeError), (lambda: numod.ones(2).mT, RuntimeError),
        (lambda: numod.ones(2).requires_grad_(1), TypeError), (lambda: setattr(numod.ones(2), "requires_grad", 1), RuntimeError),
        (lambda: numod.set_grad_enabled("on"), TypeError), (lambda: nn.RNNBase("no", 2, 3), ValueError),
        (lambda: nn.functional.celu(numod.ones(2), 0), RuntimeError), (lambda: nn.functional.layer_norm(numod.ones(2, 4), 4), TypeError),
        (lambda: nn.functional.group_norm(numod.ones(1, 4), 0), ZeroDivisionError),
        (lambda: optim.Adam([numod.ones(1)], lr=numod.tensor(0.1), foreach=True), ValueError),
        (lambda: numod.utils.checkpoint.checkpoint(numod.sin, numod.ones(2), use_reentrant=True, debug=True), ValueError),
        (lambda: numod.autograd.functional.jacobian(numod.sin, [numod.ones(2)]), TypeError),
        (lambda: numod.autograd.gradcheck(numod.sin, numod.ones(2).requires_grad_(), check_backward_ad=False), AssertionError),
    ],
)  # fmt: skip
def test_calls_that_are_refused(call, error):
    with pytest.raises(error):
        call()


def test_a_hook_before_a_node_gives_as_many_gradients():
    y = numod.ones(2, requires_grad=True) * 2
    y.grad_fn.register_prehook(lambda gradients: (gradients[0], gradients[0]))
    with pytest.raises(RuntimeError, match="got 2, but expected 1"):
        y.sum().backward()


def test_older_ways_come_with_a_warning():
    with pytest.warns(UserWarning, match=r"x\.T"):
        assert numod.ones(1, 2, 3).T.shape == (3, 2, 1)
    with pytest.warns(UserWarning, match="uint8 condition"):
        assert numod.where(numod.ones(2, dtype=numod.uint8), numod.ones(2), numod.zeros(2)).tolist() == [1, 1]
    with pytest.warns(UserWarning, match="softmin"):
        nn.functional.softmin(numod.ones(2))
