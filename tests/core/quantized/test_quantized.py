"""Quantized tensors against values that PyTorch 2.13 gave, and their errors. Side by side: `test_quantized_parity`."""

import copy
import pickle

import pytest

import numod as torch
from numod.core.quantized import choose_parameters

X = torch.tensor([[-1.0, -0.3, 0.05, 0.15], [0.25, 0.35, 9.0, float("inf")]])
SCALES, ZEROS = torch.tensor([0.1, 0.5]), torch.tensor([3, 0])


def per_tensor(dtype=torch.quint8):
    return torch.quantize_per_tensor(X, 0.1, 3, dtype)


def per_channel():
    return torch.quantize_per_channel(X, SCALES, ZEROS, 0, torch.qint8)


@pytest.mark.parametrize(
    ("dtype", "integers"),
    [
        (torch.quint8, [[0, 0, 4, 4], [6, 6, 93, 255]]),
        (torch.qint8, [[-7, 0, 4, 4], [6, 6, 93, 127]]),
    ],
)
def test_rounding_is_to_even_and_saturates(dtype, integers):
    q = per_tensor(dtype)
    assert q.int_repr().tolist() == integers
    assert q.dtype is dtype and q.int_repr().dtype is dtype.integers
    assert (q.q_scale(), q.q_zero_point(), q.qscheme()) == (0.1, 3, torch.per_tensor_affine)


def test_a_channel_has_a_scale_of_its_own():
    q = per_channel()
    assert q.int_repr().tolist() == [[-7, 0, 4, 4], [0, 1, 18, 127]]
    assert q.q_per_channel_scales().dtype is torch.float64 and q.q_per_channel_zero_points().tolist() == [3, 0]
    assert q.q_per_channel_axis() == 0 and q.qscheme() is torch.per_channel_affine
    assert torch.equal(q[1], torch.quantize_per_tensor(X[1], 0.5, 0, torch.qint8))


def test_floating_zero_points_are_added_before_rounding():
    q = torch.quantize_per_channel(X, SCALES, torch.tensor([0.0, 1.5]), 0, torch.quint8)
    assert q.qscheme() is torch.per_channel_affine_float_qparams
    assert q.int_repr().tolist() == [[0, 0, 0, 2], [2, 2, 20, 255]]


@pytest.mark.parametrize(
    ("low", "high", "dtype", "reduced", "expected"),
    [
        (0.0, 0.0, torch.quint8, False, (0.1, 0)),
        (0.0, 0.0, torch.qint8, False, (0.1, 127)),
        (0.0, 0.0, torch.qint8, True, (0.1, 63)),
        (3.0, 3.0, torch.quint8, True, (0.023622047244094488, 0)),
        (3.0, 3.0, torch.qint8, False, (0.011764705882352941, -128)),
    ],
)
def test_parameters_of_a_range(low, high, dtype, reduced, expected):
    assert choose_parameters(low, high, dtype, reduced) == expected


def test_printing():
    assert repr(torch.quantize_per_tensor(torch.tensor([0.5, -1.0]), 0.1, 3, torch.quint8)) == (
        "tensor([ 0.5000, -0.3000], size=(2,), dtype=numod.quint8,\n"
        "       quantization_scheme=numod.per_tensor_affine, scale=0.1, zero_point=3)"
    )
    assert repr(per_channel()).endswith(
        "scale=tensor([0.1000, 0.5000], dtype=numod.float64),\n       zero_point=tensor([3, 0]), axis=0)"
    )


def test_views_and_selections_keep_the_scale():
    q = per_tensor()
    for moved in (q.t(), q.reshape(-1), q[0], q.unsqueeze(0), q.chunk(2)[0], torch.cat([q, q]), q.clone(), q.max()):
        assert moved.is_quantized and (moved.q_scale(), moved.q_zero_point()) == (0.1, 3)
    assert q.t().int_repr().tolist() == [[0, 6], [0, 6], [4, 93], [4, 255]]
    other = torch.quantize_per_tensor(torch.ones(1, 4), 0.5, 0, torch.quint8)
    assert torch.cat([q, other])[-1].int_repr().tolist() == [13, 13, 13, 13]


def test_functions_that_keep_the_scale():
    q = per_tensor()
    assert torch.relu(q).int_repr().tolist() == [[3, 3, 4, 4], [6, 6, 93, 255]]
    assert torch.nn.functional.max_pool2d(q[None], 2).int_repr().tolist() == [[[6, 255]]]
    pooled = torch.nn.functional.avg_pool2d(q[None], 2)
    assert pooled.int_repr().tolist() == [[[3, 89]]] and pooled.q_scale() == 0.1
    assert (torch.sigmoid(q).q_scale(), torch.tanh(q).q_scale(), torch.tanh(q).q_zero_point()) == (
        1 / 256,
        1 / 128,
        128,
    )
    assert (q > 0).tolist() == [[False, False, True, True], [True] * 4]


def test_writes_quantize():
    q = per_tensor()
    q.fill_(1.0)
    assert q.int_repr().unique().tolist() == [13]
    q.copy_(torch.zeros(2, 4))
    assert q.int_repr().unique().tolist() == [3]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda q: q + q, NotImplementedError, "aten::add.*QFunctional"),
        (lambda q: q.sum(), NotImplementedError, "dequantize"),
        (lambda q: q.float(), RuntimeError, "dequantize"),
        (lambda q: q.numpy(), TypeError, "QUInt8"),
        (lambda q: q.q_per_channel_scales(), RuntimeError, "per-channel"),
        (lambda q: per_channel().q_scale(), RuntimeError, "per-tensor"),
        (lambda q: per_channel().reshape(-1), RuntimeError, "channel"),
        (lambda q: torch.quantize_per_tensor(X.double(), 0.1, 0, torch.qint8), RuntimeError, "only works on Float"),
        (lambda q: torch.quantize_per_tensor(X, 0.1, 0, torch.int8), RuntimeError, "Char"),
        (lambda q: torch.quantize_per_tensor(X, 0.1, 300, torch.qint8), RuntimeError, "above upper bound"),
        (lambda q: torch.quantize_per_channel(X, SCALES[:1], ZEROS, 0, torch.qint8), RuntimeError, "expected 2 got, 1"),
        (lambda q: torch.zeros(2, dtype=torch.qint8), TypeError, "quantize_per_tensor"),
        (lambda q: torch.int_repr(X), NotImplementedError, "quantized"),
        (lambda q: torch.promote_types(torch.qint8, torch.int8), RuntimeError, "quantized dtype"),
        (lambda q: choose_parameters(float("nan"), 1.0, torch.quint8), RuntimeError, "less than or equal"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call(per_tensor())


def test_copies_and_pickles():
    for q in (per_tensor(), per_channel()):
        assert torch.equal(copy.deepcopy(q), q) and torch.equal(pickle.loads(pickle.dumps(q)), q)
    assert not torch.equal(per_tensor(), torch.quantize_per_tensor(X, 0.2, 3, torch.quint8))


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_files_hold_integers_and_scales(tmp_path, suffix):
    path = tmp_path / f"model.{suffix}"
    state = {
        "a": per_tensor(),
        "b": per_channel(),
        "view": per_tensor()[1:],
        "dtype": torch.qint8,
        "pair": (per_tensor(), X),
    }
    torch.save(state, path)
    loaded = torch.load(path)
    assert all(torch.equal(loaded[name], state[name]) for name in ("a", "b", "view"))
    assert loaded["dtype"] is torch.qint8 and torch.equal(loaded["pair"][0], state["pair"][0])


def test_a_recorded_program_holds_integers_only():
    def run(x):
        return torch.relu(torch.quantize_per_tensor(x, 0.1, 3, torch.quint8).reshape(-1)).dequantize()

    assert torch.compile(run, fullgraph=True)(X).equal(run(X))


def test_fake_quantize_and_its_gradient():
    x = torch.tensor([-1.0, 0.25, 0.35, 9.0, float("nan")], requires_grad=True)
    out = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 15)
    assert [round(value, 4) for value in out.tolist()] == [-0.3, 0.2, 0.4, 1.2, -0.3]
    out.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 0, 0]
    y = torch.tensor([[0.26, 7.0], [-0.26, -7.0]], requires_grad=True)
    out = torch.fake_quantize_per_channel_affine(y, SCALES, torch.tensor([0, 1], dtype=torch.int32), 0, -8, 7)
    assert [round(value, 4) for value in out.flatten().tolist()] == [0.3, 0.7, -0.5, -4.5]
    with pytest.raises(RuntimeError, match="Zero-point must be Int32"):
        torch.fake_quantize_per_channel_affine(y, SCALES, ZEROS, 0, -8, 7)


def test_scale_and_zero_point_can_be_learned():
    x = torch.tensor([-9.0, 0.26, 9.0])
    scale, zero = torch.tensor([0.1], requires_grad=True), torch.tensor([3.4], requires_grad=True)
    torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 15, 2.0).backward(
        torch.tensor([1.0, 10.0, 100.0])
    )
    assert scale.grad.item() == pytest.approx(2 * (-3 + 10 * 0.4 + 100 * 12), rel=1e-5)
    assert zero.grad.item() == pytest.approx(2 * -0.1 * 101, rel=1e-5)


@pytest.mark.parametrize(
    "changed",
    [
        {"dtype": torch.int8}, {"scheme": "none"}, {"zero_point": 300}, {"zero_point": 1.5}, {"scale": 1},
        {"integers": X}, {"scheme": "per_channel_affine"}, {"scheme": "per_channel_affine", "axis": 9},
        {"scheme": "per_channel_affine", "scale": SCALES, "zero_point": ZEROS[:1]}, {"integers": 3},
    ],
    ids=lambda changed: "-".join(changed),
)  # fmt: skip
def test_parts_of_a_file_that_do_not_fit_are_refused(changed):
    from numod.serialization.torch_objects import quantized_tensor

    parts = {"integers": torch.zeros(2, 4, dtype=torch.uint8), "dtype": torch.quint8, "scheme": "per_tensor_affine"}
    parts |= {"scale": 0.1, "zero_point": 3, "axis": 0}
    assert quantized_tensor(**parts).q_zero_point() == 3
    with pytest.raises(ValueError, match="a quantized tensor"):
        quantized_tensor(**parts | changed)
