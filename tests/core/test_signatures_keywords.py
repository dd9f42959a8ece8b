"""Arguments by PyTorch's names where a function also takes them one by one, int32 indices, row-major results."""

import pytest

import numod as torch

X = torch.arange(24.0).reshape(2, 3, 4)
PAIRS = {
    "permute": (lambda: torch.permute(X, dims=(0, 2, 1)), lambda: X.permute(0, 2, 1)),
    "reshape": (lambda: torch.reshape(X, shape=(6, -1)), lambda: X.reshape(6, 4)),
    "view": (lambda: X.view(size=(6, 4)), lambda: X.view(6, 4)),
    "expand": (lambda: X[:1].expand(size=(2, 3, 4)), lambda: X[:1].expand(2, 3, 4)),
    "repeat": (lambda: X.repeat(repeats=(1, 1, 2)), lambda: X.repeat(1, 1, 2)),
    "tile": (lambda: X.tile(dims=(2,)), lambda: X.tile(2)),
    "flip": (lambda: torch.flip(X, dims=(0, 2)), lambda: X.flip(0, 2)),
    "flip_one": (lambda: X.flip(dims=[1]), lambda: X.flip(1)),
    "swapaxes": (lambda: X.swapaxes(axis0=0, axis1=1), lambda: X.transpose(0, 1)),
    "cat": (lambda: torch.cat([X, X], axis=1), lambda: torch.cat([X, X], 1)),
    "stack": (lambda: torch.stack([X, X], axis=1), lambda: torch.stack([X, X], 1)),
    "unsqueeze": (lambda: X.unsqueeze(axis=1), lambda: X[:, None]),
    "softmax": (lambda: torch.softmax(X, axis=-1), lambda: X.softmax(-1)),
    "sort": (lambda: X.sort(axis=0, descending=True)[0], lambda: X.flip(0)),
    "linalg_norm": (
        lambda: torch.linalg.norm(X, axis=(0, 1), keepdims=True),
        lambda: torch.linalg.norm(X, dim=(0, 1), keepdim=True),
    ),
    "rfft": (lambda: torch.fft.rfft(X, axis=1).abs(), lambda: torch.fft.rfft(X, dim=1).abs()),
    "double": (lambda: X.double(memory_format=torch.preserve_format), lambda: X.double()),
    "scalar_tensor": (lambda: torch.scalar_tensor(3.0, requires_grad=True).detach(), lambda: torch.tensor(3.0)),
    "gather": (lambda: X.gather(0, torch.ones(1, 3, 4, dtype=torch.int32)), lambda: X[1:]),
    "index_select": (
        lambda: X.index_select(1, torch.tensor([2, 0], dtype=torch.int32)),
        lambda: torch.stack([X[:, 2], X[:, 0]], 1),
    ),
    "isclose": (lambda: torch.isclose(X > 3, X > 4), lambda: X != 4),
    "bernoulli": (lambda: torch.bernoulli(X, 1.0), lambda: torch.ones_like(X)),
    "pinv": (lambda: torch.linalg.pinv(X[0], 1e-5), lambda: torch.linalg.pinv(X[0], rtol=1e-5)),
    "vander": (lambda: torch.linalg.vander(torch.tensor(2.0), N=3), lambda: torch.tensor([[1.0, 2.0, 4.0]])),
    "tensor_split": (lambda: torch.tensor_split(X, sections=3, dim=2)[0], lambda: X[..., :2]),
    "hsplit": (lambda: X.hsplit(indices=[1])[1], lambda: X[:, 1:]),
    "sum_to_size": (lambda: X.sum_to_size(size=(3, 1)), lambda: X.sum((0, 2), keepdim=True)[0]),
    "resize_": (lambda: X.clone().resize_(size=(24,)), lambda: X.ravel()),
    "input": (lambda: torch.linalg.vector_norm(input=X, dim=0), lambda: X.norm(dim=0)),
    "sparse_grad": (lambda: X.gather(0, torch.ones(1, 3, 4, dtype=torch.int64), sparse_grad=True), lambda: X[1:]),
    "gradient": (lambda: torch.gradient(X, spacing=None, dim=0)[0], lambda: torch.gradient(X, dim=0)[0]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_by_name(name):
    actual, wanted = (call() for call in PAIRS[name])
    assert actual.dtype is wanted.dtype and torch.equal(actual, wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda: X[:, [0, 2]], lambda: X[:, :, torch.tensor([[0, 1], [2, 3]])], lambda: X[:, torch.tensor([True, False, True])], lambda: X[:, [0, 1], [2, 3]],
        lambda: X[0, 0, ::2].ravel(), lambda: torch.ones(3, 10).multinomial(3), lambda: torch.cross(X[:, :, 0], X[:, :, 1], dim=1), lambda: torch.diag_embed(X, 1, 0, 2),
        lambda: torch.gradient(X, dim=1)[0],
    ],
)  # fmt: skip
def test_results_can_be_viewed(function):
    result = function()
    assert result.is_contiguous() and result.view(-1).shape == (result.numel(),)


def test_integers_are_summed_as_int64():
    assert torch.ones(2, 3, dtype=torch.uint8).sum_to_size(1, 3).dtype is torch.int64


def test_gradient_of_a_value_filled_in_at_a_place_named_twice():
    x = torch.ones(2, 3, requires_grad=True)
    value = torch.tensor(2.0, requires_grad=True)
    weights = torch.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]])
    y = x.index_fill(1, torch.tensor([0, 2, 0]), value)
    (y * weights).sum().backward()
    assert y.tolist() == [[2.0, 1.0, 2.0], [2.0, 1.0, 2.0]]
    assert value.grad.item() == 45.0 and x.grad.tolist() == [[0.0, 2.0, 0.0], [0.0, 16.0, 0.0]]
    z = torch.tensor(1.0).index_fill(0, torch.tensor([0]), value)
    z.backward()
    assert z.item() == 2.0 and value.grad.item() == 46.0
