"""`mixed_precision` of DistributedDataParallel beside the same computation in PyTorch, on gloo (about 5 s)."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from ranks import on_ranks

import numod
import numod.distributed as dist
from numod import nn
from numod.nn.parallel import DistributedDataParallel
from numod.nn.parallel.distributed import _MixedPrecision

BATCH = 6


def network(T, normalised: bool):
    norm = [T.nn.BatchNorm1d(8)] if normalised else []
    network = T.nn.Sequential(T.nn.Linear(4, 8), *norm, T.nn.Tanh(), T.nn.Linear(8, 3))
    with T.no_grad():
        for number, parameter in enumerate(network.parameters()):
            parameter.copy_(T.linspace(-1, 1, parameter.numel()).view(parameter.shape) * 0.5 + 0.1 * number)
    return network


def by_hand(T, D, network, param: str, reduce: str, buffer: str | None):
    """What `mixed_precision` means, in PyTorch: (a function of the input, one that averages the gradients).

    PyTorch's own needs an accelerator.
    """
    for owner in network.modules():
        for name, value in owner.named_buffers(recurse=False):
            if buffer and value.is_floating_point():
                setattr(owner, name, value.to(getattr(T, buffer)))

    def forward(x):
        copies = {name: parameter.to(getattr(T, param)) for name, parameter in network.named_parameters()}
        return T.func.functional_call(network, copies, (x.to(getattr(T, param)),))

    def average():
        for parameter in network.parameters():
            sent = parameter.grad.to(getattr(T, reduce)) / D.get_world_size()
            D.all_reduce(sent)
            parameter.grad.copy_(sent)

    return forward, average


def mixed(param: str, reduce: str | None, buffer: str | None = None, normalised: bool = False, **options):
    """A case: weights, gradients, buffers and results of training with these dtypes."""

    def case(T, D, DDP):
        model = network(T, normalised)
        if T is numod:
            precision = _MixedPrecision(*[name and getattr(T, name) for name in (param, reduce, buffer)])
            forward, average = DDP(model, mixed_precision=precision, **options), lambda: None
        else:
            forward, average = by_hand(T, D, model, param, reduce or param, buffer)
        optimizer = T.optim.SGD(model.parameters(), lr=0.1)
        x = T.linspace(-1, 1, 4 * BATCH).view(BATCH, 4) * (1 + D.get_rank())
        results = []
        for _ in range(3):
            optimizer.zero_grad()
            output = forward(x)
            results.append([output.float(), str(output.dtype).partition(".")[2]])
            output.float().square().mean().backward()
            average()
            results.append([parameter.grad.clone() for parameter in model.parameters()])
            optimizer.step()
        tensors = model.state_dict().values()
        return [results, list(tensors), [str(tensor.dtype).partition(".")[2] for tensor in tensors]]

    return case


CASES = {
    "bfloat16": mixed("bfloat16", "bfloat16"),
    "reduced_like_parameters": mixed("bfloat16", None, bucket_cap_mb=1e-4),
    "sums_in_float32": mixed("bfloat16", "float32", gradient_as_bucket_view=True),
    "only_sums": mixed("float32", "float16"),
    "float16": mixed("float16", "float16", find_unused_parameters=True),
    "buffers": mixed("bfloat16", "bfloat16", "bfloat16", True, broadcast_buffers=False),
}


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install torch")
@on_ranks()
def test_training_equals_pytorch() -> None:
    from beside_torch import check

    check(CASES, 2e-2)


@on_ranks()
def test_dtypes_inside_and_outside_and_compiled() -> None:
    seen: list = []

    class Shared(nn.Module):
        """A layer with a tied weight, an integer input and one that is no tensor."""

        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4, bias=False)
            self.second = nn.Linear(4, 4, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x, rows, scale=1.0):
            seen[:] = [x.dtype, rows.dtype, self.first.weight.dtype, self.second.weight is self.first.weight]
            return {"y": self.second(self.first(x[rows])) * scale, "scale": scale}

    numod.manual_seed(0)
    x, rows = numod.randn(3, 4) * (1 + dist.get_rank()), numod.tensor([2, 0])
    model = Shared()
    module = DistributedDataParallel(model, mixed_precision=_MixedPrecision(param_dtype=numod.bfloat16))

    def gradient(function):
        module.zero_grad()
        function(x, rows, scale=2.0)["y"].float().sum().backward()
        return model.first.weight.grad.clone()

    expected = gradient(module)
    assert seen == [numod.bfloat16, numod.int64, numod.bfloat16, True]
    assert model.first.weight.dtype is expected.dtype is numod.float32
    assert numod.equal(expected, expected.bfloat16().float())  # sent as bfloat16
    with module.no_sync():
        gradient(module)
    module(x, rows)["y"].float().sum().backward()
    assert numod.allclose(model.first.weight.grad, 1.5 * expected, 0.02, 0.02)
    step = numod.compile(lambda: gradient(module))
    for _ in range(3):
        assert numod.allclose(step(), expected, 0.02, 0.02)
    with pytest.raises(TypeError, match="mixed_precision: expected .*_MixedPrecision.*, got numod.bfloat16"):
        DistributedDataParallel(model, mixed_precision=numod.bfloat16)
    with pytest.raises(RuntimeError, match="can only be called once"):
        module.register_comm_hook(None, lambda state, bucket: None)
