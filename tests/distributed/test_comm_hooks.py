"""Communication hooks of DistributedDataParallel, beside PyTorch's on gloo (about 5 s)."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest
from ranks import on_ranks

import numod
import numod.distributed as dist
from numod import nn
from numod.distributed.algorithms.ddp_comm_hooks import default_hooks
from numod.nn import functional as F
from numod.nn.parallel import DistributedDataParallel

NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install torch")


def hooked(name, register):
    """A case: the gradients of a module with a hook."""

    def case(T, D, DDP):
        hooks = import_module(f"{T.__name__}.distributed.algorithms.ddp_comm_hooks.default_hooks")
        T.manual_seed(0)
        layer = T.nn.Sequential(T.nn.Linear(4, 8), T.nn.Tanh(), T.nn.Linear(8, 3))
        with T.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(T.linspace(-1, 1, parameter.numel()).view(parameter.shape))
        module = DDP(layer, bucket_cap_mb=1e-4, gradient_as_bucket_view=name.endswith("view"))
        calls: list = []
        register(T, D, module, hooks, calls)
        for _ in range(2):
            module.zero_grad()
            module(T.linspace(0, 1, 12).view(3, 4) * (1 + D.get_rank())).square().mean().backward()
        return [*[parameter.grad for parameter in layer.parameters()], calls]

    return case


def local(T, D, module, hooks, calls):
    def hook(state, bucket):
        # PyTorch changes its buckets after the first pass
        shapes = [list(part.shape) for part in bucket.gradients()]
        state[:] = [bucket.index(), bucket.is_last(), shapes, [list(part.shape) for part in bucket.parameters()]]
        future = T.futures.Future()
        future.set_result(bucket.buffer())
        return future

    module.register_comm_hook(calls, hook)


CASES = {
    name: hooked(name, register)
    for name, register in {
        "average": lambda T, D, module, hooks, calls: module.register_comm_hook(None, hooks.allreduce_hook),
        "float16": lambda T, D, module, hooks, calls: module.register_comm_hook(None, hooks.fp16_compress_hook),
        "float16_view": lambda T, D, module, hooks, calls: module.register_comm_hook(None, hooks.fp16_compress_hook),
        "wrapped": lambda T, D, module, hooks, calls: module.register_comm_hook(
            D.group.WORLD, hooks.fp16_compress_wrapper(hooks.allreduce_hook)
        ),
        "builtin": lambda T, D, module, hooks, calls: module._register_builtin_comm_hook(
            D.BuiltinCommHookType.FP16_COMPRESS
        ),
        "changed": lambda T, D, module, hooks, calls: module.register_comm_hook(
            None, lambda state, bucket: hooks.allreduce_hook(None, bucket).then(lambda future: future.value() * 3)
        ),
        "local": local,
        "no_function": lambda T, D, module, hooks, calls: module.register_comm_hook(None, 3),
        "second": lambda T, D, module, hooks, calls: [
            module.register_comm_hook(None, hooks.allreduce_hook) for _ in range(2)
        ],
    }.items()
}


@NEEDS_TORCH
@on_ranks()
def test_hooks_equal_pytorchs() -> None:
    from beside_torch import check

    check(CASES, 1e-3)


def gradient(x: numod.Tensor, hook: object, compiled: bool) -> numod.Tensor:
    """The gradient of a layer's weight after three steps."""
    numod.manual_seed(0)
    module = DistributedDataParallel(nn.Linear(4, 3))
    if hook is not None:
        module.register_comm_hook(None, hook)

    def step() -> None:
        module.zero_grad()
        F.mse_loss(module(x), x[:, :3]).backward()

    run = numod.compile(step) if compiled else step
    for _ in range(3):
        run()
    return module.module.weight.grad


@on_ranks()
def test_hooks_in_compiled_steps_and_wrong_results() -> None:
    x = numod.linspace(-1, 1, 8).view(2, 4) * (1 + dist.get_rank())
    expected = gradient(x, None, False)
    assert numod.allclose(gradient(x, default_hooks.allreduce_hook, True), expected)
    bits16 = default_hooks.bf16_compress_hook, default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook)
    for hook, compiled in ((bits16[0], True), (bits16[1], False)):
        result = gradient(x, hook, compiled)
        assert numod.allclose(result, expected, 0.02, 0.02) and not numod.equal(result, expected)
    module = DistributedDataParallel(nn.Linear(4, 3))
    module.register_comm_hook(None, lambda state, bucket: bucket.buffer())
    with pytest.raises(RuntimeError, match="communication hook: expected it to return a Future, got Tensor"):
        module(x).sum().backward()
