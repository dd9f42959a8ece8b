"""The networks of `networks` in JAX: a function per class of module, over the same weights.

Only what those networks need, in evaluation.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax


def weights(module: object) -> dict[str, jax.Array]:
    """The module's parameters and buffers by their names."""
    return {name: jnp.asarray(tensor.detach().numpy()) for name, tensor in module.state_dict().items()}


def forward(module: object, p: dict[str, jax.Array], *inputs: jax.Array, at: str = "") -> object:
    """What `module` computes, with the weights `p`. `at`: where the module stands in the network."""

    def inside(name: str, *values: jax.Array) -> object:
        return forward(module.get_submodule(name), p, *values, at=f"{at}{name}.")

    return FORWARD[type(module).__name__](module, lambda name: p.get(f"{at}{name}"), inside, *inputs)


def _sequential(module: object, weight: Callable, inside: Callable, x: jax.Array) -> jax.Array:
    for name, _ in module.named_children():
        x = inside(name, x)
    return x


def _linear(module: object, weight: Callable, inside: Callable, x: jax.Array) -> jax.Array:
    product = x @ weight("weight").T
    return product if weight("bias") is None else product + weight("bias")


def _conv2d(module: object, weight: Callable, inside: Callable, x: jax.Array) -> jax.Array:
    product = lax.conv_general_dilated(
        x,
        weight("weight"),
        module.stride,
        [(size, size) for size in module.padding],
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )
    return product if weight("bias") is None else product + weight("bias")[:, None, None]


def _average(module: object, weight: Callable, inside: Callable, x: jax.Array) -> jax.Array:
    window = (1, 1, module.kernel_size, module.kernel_size)
    return lax.reduce_window(x, 0.0, lax.add, window, window, "VALID") / module.kernel_size**2


def _batch_norm(module: object, weight: Callable, inside: Callable, x: jax.Array) -> jax.Array:
    scale = weight("weight") * lax.rsqrt(weight("running_var") + module.eps)
    return x * scale[:, None, None] + (weight("bias") - weight("running_mean") * scale)[:, None, None]


def _layer_norm(module: object, weight: Callable, inside: Callable, x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + module.eps) * weight(
        "weight"
    ) + weight("bias")


def _basic_block(module: object, weight: Callable, inside: Callable, x: jax.Array) -> jax.Array:
    out = jax.nn.relu(inside("bn1", inside("conv1", x)))
    return jax.nn.relu(inside("bn2", inside("conv2", out)) + inside("shortcut", x))


def _lstm_cell(
    module: object, weight: Callable, inside: Callable, x: jax.Array, hidden: jax.Array, state: jax.Array
) -> tuple:
    gates = (
        x @ weight("cell.weight_ih").T
        + weight("cell.bias_ih")
        + hidden @ weight("cell.weight_hh").T
        + weight("cell.bias_hh")
    )
    i, f, g, o = jnp.split(gates, 4, axis=1)
    state = jax.nn.sigmoid(f) * state + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(state), state


def _gru(module: object, weight: Callable, inside: Callable, x: jax.Array) -> jax.Array:
    starts, (kernel, bias) = (
        x @ weight("gru.weight_ih_l0").T + weight("gru.bias_ih_l0"),
        (weight("gru.weight_hh_l0").T, weight("gru.bias_hh_l0")),
    )

    def step(hidden: jax.Array, row: jax.Array) -> tuple:
        (r, z, n), (hr, hz, hn) = jnp.split(row, 3, axis=1), jnp.split(hidden @ kernel + bias, 3, axis=1)
        z = jax.nn.sigmoid(z + hz)
        hidden = (1 - z) * jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn) + z * hidden
        return hidden, hidden

    return lax.scan(step, jnp.zeros(x.shape[1:2] + kernel.shape[:1]), starts)[1]


def _block(module: object, weight: Callable, inside: Callable, x: jax.Array, *cache: jax.Array) -> tuple:
    batch, steps, size = x.shape
    q, k, v = (
        word.reshape(batch, steps, module.heads, -1).transpose(0, 2, 1, 3)
        for word in jnp.split(inside("c_attn", inside("ln_1", x)), 3, axis=2)
    )
    k, v = (jnp.concatenate(pair, axis=2) for pair in zip(cache, (k, v))) if cache else (k, v)
    scores = q @ k.swapaxes(2, 3) * (size // module.heads) ** -0.5
    scores = scores if cache else jnp.where(weight("mask"), -jnp.inf, scores)
    x = x + inside("c_proj", (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape))
    return x + inside("mlp", inside("ln_2", x)), k, v


def _gpt(
    module: object, weight: Callable, inside: Callable, token: jax.Array, position: jax.Array, *cache: jax.Array
) -> object:
    x, attention_caches = inside("tokens", token) + inside("positions", position), []
    for number in range(len(module.blocks)):
        x, *both = inside(f"blocks.{number}", x, *cache[2 * number : 2 * number + 2])
        attention_caches += both
    scores = inside("head", inside("norm", x))
    return (scores, *attention_caches) if cache else scores


FORWARD = {
    "Sequential": _sequential, "Linear": _linear, "Conv2d": _conv2d, "AvgPool2d": _average, "BatchNorm2d": _batch_norm,
    "LayerNorm": _layer_norm,
    "Tanh": lambda module, weight, inside, x: jnp.tanh(x), "ReLU": lambda module, weight, inside, x: jax.nn.relu(x),
    "GELU": lambda module, weight, inside, x: jax.nn.gelu(x), "Flatten": lambda module, weight, inside,
    x: x.reshape(len(x), -1),
    "Embedding": lambda module, weight, inside, x: weight("weight")[x], "BasicBlock": _basic_block, "Cell": _lstm_cell,
    "Sequence": _gru,
    "Block": _block, "GPT": _gpt, "ActorCritic": lambda module, weight, inside,
    x: (inside("actor", x), inside("critic", x)),
}  # fmt: skip
