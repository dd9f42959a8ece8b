"""uint16, uint32 and uint64 side by side with PyTorch: values, dtypes, texts and the exceptions' types."""

from __future__ import annotations

import io

import pytest

import numod

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch")

# `x` (2, 3) and `y` (3,) have the dtype `kind`
CASES = """
x * -1 | x * 2**63 | x * 2**40 | x == 1.0 | x == 2**63 | x == -1 | x & -1 | x ^ x | x | x * True | x * torch.tensor(2) | x * torch.tensor(True)
x.clone().fill_(-3) | x.clone().mul_(2.5) | x.clone().mul_(3) | x.clone().copy_(torch.ones(3)) | x.clone().index_put_((torch.tensor([0]),), y)
torch.full((3,), -1, dtype=kind) * 3 | torch.full((3,), -1, dtype=kind).float() | torch.full((3,), -1, dtype=kind).long() | torch.full((1,), -1, dtype=kind).item()
torch.full((2,), -1, dtype=kind).sum() | torch.full((2,), -1, dtype=kind).half() | torch.full((3,), -1, dtype=kind).unique(return_inverse=True)
torch.tensor([2**64 - 1, 5], dtype=kind) if kind is torch.uint64 else 0 | torch.tensor([-1], dtype=kind) | torch.tensor([1.5], dtype=kind)
torch.tensor([3e9, 1.5, 70000.0]).to(kind) | torch.tensor([1e19, 1.5], dtype=torch.float64).to(kind) | torch.tensor([-1, 5]).to(kind)
x.to(torch.complex64) | x.half() | x.bool() | torch.where(x == 1, x, 5) | torch.where(x == 1, x, 70000) | torch.zeros(1, dtype=kind, requires_grad=True)
torch.iinfo(kind).max | torch.finfo(kind) | x.type() | x.is_signed() | x.element_size() | x.view(torch.uint8) | torch.can_cast(kind, torch.int8) | torch.can_cast(torch.float32, kind)
torch.result_type(x, 1.5) | torch.result_type(x, True) | torch.result_type(x, 1j) | torch.promote_types(kind, torch.float16) | torch.promote_types(kind, torch.int32)
x.sum() | x.prod() | x.mean() | x.mean(dtype=torch.float32) | x.std() | x.cumsum(0) | x.max() | x.amax(1) | x.argmax() | x.any(1) | x.all() | x.sort() | x.argsort() | x.unique()
torch.arange(10)[x[0, 1]] | torch.eye(5)[x[0, 1], torch.tensor([1, 2])] | x * 1j | x.clone().random_()
torch.arange(10)[torch.full((), 2**16 - 1, dtype=kind)] | torch.arange(10)[x] | x[0, 0] | x[x == 2] | x[:, 1:] | x[torch.tensor([1, 0])] | x.index_select(0, torch.tensor([1])) | x.flip(0) | x.roll(1) | x.tril() | x.repeat(2, 1)
x + 1 | x - x | x / 2 | x // 2 | x % 2 | x ** 2 | x < y | -x | abs(x) | ~x | x << 1 | x @ x.t() | x.exp() | x.ceil() | x.sign() | x.clamp(1, 2) | torch.maximum(x, x) | x.isnan()
torch.cat([x, torch.ones(1, 3, dtype=torch.int32)]) | torch.cat([x, x]) | torch.stack([y, y]) | x + torch.ones(3) | x + torch.ones(3, dtype=torch.float64) | torch.equal(x, x)
torch.arange(3, dtype=kind) | torch.eye(2, dtype=kind) | torch.linspace(0, 2, 3, dtype=kind) | torch.empty(0, dtype=kind) | torch.zeros_like(x) | x.new_tensor([1]) | torch.isin(x, y)
torch.nn.functional.embedding(torch.tensor([1]), x) | torch.nn.functional.pad(y, (1, 1)) | torch.set_default_dtype(kind) | torch.frombuffer(bytearray(8), dtype=kind)
torch.as_tensor(x.numpy()) | torch.from_dlpack(x) | [1, 2, 3][x[0, 0]] | f"{x[0, 0]:05d}" | bool(x[0, 0]) | [int(v) for v in y]
"""
EXPRESSIONS = [case.strip() for line in CASES.strip().splitlines() for case in line.split(" | ")]


def outcome(library: object, name: str, expression: str) -> str:
    kind = getattr(library, name)
    x = library.tensor([[1, 2, 3], [4, 5, 6]], dtype=kind)
    values = {"torch": library, "kind": kind, "x": x, "y": library.tensor([3, 1, 2], dtype=kind)}
    try:
        return repr(eval(expression, values)).replace("numod", "torch")
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
def test_results_and_errors(name: str) -> None:
    differing = {
        expression: (outcome(torch, name, expression), outcome(numod, name, expression)) for expression in EXPRESSIONS
    }
    assert {key: pair for key, pair in differing.items() if pair[0] != pair[1]} == {}


@pytest.mark.parametrize("name", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("modern", [True, False])
def test_checkpoints(name: str, modern: bool) -> None:
    values = [1, 5, 2**15 + 3]
    theirs = torch.tensor(values, dtype=getattr(torch, name))
    torch.save({"x": theirs, "y": theirs[1:]}, file := io.BytesIO(), _use_new_zipfile_serialization=modern)
    file.seek(0)
    loaded = numod.load(file)
    assert (loaded["x"].tolist(), loaded["y"].tolist(), loaded["x"].dtype.name) == (values, values[1:], name)
    numod.save({"x": loaded["x"], "y": loaded["y"]}, file := io.BytesIO())
    file.seek(0)
    again = torch.load(file)
    assert torch.equal(again["x"], theirs) and again["y"].data_ptr() == again["x"].data_ptr() + theirs.itemsize
