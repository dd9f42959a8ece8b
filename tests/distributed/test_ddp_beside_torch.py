"""DistributedDataParallel on two ranks beside PyTorch's on gloo: gradients, weights, buffers and errors are equal.

The file takes about 20 s.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from ranks import on_ranks

import numod.distributed as dist

NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install torch")
CASES: dict[str, Callable] = {}


def case(function: Callable) -> Callable:
    CASES[function.__name__] = function
    return function


def filled(library: Any, module: Any, seed: int = 0) -> Any:
    """The module with known parameters."""
    generator = np.random.default_rng(seed)
    with library.no_grad():
        for parameter in module.parameters():
            values = generator.normal(size=tuple(parameter.shape)) * 0.3
            parameter.copy_(library.tensor(values, dtype=parameter.dtype))
    return module


def mlp(T: Any) -> Any:
    nn = T.nn
    return filled(T, nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).double())


def normalised(T: Any) -> Any:
    nn = T.nn
    return filled(T, nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)).double())


def branches(T: Any) -> Any:
    """A module of which one part takes no part, and one only where asked."""

    class Branches(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.always, self.sometimes, self.never = T.nn.Linear(4, 4), T.nn.Linear(4, 4), T.nn.Linear(4, 4)

        def forward(self, x, both=False):
            return self.always(x) + (self.sometimes(x) if both else 0)

    return filled(T, Branches().double())


def data(T: Any, seed: int = 0) -> Any:
    """This rank's examples, (6, 4)."""
    return T.tensor(np.random.default_rng(seed * 100 + dist.get_rank()).normal(size=(6, 4)))


def grads(module: Any) -> dict:
    return {
        name: None if parameter.grad is None else parameter.grad.clone()
        for name, parameter in module.named_parameters()
    }


def trained(T: Any, module: Any, steps: int = 3, **arguments: Any) -> list:
    optimizer = T.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        module(data(T, step), **arguments).square().mean().backward()
        optimizer.step()
    return [module.state_dict(), grads(module)]


for name, options in {
    "default": {},
    "view": {"gradient_as_bucket_view": True},
    "small_buckets": {"bucket_cap_mb": 1e-4, "gradient_as_bucket_view": True},
    "bucket_list": {"bucket_cap_mb_list": [1, 2]},
    "static": {"static_graph": True},
    "find_unused": {"find_unused_parameters": True, "bucket_cap_mb": 1e-4},
    "no_buffers": {"broadcast_buffers": False},
    "new_name": {"forward_sync_buffers": False, "batched_grad_copy": True},
    "output_device": {"output_device": 0},
    "device_ids": {"device_ids": [0]},
}.items():
    CASES[f"options_{name}"] = lambda T, D, DDP, options=options: trained(T, DDP(mlp(T), **options))
    CASES[f"buffers_{name}"] = lambda T, D, DDP, options=options: trained(T, DDP(normalised(T), **options))


@case
def no_sync(T, D, DDP):
    results = []
    for options in ({}, {"gradient_as_bucket_view": True}):
        module = DDP(mlp(T), **options)
        for turn in range(3):
            with module.no_sync():
                module(data(T, turn)).square().mean().backward()
            results.append(grads(module))
            module(data(T, 9 + turn)).square().mean().backward()
            results.append(grads(module))
            module.zero_grad(set_to_none=turn == 1)
    return results


@case
def backward_outside_no_sync(T, D, DDP):
    module = DDP(mlp(T))
    with module.no_sync():
        loss = module(data(T)).square().mean()
    loss.backward()
    first, loss = grads(module), module(data(T)).square().mean()
    with module.no_sync():
        loss.backward()
    return [first, grads(module)]


@case
def accumulated(T, D, DDP):
    results = []
    for options in ({}, {"gradient_as_bucket_view": True}):
        module = DDP(mlp(T), **options)
        for step in range(2):
            module(data(T, step)).square().mean().backward()
            results.append(grads(module))
    return results


@case
def forward_without_gradients_before_backward(T, D, DDP):
    module = DDP(mlp(T))
    module(data(T, 5))  # without a backward pass
    loss = module(data(T)).sum()
    with T.no_grad():
        module(data(T, 1))
    loss.backward()
    return grads(module)


@case
def several_forward_calls(T, D, DDP):
    module, static = DDP(mlp(T)), DDP(mlp(T), static_graph=True)
    for candidate in (module, static, static):
        candidate.zero_grad()
        (candidate(data(T, 0)).sum() + candidate(data(T, 1)).square().sum()).backward()
    return [grads(module), grads(static)]


@case
def retained_graph(T, D, DDP):
    module = DDP(mlp(T))
    loss = module(data(T)).square().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return grads(module)


@case
def initial_values(T, D, DDP):
    results = []
    for init_sync in (True, False):
        module = mlp(T)
        with T.no_grad():
            for parameter in module.parameters():
                parameter.add_(D.get_rank())
        module = DDP(module, init_sync=init_sync)
        module(data(T)).square().mean().backward()
        results += [module.state_dict(), grads(module)]
    return results


@case
def frozen(T, D, DDP):
    module = mlp(T)
    module[0].weight.requires_grad_(False)
    module = DDP(module, find_unused_parameters=True)
    module(data(T)).square().mean().backward()
    module.module[2].bias.requires_grad_(False)
    module(data(T)).square().mean().backward()
    return grads(module)


@case
def all_frozen(T, D, DDP):
    return DDP(mlp(T).requires_grad_(False))


@case
def shared_and_mixed_parameters(T, D, DDP):
    class Mixed(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = T.nn.Linear(4, 4).double(), T.nn.Linear(4, 4), T.nn.Linear(4, 4)
            self.b.weight = self.c.weight
            self.scale = T.nn.Parameter(T.tensor(2.0))
            self.empty = T.nn.Parameter(T.zeros(0, 3))

        def forward(self, x):
            return self.c(self.b(self.a(x).float())) * self.scale + self.empty.sum()

    module = DDP(filled(T, Mixed()))
    module(data(T)).square().mean().backward()
    return {name: None if grad is None else grad.mul(1e4).round() for name, grad in grads(module).items()}


@case
def unused_raises(T, D, DDP):
    module = DDP(branches(T))
    for _ in range(2):
        module(data(T)).sum().backward()


@case
def unused_on_some_ranks(T, D, DDP):
    results = []
    for options in ({}, {"gradient_as_bucket_view": True}):
        module = DDP(branches(T), find_unused_parameters=True, **options)
        for step in range(3):
            module(data(T, step), both=D.get_rank() == step % 2).sum().backward()
            results.append(grads(module))
    return results


@case
def unused_after_no_sync(T, D, DDP):
    module, results = DDP(branches(T), find_unused_parameters=True), []
    for both in (True, D.get_rank() == 0):
        with module.no_sync():
            module(data(T, 0), both=both).sum().backward()
        for step in (1, 2):
            module(data(T, step)).sum().backward()
            results.append(grads(module))
            module.zero_grad()
    return results


@case
def outputs_that_the_loss_does_not_use(T, D, DDP):
    class Outputs(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = T.nn.Linear(4, 4), T.nn.Linear(4, 4)

        def forward(self, x):
            return {"a": self.a(x), "others": [(self.b(x), "text"), x, None]}

    module = DDP(filled(T, Outputs().double()), find_unused_parameters=True)
    results = []
    for step in range(3):
        module.zero_grad()
        outputs = module(data(T, step))
        (outputs["a"] if step < 2 else outputs["others"][0][0]).sum().backward()
        results += [grads(module), outputs["others"]]
    return results


@case
def checkpoint_inside(T, D, DDP):
    checkpoint = import_module(f"{T.__name__}.utils.checkpoint").checkpoint

    class Recomputed(T.nn.Module):
        def __init__(self, reentrant, twice) -> None:
            super().__init__()
            self.a, self.b = T.nn.Linear(4, 4), T.nn.Linear(4, 4)
            self.reentrant, self.twice = reentrant, twice

        def forward(self, x):
            x = checkpoint(self.b, self.a(x).tanh(), use_reentrant=self.reentrant)
            return checkpoint(self.b, x, use_reentrant=self.reentrant) if self.twice else x

    results = []
    for reentrant, twice in ((False, False), (True, False), (False, True)):
        module = DDP(filled(T, Recomputed(reentrant, twice).double()), static_graph=twice)
        for _ in range(2):
            module.zero_grad()
            module(data(T)).square().sum().backward()
        results.append(grads(module))
    return results


@case
def hooks(T, D, DDP):
    module, calls = mlp(T), []
    module[0].weight.register_hook(lambda grad: grad * 2)
    module = DDP(module)
    module.module[2].weight.register_hook(lambda grad: grad * 3)
    module.register_forward_hook(lambda *_: calls.append("forward"))
    module.module[2].register_full_backward_hook(lambda *_: calls.append("backward"))
    module.module[0].bias.register_post_accumulate_grad_hook(
        lambda parameter: calls.append(str(tuple(parameter.shape)))
    )
    module(data(T)).square().mean().backward()
    return [calls, grads(module)]


@case
def several_modules(T, D, DDP):
    inner, other = DDP(mlp(T)), DDP(filled(T, T.nn.Linear(3, 2).double(), 5))
    other(inner(data(T))).square().mean().backward()
    nested = DDP(T.nn.Sequential(DDP(mlp(T)), filled(T, T.nn.Linear(3, 2).double(), 5)))
    nested(data(T)).square().mean().backward()
    return [grads(inner), grads(other), grads(nested)]


@case
def gradients_of_inputs(T, D, DDP):
    module, x = DDP(mlp(T)), data(T).requires_grad_(True)
    module(x).square().sum().backward()
    first = x.grad.clone()
    return [first, grads(module), list(T.autograd.grad(module(x).square().sum(), [x, *module.parameters()]))]


@case
def gradient_penalty(T, D, DDP):
    nn = T.nn
    module = DDP(filled(T, nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()))
    for step in range(2):
        module.zero_grad()
        x = data(T, step).requires_grad_(True)
        (grad,) = T.autograd.grad(module(x).sum(), x, create_graph=True)
        (module(data(T, step + 3)).mean() + (grad.norm(dim=1) - 1).square().mean()).backward()
    return grads(module)


@case
def layers(T, D, DDP):
    rank, results = D.get_rank(), []
    lstm = DDP(filled(T, T.nn.LSTM(4, 5, batch_first=True).double()))
    outputs, (_, cell) = lstm(data(T).view(2, 3, 4))
    (outputs.sum() + cell.square().sum()).backward()
    embedding = DDP(filled(T, T.nn.Embedding(7, 3).double()))
    embedding(T.tensor([1, 2, rank])).square().sum().backward()
    transposed = filled(T, T.nn.Linear(4, 3).double())
    transposed.weight = T.nn.Parameter(transposed.weight.detach().t().contiguous().t())
    transposed = DDP(transposed, gradient_as_bucket_view=True)
    empty_batch = DDP(mlp(T))
    transposed(data(T)).square().sum().backward()
    empty_batch(data(T)[: 6 * rank]).sum().backward()
    for module in (lstm, embedding, transposed, empty_batch):
        results.append(grads(module))
    return results


@case
def after_errors(T, D, DDP):
    module = DDP(mlp(T))
    with pytest.raises(RuntimeError):
        module(data(T)[:, :3])
    output = module(data(T))
    output.register_hook(lambda grad: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        output.sum().backward()
    module.zero_grad()
    module(data(T)).sum().backward()
    return grads(module)


@case
def ignored_parameters(T, D, DDP):
    module = mlp(T)
    DDP._set_params_and_buffers_to_ignore_for_model(module, ["0.weight"])
    with T.no_grad():
        module[0].weight.add_(D.get_rank())
    module = DDP(module)
    module(data(T)).square().mean().backward()
    return [module.state_dict(), grads(module)]


@case
def static_graph_later(T, D, DDP):
    module = DDP(branches(T))
    module._set_static_graph()
    return trained(T, module)


@case
def attributes(T, D, DDP):
    module = DDP(normalised(T))
    names = (
        "require_backward_grad_sync require_forward_param_sync broadcast_buffers forward_sync_buffers dim device_ids "
        "find_unused_parameters gradient_as_bucket_view static_graph output_device training"
    )
    return [*[getattr(module, name) for name in names.split()], module.will_sync_module_buffers()]


def joined(T: Any, module: Any, steps: int, accumulate: bool = False, **options: Any) -> dict:
    """The state after training on `steps` batches, in `join`."""
    optimizer = T.optim.SGD(module.parameters(), lr=0.1)
    with module.join(**options):
        for step in range(steps):
            with module.no_sync() if accumulate and step % 2 == 0 else nullcontext():
                module(data(T, step)).square().mean().backward()
            if not accumulate or step % 2:
                optimizer.step()
                optimizer.zero_grad()
    return module.state_dict()


@case
def join(T, D, DDP):
    rank = D.get_rank()
    hooked = DDP(mlp(T))
    default_hooks = import_module(f"{T.__name__}.distributed.algorithms.ddp_comm_hooks.default_hooks")
    hooked.register_comm_hook(None, default_hooks.allreduce_hook)
    return [
        joined(T, DDP(normalised(T)), 2 + 2 * rank),
        joined(T, DDP(normalised(T)), 4 - 2 * rank, divide_by_initial_world_size=False),
        joined(T, DDP(mlp(T)), 4 + rank, accumulate=True),
        joined(T, DDP(mlp(T)), 3 * rank),
        joined(T, DDP(branches(T), find_unused_parameters=True), 2 + rank),
        joined(T, hooked, 2 + rank),
    ]


@NEEDS_TORCH
@on_ranks()
def test_each_case_equals_pytorchs() -> None:
    from beside_torch import check

    check(CASES, 1e-9)
