"""Values derived from the data of tensors: every write is seen, in eager mode and by compiled functions."""

import copy
import os

import numpy as np
import pytest
from selection import diagonals

import numod as torch
from numod import nn
from numod.ao import quantization
from numod.ao.nn import quantized as nnq
from numod.core import derived as core_derived
from numod.core.derived import derived
from numod.device import storage

WRITES = {
    "fill_": lambda x: x.fill_(7),
    "copy_": lambda x: x.copy_(torch.full_like(x, 7)),
    "through data": lambda x: x.data.fill_(7),
    "assigned data": lambda x: setattr(x, "data", torch.full_like(x, 7)),
    "set_": lambda x: x.set_(torch.full_like(x, 7)),
    "through a view": lambda x: x.view(-1)[:2].fill_(7),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("position", [0, 1])
def test_a_value_is_computed_once_for_each_state(write, position):
    tensors, calls = (torch.ones(3), torch.ones(3)), []

    def value():
        return derived(
            tensors[0], "sum", lambda: calls.append(None) or sum(x.sum().item() for x in tensors), tensors[1]
        )

    assert value() == value() == 6 and len(calls) == 1
    write(tensors[position])
    assert value() == value() == sum(x.sum().item() for x in tensors) > 6 and len(calls) == 2


def test_a_tensor_keeps_few_values_and_does_not_pass_them_on():
    x = torch.ones(3)
    assert [derived(x, key, lambda key=key: key) for key in range(20)] == [*range(20)]
    assert len(x._derived) == 8 and "_derived" not in vars(x)
    assert copy.deepcopy(x)._derived is None and x.detach()._derived is None


def test_writes_through_data_of_other_tensors_make_nothing_anew():
    x, other, calls = torch.ones(3), torch.ones(3), []
    for _ in range(3):
        derived(x, "sum", lambda: calls.append(None))
        other.data.fill_(2)
        other.data.view(-1)[0].fill_(4)
    assert len(calls) == 1


BORROWERS = {
    "numpy": lambda x: x.numpy(),
    "a view of numpy's": lambda x: x.numpy()[1:].reshape(-1),
    "asarray": np.asarray,
    "dlpack": np.from_dlpack,
    "memoryview": lambda x: memoryview(x.numpy()),
    "from_numpy": lambda x: torch.from_numpy(x.numpy()),
    "from_dlpack": lambda x: torch.from_dlpack(np.from_dlpack(x)),
    "another dtype": lambda x: x.view(torch.int32).view(torch.float32),
    "numpy of another dtype": lambda x: x.view(torch.int32).numpy().view(np.float32),
    "numpy of a view": lambda x: x[:2].numpy(),
    "storage": lambda x: x.storage(),
}


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("borrow", BORROWERS.values(), ids=BORROWERS)
def test_writes_to_lent_memory_are_seen(borrow, is_early):
    x, calls = torch.ones(3), []

    def value():
        return derived(x, "sum", lambda: calls.append(None) or x.sum().item())

    early = borrow(x) if is_early else None
    assert value() == 3
    borrower = borrow(x)
    for number in (5, 6, 7):
        assert value() == value()
        borrower[0] = float(number)
        assert value() == value() == number + (x.sum().item() - number)
    count = len(calls)
    assert value() and len(calls) == count  # unchanged memory is compared, not computed from again
    del borrower, early
    value(), value()
    assert len(calls) <= count + 1
    x.fill_(4)
    assert value() == 12


@pytest.mark.parametrize("borrow", [lambda x: x.numpy(), np.from_dlpack])
def test_memory_is_returned_with_the_last_array(borrow):
    x = torch.ones(3)
    derived(x, "sum", lambda: x.sum().item())
    array = borrow(x)
    derived(x, "sum", lambda: x.sum().item())
    assert x._storage.lent
    array[0] = 5
    del array
    assert derived(x, "sum", lambda: x.sum().item()) == 7 and not x._storage.lent


def test_memory_of_other_libraries_is_compared_each_time():
    array = np.ones(3)
    x = torch.from_numpy(array)
    calls = []
    assert [derived(x, "sum", lambda: calls.append(None) or x.sum().item()) for _ in range(3)] == [3] * 3
    array[:] = 2
    assert [derived(x, "sum", lambda: calls.append(None) or x.sum().item()) for _ in range(3)] == [6] * 3
    assert len(calls) == 2
    del array
    derived(x, "sum", lambda: x.sum().item())
    assert not x._storage.lent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("is_early", [True, False])
def test_writes_of_other_processes_to_shared_memory_are_seen(is_early):
    x = torch.ones(3)
    if is_early:
        x.share_memory_()
    assert derived(x, "sum", lambda: x.sum().item()) == 3
    x.share_memory_()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(5)
    process = os.fork()
    if not process:
        x.fill_(5)
        os._exit(0)
    os.waitpid(process, 0)
    assert derived(x, "sum", lambda: x.sum().item()) == 15


class AfterQuantize(nn.Module):
    """A layer for integers, as a function of floats."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(torch.quantize_per_tensor(x, 0.03, 5, torch.quint8)).dequantize()


def weight_of(*shape, axis=0):
    count = shape[axis]
    scales, zeros = torch.linspace(0.01, 0.03, count), torch.zeros(count, dtype=torch.int64)
    return torch.quantize_per_channel(torch.randn(*shape), scales, zeros, axis, torch.qint8)


def static(layer, weight):
    layer.set_weight_bias(weight, torch.randn(6))
    layer.scale, layer.zero_point = 0.05, 3
    return AfterQuantize(layer), layer.weight(), layer.bias()


def linear():
    return *static(nnq.Linear(8, 6), weight_of(6, 8)), torch.randn(3, 8)


def convolution():
    return *static(nnq.Conv2d(4, 6, 3), weight_of(6, 4, 3, 3)), torch.randn(2, 4, 6, 6)


def transposed_convolution():
    layer = nnq.ConvTranspose2d(4, 6, 3, stride=2)
    return *static(layer, weight_of(4, 6, 3, 3, axis=1)), torch.randn(2, 4, 6, 6)


def dynamic_linear():
    layer = nnq.dynamic.Linear(8, 6)
    layer.set_weight_bias(weight_of(6, 8), torch.randn(6))
    return layer, layer.weight(), layer.bias(), torch.randn(3, 8)


def dynamic_lstm():
    layer = quantization.quantize_dynamic(nn.Sequential(nn.LSTM(8, 6)), {nn.LSTM})[0]
    return layer, layer.weight_hh_l0, layer.bias_hh_l0, torch.randn(3, 2, 8)


def quantize():
    layer = nnq.Quantize(0.05, 3, torch.quint8)
    return nn.Sequential(layer, nnq.DeQuantize()), layer.scale, layer.zero_point, torch.randn(3, 8)


LAYERS = [linear, convolution, transposed_convolution, dynamic_linear, dynamic_lstm, quantize]
CHANGES = {
    "integers": lambda weight, bias: getattr(weight, "_integers", weight).fill_(7),
    "integers through data": lambda weight, bias: getattr(weight, "_integers", weight).data.fill_(7),
    "integers through NumPy": lambda weight, bias: getattr(weight, "_integers", weight).numpy().fill(7),
    "integers through DLPack": lambda weight, bias: torch.from_dlpack(
        np.from_dlpack(getattr(weight, "_integers", weight))
    ).fill_(7),
    "scales through NumPy": lambda weight, bias: scale_of(weight).numpy().__imul__(3),
    "scales": lambda weight, bias: scale_of(weight).mul_(3),
    "scales through data": lambda weight, bias: scale_of(weight).data.mul_(3),
    "bias": lambda weight, bias: bias.add_(2),
    "a bias that the sums have no room for": lambda weight, bias: bias.data.copy_(bias * 3e9),
}
MODES = {
    "eager": lambda layer: layer,
    "compiled": lambda layer: torch.compile(layer, fullgraph=True),
    "frozen": lambda layer: torch.compile(layer, fullgraph=True, options={"freezing": True}),
}
CASES = [
    (make, change)
    for make in LAYERS
    for change in CHANGES
    if make is not quantize or not change.startswith("a bias")  # a zero point has a range
]


def _case_name(value):
    return value if isinstance(value, str) else f"{value[0].__name__}-{value[1]}"


def scale_of(weight):
    if not weight.is_quantized:
        return weight
    return weight.q_per_channel_scales() if weight.qscheme() is torch.per_channel_affine else torch.ones(1)


def values(result):
    result = result[0] if isinstance(result, tuple) else result
    return result.dequantize().clone()


@pytest.mark.parametrize("case, mode", diagonals(CASES, list(MODES), 2, others=pytest.mark.fuzz), ids=_case_name)
@torch.no_grad()
def test_a_layer_that_was_called_sees_writes(case, mode):
    make, change = case
    torch.manual_seed(0)
    layer, weight, bias, x = make()
    layer(x)  # the cached values of this call must not become constants of a program
    call = MODES[mode](layer)
    assert values(call(x)).equal(values(layer(x)))
    CHANGES[change](weight, bias)
    assert values(call(x)).equal(values(copy.deepcopy(layer)(x)))


BUFFER_WRITES = {
    "in place": lambda layer: layer.scale.mul_(3),
    "through data": lambda layer: layer.scale.data.mul_(3),
    "assigned data": lambda layer: setattr(layer.scale, "data", layer.scale * 3),
    "set_": lambda layer: layer.scale.set_(layer.scale * 3),
    "replaced": lambda layer: setattr(layer, "scale", layer.scale * 3),
    "loaded": lambda layer: layer.load_state_dict({**layer.state_dict(), "scale": layer.scale * 3}),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("write", BUFFER_WRITES.values(), ids=BUFFER_WRITES)
@pytest.mark.parametrize("is_called", [True, False])
def test_a_new_scale_counts(write, mode, is_called):
    layer, x = nnq.Quantize(0.05, 3, torch.quint8), torch.linspace(-1, 1, 9)
    if is_called:
        layer(x)
    call = mode(nn.Sequential(layer, nnq.DeQuantize()))
    before = call(x).clone()
    write(layer)
    expected = torch.quantize_per_tensor(x, 0.15, 3, torch.quint8).dequantize()
    assert call(x).equal(expected) and not before.equal(expected)


def test_a_scale_that_the_compiled_function_writes_is_not_a_setting():
    layer, x = nnq.Quantize(0.05, 3, torch.quint8), torch.linspace(-1, 1, 9)

    def double_and_quantize(x):
        layer.scale.mul_(2)
        return layer(x).dequantize()

    with pytest.raises(RuntimeError, match="a layer at .* reads a tensor's value"):
        torch.compile(double_and_quantize, fullgraph=True)(x)


@pytest.mark.parametrize("kind", ["linear", "conv", "transposed"])
def test_weights_that_share_integers_have_their_scales(kind):
    """`mul_scalar` returns a tensor over the same integers."""
    torch.manual_seed(0)
    shape = (6, 4) if kind == "linear" else (4, 4, 3, 3)
    weight = torch.quantize_per_tensor(torch.randn(*shape), 0.01, 0, torch.qint8)
    x = torch.quantize_per_tensor(torch.randn(2, 4, *(5,) * (len(shape) - 2)), 0.05, 128, torch.quint8)
    layer = {
        "linear": nnq.Linear(4, 6), "conv": nnq.Conv2d(4, 4, 3), "transposed": nnq.ConvTranspose2d(4, 4, 3, stride=2),
    }[kind]  # fmt: skip
    results = []
    for scaled, factor in ((weight, 1.0), (nnq.QFunctional().mul_scalar(weight, 2.0), 2.0)):
        layer.set_weight_bias(scaled, None)
        layer.scale, layer.zero_point = 0.05 * factor, 128
        results.append(layer(x).int_repr())
    assert results[0].equal(results[1])


def test_an_array_that_another_thread_makes_while_memory_is_returned(monkeypatch):
    tensor, arrays = torch.zeros(4), []
    tensor.numpy()  # lent, and returned at once

    def is_returned(memory):
        result = storage.is_returned(memory)
        arrays.append(tensor.numpy())
        return result

    monkeypatch.setattr(core_derived, "is_returned", is_returned)
    core_derived.settle([tensor._storage])
    assert tensor._storage.lent and core_derived.lent_bytes([tensor._storage])
    monkeypatch.undo()
    arrays.clear()
    core_derived.settle([tensor._storage])
    assert not tensor._storage.lent
