"""Checked by `test_types.py`, not run: decorators and named results keep their types."""

from typing import assert_type

import numod as torch
from numod import Tensor, nn


@torch.no_grad()
def without_gradient(x: Tensor, scale: float = 2.0) -> Tensor:
    return x * scale


@torch.no_grad
def bare(x: Tensor) -> int:
    return x.numel()


@torch.inference_mode()
def inference(x: Tensor) -> list[int]:
    return list(x.shape)


@torch.enable_grad()
def with_gradient(x: Tensor) -> Tensor:
    return x


@torch.compile
def compiled(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x + y, x - y


@torch.compile(fullgraph=True, dynamic=True)
def compiled_with_options(x: Tensor) -> Tensor:
    return x.exp()


@torch.jit.script
def scripted(x: Tensor) -> Tensor:
    return x


@torch.jit.ignore
def ignored(x: Tensor) -> int:
    return 1


@torch.jit.unused
def unused(x: Tensor) -> str:
    return ""


class Layer(nn.Module):
    @torch.no_grad()
    def norm(self) -> float:
        return 1.0

    @torch.jit.export
    def exported(self, x: Tensor) -> Tensor:
        return x


def check(x: Tensor) -> None:
    assert_type(without_gradient(x, scale=1.0), Tensor)
    assert_type(bare(x), int)
    assert_type(inference(x), list[int])
    assert_type(with_gradient(x), Tensor)
    assert_type(compiled(x, x), tuple[Tensor, Tensor])
    assert_type(compiled_with_options(x), Tensor)
    print(compiled.explain(), compiled.graph)
    assert_type(scripted(x), Tensor)
    assert_type(ignored(x), int)
    assert_type(unused(x), str)
    assert_type(Layer().norm(), float)
    assert_type(Layer().exported(x), Tensor)
    assert_type(torch.compile(Layer()), Layer)
    assert_type(torch.compile(Layer(), mode="max-autotune").norm(), float)
    assert_type(torch.jit.script(Layer()).norm(), float)
    with torch.no_grad(), torch.inference_mode(), torch.set_grad_enabled(False):
        assert_type(x.max(1).values, Tensor)
    assert_type(torch.max(x, dim=1).indices, Tensor)
    assert_type(x.max(), Tensor)
    assert_type(x.size(), torch.Size)
    assert_type(x.size(0), int)
    assert_type(x.shape[0], int)
    assert_type(x == 1, Tensor)
    assert_type(x[0], Tensor)
    assert_type(torch.nn.functional.max_pool2d(x, 2), Tensor)
    assert_type(torch.nn.functional.max_pool2d(x, 2, return_indices=True), tuple[Tensor, Tensor])
    assert_type(torch.special.expit(x), Tensor)
    assert_type(torch.linalg.svd(x).S, Tensor)
    assert_type(torch.nn.functional.gelu(x, approximate="tanh"), Tensor)
    assert_type(nn.Parameter(x).data, Tensor)
    assert_type(x.requires_grad_(), Tensor)
    assert_type(torch.float32.is_floating_point, bool)
    assert_type(torch.__version__ >= "2.0", bool)
    number: int = x.long().sum().item()
    text = "abc"[x.argmax().item()]
    print(number, text)
