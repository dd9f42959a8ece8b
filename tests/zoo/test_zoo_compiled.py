"""The model zoo trained for twenty steps, eagerly and compiled: the same losses and weights, and the same outputs in
evaluation.
"""

from __future__ import annotations

import copy

import pytest
import zoo

import numod

OPTIMIZERS = {
    "gpt": ("AdamW", {"lr": 1e-3}),
    "vae": ("RMSprop", {"lr": 1e-3}),
    "actor_critic": ("Adam", {"lr": 3e-4, "eps": 1e-5}),
}


def step_of(model: numod.nn.Module, loss_of: object, name: str) -> object:
    kind, options = OPTIMIZERS.get(name, ("SGD", {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}))
    return zoo.step_of(model, loss_of, getattr(numod.optim, kind)(model.parameters(), **options))


@pytest.mark.fuzz
@pytest.mark.parametrize("name", [name for name in zoo.MODELS if name != "alexnet"])
def test_twenty_steps(name: str) -> None:
    numod.manual_seed(0)
    eager, inputs, loss_of = zoo.MODELS[name](numod)
    other = copy.deepcopy(eager)
    steps = step_of(eager, loss_of, name), numod.compile(step_of(other, loss_of, name), options={"linked": False})
    for turn in range(20):
        losses = []
        for step in steps:
            numod.manual_seed(turn)
            losses.append(step(*inputs).item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-4, abs=1e-5)
    assert steps[1].recorded == 1
    for (key, a), b in zip(eager.state_dict().items(), other.state_dict().values()):
        assert numod.allclose(a, b, rtol=1e-3, atol=2e-3), key
    eager.eval(), other.eval()
    compiled = numod.compile(other)
    with numod.no_grad():
        for _ in range(2):
            for a, b in zip(
                *(output if isinstance(output, tuple) else (output,) for output in (compiled(*inputs), other(*inputs)))
            ):
                assert numod.allclose(a, b, rtol=1e-4, atol=1e-5)
