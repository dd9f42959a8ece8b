"""Model files as people write them, on numod and on PyTorch: the same weights give the same outputs, gradients and
training steps.
"""

from __future__ import annotations

import numpy as np
import pytest
import zoo

import numod

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
OPTIMIZERS = {
    "gpt": ("AdamW", {"lr": 1e-3}),
    "vit": ("Adam", {"lr": 1e-3}),
    "vae": ("RMSprop", {"lr": 1e-3}),
    "actor_critic": ("Adam", {"lr": 3e-4, "eps": 1e-5}),
}


def close(actual: object, expected: object, name: str, tolerance: float = 1e-4) -> None:
    scale = float(np.abs(expected).max()) + 1e-6
    np.testing.assert_allclose(actual / scale, expected / scale, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", zoo.MODELS)
def test_forward_backward_and_three_steps(name: str) -> None:
    torch.manual_seed(12)  # weights of one draw: others may put an activation so close to 0 that rounding decides
    ours, inputs, loss_of = zoo.MODELS[name](numod)
    theirs, other_inputs, other_loss_of = zoo.MODELS[name](torch)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    state = {key: numod.tensor(value.numpy()) for key, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    kind, options = OPTIMIZERS.get(name, ("SGD", {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}))
    mine = getattr(numod.optim, kind)(ours.parameters(), **options)
    other = getattr(torch.optim, kind)(theirs.parameters(), **options)
    for step in range(3):
        mine.zero_grad(), other.zero_grad()
        outputs, expected = ours(*inputs), theirs(*other_inputs)
        for a, b in zip(*(output if isinstance(output, tuple) else (output,) for output in (outputs, expected))):
            close(a.detach().numpy(), b.detach().numpy(), f"output of step {step}")
        loss, other_loss = loss_of(outputs), other_loss_of(expected)
        loss.backward(), other_loss.backward()
        if step == 0:
            most = max(float(b.grad.abs().max()) for b in theirs.parameters())
            # a bias before a norm has no gradient but rounding
            for (key, a), b in zip(ours.named_parameters(), theirs.parameters()):
                np.testing.assert_allclose(
                    a.grad.numpy(), b.grad.numpy(), rtol=2e-3, atol=1e-4 * most, err_msg=f"gradient of {key}"
                )
        mine.step(), other.step()
    for key, value in theirs.state_dict().items():
        if "bias" in key and kind != "SGD":
            continue  # biases whose gradients are zero but for rounding move by its sign
        # adaptive steps divide by what rounding moves
        close(ours.state_dict()[key].numpy(), value.numpy(), key, 1e-4 if kind == "SGD" else 1e-3)


@pytest.mark.parametrize("name", [name for name in zoo.MODELS if name not in ("alexnet",)])
def test_compiled(name: str) -> None:
    model, inputs, _ = zoo.MODELS[name](numod)
    model.eval()
    compiled = numod.compile(model)
    with numod.no_grad():
        expected = model(*inputs)
        for _ in range(3):
            actual = compiled(*inputs)
            for a, b in zip(*(output if isinstance(output, tuple) else (output,) for output in (actual, expected))):
                close(a.numpy(), b.numpy(), name, 1e-5)
