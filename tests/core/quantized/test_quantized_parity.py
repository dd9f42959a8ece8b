"""Quantized tensors side by side with PyTorch's: integers, scales and zero points are equal."""

import io

import numpy as np
import pytest

import numod

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")


def data(kind):
    random = np.random.default_rng(0)
    return {
        "normal": random.standard_normal((6, 40)) * 3,
        "zeros": np.zeros((6, 40)),
        "one value": np.full((6, 40), 3.7),
        "denormal": random.standard_normal((6, 40)) * 1e-41,
        "large": random.standard_normal((6, 40)) * 1e30,
        "positive": random.random((6, 40)) + 5,
        "ties": np.arange(240).reshape(6, 40) / 20 - 3,
    }[kind].astype(np.float32)


KINDS = "normal", "zeros", "one value", "denormal", "large", "positive", "ties"


def both(values):
    return (torch, torch.from_numpy(values)), (numod, numod.from_numpy(values))


def integers(q):
    return q.int_repr().numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["quint8", "qint8"])
def test_integers(kind, dtype):
    for scale, zero in ((0.0371, 11), (0.1, 3), (1 / 3, 0)):
        theirs, ours = (lib.quantize_per_tensor(x, scale, zero, getattr(lib, dtype)) for lib, x in both(data(kind)))
        assert np.array_equal(integers(theirs), integers(ours))
        assert np.array_equal(theirs.dequantize().numpy(), ours.dequantize().numpy())
        channels = [
            lib.quantize_per_channel(
                x, lib.arange(1, 7) * scale, lib.tensor([0, 1, 2, 3, 4, 5]), 0, getattr(lib, dtype)
            )
            for lib, x in both(data(kind))
        ]
        differences = np.abs(np.subtract(*[integers(channel).astype(int) for channel in channels]))
        assert differences.max() <= 1 and differences.mean() <= (0.01 if kind in ("ties", "one value") else 0)
        if differences.max() == 0:
            np.testing.assert_allclose(*[channel.dequantize().numpy() for channel in channels], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize("dtype", ["quint8", "qint8"])
def test_the_range_of_a_dynamic_tensor(kind, reduced, dtype):
    theirs, ours = (lib.quantize_per_tensor_dynamic(x, getattr(lib, dtype), reduced) for lib, x in both(data(kind)))
    assert (theirs.q_scale(), theirs.q_zero_point()) == (ours.q_scale(), ours.q_zero_point())
    assert np.array_equal(integers(theirs), integers(ours))


@pytest.mark.parametrize("kind", KINDS)
def test_fake_quantize(kind):
    results = []
    for lib, x in both(data(kind)):
        x.requires_grad_()
        out = lib.fake_quantize_per_tensor_affine(x, 0.0371, 11, 0, 127)
        channels = lib.fake_quantize_per_channel_affine(
            x.double().float(), lib.arange(1, 7) * 0.02, lib.arange(6, dtype=lib.int32), 0, -100, 100
        )
        (out * 2 + channels.clamp(-1e3, 1e3)).sum().backward()
        results.append((out.detach().numpy(), channels.detach().numpy() if kind != "large" else 0, x.grad.numpy()))
    for theirs, ours in zip(*results):
        assert np.array_equal(theirs, ours)


def test_learned_parameters():
    results = []
    for lib, x in both(data("normal")):
        scale, zero = lib.tensor([0.03], requires_grad=True), lib.tensor([3.4], requires_grad=True)
        x.requires_grad_()
        out = lib._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 127, 2.0)
        out.backward(lib.arange(240.0).reshape(6, 40))
        results.append([tensor.detach().numpy() for tensor in (out, x.grad, scale.grad, zero.grad)])
    for theirs, ours in zip(*results):
        np.testing.assert_allclose(theirs, ours, rtol=2e-5, atol=1e-6)


EXPRESSIONS = """q | c | c.int_repr() | c.clone() | c[0] | torch.relu(q) | q.reshape(-1) | q.t() | q[1:, ::2] | q.max() | q.mean()
    torch.cat([q, q], 1) | torch.stack([q, q]) | q == q | torch.sigmoid(q) | torch.tanh(q) | torch.clamp(q, 0, 1)
    torch.nn.functional.max_pool2d(q[None], 2) | q.sort() | q.topk(2)
    torch.nn.functional.interpolate(q[None, None], scale_factor=2) | torch.nn.functional.leaky_relu(q) | q.copy_(x * 2)
    torch.nn.functional.adaptive_avg_pool2d(q[None], 1) | torch.nn.functional.hardtanh(q) | q.is_floating_point()
    q.is_quantized | x.is_quantized | q.element_size() | q.qscheme() | q.permute(1, 0) | q.squeeze() | q.numel() | q.dtype
    torch._make_per_tensor_quantized_tensor(torch.tensor([1, 2], dtype=torch.int8), 0.1, 0) | torch.dequantize([q, c])
    torch.fliplr(q) | torch.flipud(q) | torch.msort(q) | q.argsort() | q.diag() | q.conj() | q.positive() | q.is_neg()
    torch.real(q) | torch.broadcast_tensors(q, q) | torch.atleast_3d(q) | torch.unbind_copy(q) | q.to_dense()"""


@pytest.mark.parametrize("expression", [part.strip() for part in EXPRESSIONS.replace("\n", "|").split("|")])
def test_functions_and_texts(expression):
    shown = []
    for lib, x in both(data("normal")[:4, :6]):
        q = lib.quantize_per_tensor(x, 0.1, 3, lib.quint8)
        c = lib.quantize_per_channel(x, lib.tensor([0.7, 0.5, 0.3, 0.2]), lib.tensor([3, 0, 1, 0]), 0, lib.qint8)
        shown.append(str(eval(expression, {"torch": lib, "q": q, "c": c, "x": x})).replace("numod.", "torch."))
    assert shown[0] == shown[1]


def test_files_of_pytorch():
    (_, theirs), (_, ours) = both(data("normal"))
    scales, zeros = np.linspace(0.1, 0.6, 6), np.arange(6)
    saved = {
        lib: {
            "q": lib.quantize_per_tensor(x, 0.1, 3, lib.quint8),
            "c": lib.quantize_per_channel(x, lib.from_numpy(scales), lib.from_numpy(zeros), 0, lib.qint8),
            "dtype": lib.qint8,
        }
        for lib, x in ((torch, theirs), (numod, ours))
    }
    for source, target in ((torch, numod), (numod, torch)):
        file = io.BytesIO()
        source.save(saved[source], file)
        file.seek(0)
        loaded = target.load(file)
        assert target.equal(loaded["q"], saved[target]["q"]) and target.equal(loaded["c"], saved[target]["c"])
        assert loaded["dtype"] is target.qint8


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, q: lib.nn.functional.gelu(q),
        lambda lib, q: lib.nn.functional.gelu(q, approximate="tanh"),
        lambda lib, q: q.std(),
        lambda lib, q: lib.std(q, 1),
        lambda lib, q: q.std((0, 1), unbiased=False, keepdim=True),
    ],
)
def test_functions_that_keep_the_scale(call):
    theirs, ours = (call(lib, lib.quantize_per_tensor(x, 0.1, 3, lib.quint8)) for lib, x in both(data("normal")))
    assert theirs.q_scale() == pytest.approx(ours.q_scale()) and theirs.q_zero_point() == ours.q_zero_point()
    assert np.abs(integers(theirs).astype(int) - integers(ours)).max() <= 1 and theirs.shape == ours.shape
