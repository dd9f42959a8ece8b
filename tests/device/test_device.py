"""numod.device: its forms, equality and text; layouts and sizes."""

import copy
import pickle
import sys

import pytest

import numod
from numod.device import Size
from numod.device.layout import dense_strides, layout

CPU, layouts = numod.device("cpu"), sys.modules["numod.device.layout"]


# ---- devices


@pytest.mark.parametrize(
    ("arguments", "text", "representation"),
    [
        (("cpu",), "cpu", "device(type='cpu')"),
        (("cuda", 1), "cuda:1", "device(type='cuda', index=1)"),
        (("cuda:1",), "cuda:1", "device(type='cuda', index=1)"),
        ((1,), "cuda:1", "device(type='cuda', index=1)"),
    ],
)
def test_forms(arguments, text, representation):
    device = numod.device(*arguments)
    assert str(device) == text and repr(device) == representation
    assert device == numod.device(device) and hash(device) == hash(numod.device(*arguments))


@pytest.mark.parametrize("wrong", ["gpu", "", "cuda:", "cuda:x", "cuda:-1", "cpu:a", "cuda:1:2"])
def test_unknown_devices_are_refused(wrong):
    with pytest.raises(RuntimeError):
        numod.device(wrong)


@pytest.mark.parametrize("wrong", [None, 1.5, [], b"cpu"])
def test_invalid_device_names_are_refused(wrong):
    with pytest.raises(TypeError):
        numod.device(wrong)


def test_an_index_given_twice_is_refused():
    with pytest.raises(RuntimeError):
        numod.device("cuda:1", 1)


def test_a_negative_index_is_refused():
    with pytest.raises(RuntimeError):
        numod.device("cuda", -2)


def test_devices_are_values():
    a, b = numod.device("cuda:1"), numod.device("cuda", 1)
    assert a == b and len({a, b}) == 1 and a != numod.device("cuda:0") and a != CPU
    assert pickle.loads(pickle.dumps(a)) == copy.deepcopy(a) == a


def test_asking_for_a_name_does_not_need_the_hardware():
    assert numod.device("cuda:7").type == "cuda" and numod.device("cuda:7").index == 7


def test_tensors_know_their_device():
    x = numod.zeros(2, device="cpu")
    assert x.device == CPU and x.device.type == "cpu" and not x.is_cuda
    assert x.to("cpu") is x and x.to(CPU) is x and x.cpu() is x


# ---- sizes


def test_a_size_is_a_tuple():
    size = numod.zeros(2, 3, 4).shape
    assert size == (2, 3, 4) and isinstance(size, tuple) and isinstance(size, Size)
    assert size.numel() == 24 and Size([]).numel() == 1
    assert isinstance(size[1:], Size) and size[-1] == 4 and isinstance(size + (5,), Size)
    assert repr(size) == "numod.Size([2, 3, 4])" and str(size) == repr(size)
    assert hash(size) == hash((2, 3, 4)) and pickle.loads(pickle.dumps(size)) == size
    first, *rest = size
    assert first == 2 and rest == [3, 4]


# ---- layouts


def make(shape, strides=None, dtype=numod.float32):
    return layout(shape, dtype, CPU, strides)


def test_layouts_are_interned():
    assert make((2, 3)) is make((2, 3)) is make((2, 3), (3, 1))
    assert make((2, 3)) is not make((2, 3), dtype=numod.float64) and make((2, 3)) is not make((2, 3), (1, 2))


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((4,), (1,)), ((2, 3), (3, 1)), ((2, 0, 3), (3, 3, 1)), ((1, 5, 1), (5, 1, 1))]
)
def test_dense_strides(shape, strides):
    assert dense_strides(shape) == strides and make(shape).dense


@pytest.mark.parametrize(
    ("shape", "strides", "dense", "packed", "overlapping", "extent"),
    [
        ((2, 3), (3, 1), True, True, False, 6),
        ((2, 3), (1, 2), False, True, False, 6),
        ((2, 3), (6, 2), False, False, False, 11),
        ((2, 3), (0, 1), False, False, True, 3),
        ((2, 3), (1, 1), False, False, True, 4),
        ((1, 3), (0, 1), True, True, False, 3),
        ((2, 1, 3), (3, 99, 1), True, True, False, 6),
        ((0, 3), (7, 7), True, True, False, 0),
        ((), (), True, True, False, 1),
    ],
)
def test_properties_of_a_layout(shape, strides, dense, packed, overlapping, extent):
    result = make(shape, strides)
    assert (result.dense, result.packed, result.overlapping, result.extent) == (dense, packed, overlapping, extent)


def test_the_table_of_layouts_is_bounded():
    """A program of ever new shapes does not grow without limit, and still computes."""
    from numod.device import layout as module

    for n in range(module._MAX_LAYOUTS + 10):
        make((n, 1))
    assert len(module._interned) <= module._MAX_LAYOUTS + 2
    x = numod.ones(3)
    assert (x + numod.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert x.add_(x[:]).tolist() == [2.0, 2.0, 2.0]


def test_two_threads_that_ask_for_a_layout_get_one(monkeypatch):
    made = []

    class Slow(layouts.Layout):
        __slots__ = ()

        def __init__(self, *properties):
            if not made:
                made.append(None)
                made.append(layout((3, 977), numod.float32, CPU))  # another thread comes in between
            super().__init__(*properties)

    monkeypatch.setattr(layouts, "Layout", Slow)
    monkeypatch.setattr(layouts, "_interned", {})
    assert layout((3, 977), numod.float32, CPU) is made[1] is layout((3, 977), numod.float32, CPU)
