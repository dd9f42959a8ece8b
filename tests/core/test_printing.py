"""The text of a tensor against texts written out, and against PyTorch where it is installed."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import numod
from numod.core.printing import format_tensor, get_printoptions, set_printoptions

NAN, INF = math.nan, math.inf
DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}

# data, dtype (None: the one that the data implies), text
TEXTS = [
    pytest.param(7, None, "tensor(7)", id="scalar_int"),
    pytest.param(2.5, None, "tensor(2.5000)", id="scalar_float"),
    pytest.param(3.0, None, "tensor(3.)", id="scalar_whole_float"),
    pytest.param(True, None, "tensor(True)", id="scalar_bool"),
    pytest.param(NAN, None, "tensor(nan)", id="scalar_nan"),
    pytest.param(1e-05, "float64", "tensor(1.0000e-05, dtype=numod.float64)", id="scalar_float64"),
    pytest.param([1, 2, 3], None, "tensor([1, 2, 3])", id="int64"),
    pytest.param([-1, 20, 300], None, "tensor([ -1,  20, 300])", id="int64_negative"),
    pytest.param(
        [-(2**63), 2**63 - 1, 0],
        None,
        "tensor([-9223372036854775808,  9223372036854775807,                    0])",
        id="int64_extremes",
    ),
    pytest.param([1, -2, 3], "int32", "tensor([ 1, -2,  3], dtype=numod.int32)", id="int32"),
    pytest.param([-32768, 32767], "int16", "tensor([-32768,  32767], dtype=numod.int16)", id="int16"),
    pytest.param([-128, 0, 127], "int8", "tensor([-128,    0,  127], dtype=numod.int8)", id="int8"),
    pytest.param([0, 7, 255], "uint8", "tensor([  0,   7, 255], dtype=numod.uint8)", id="uint8"),
    pytest.param([True, False], None, "tensor([ True, False])", id="bool"),
    pytest.param([True, True], None, "tensor([True, True])", id="bool_all_true"),
    pytest.param([0.5, -1.25, 3.0], None, "tensor([ 0.5000, -1.2500,  3.0000])", id="float"),
    pytest.param([0.5, 0.1], "float64", "tensor([0.5000, 0.1000], dtype=numod.float64)", id="float64"),
    pytest.param([1.0, 20.0, -3.0], None, "tensor([ 1., 20., -3.])", id="whole"),
    pytest.param([0.0, 0.0], None, "tensor([0., 0.])", id="zeros"),
    pytest.param([-0.0, 1.0], None, "tensor([-0., 1.])", id="negative_zero"),
    pytest.param([0.12345678, 0.99999], None, "tensor([0.1235, 1.0000])", id="rounds"),
    pytest.param([NAN, INF, -INF, 1.5], None, "tensor([   nan,    inf,   -inf, 1.5000])", id="nan_and_infinity"),
    pytest.param([1.0, NAN, -INF], None, "tensor([1., nan, -inf])", id="whole_nan_and_infinity"),
    pytest.param([INF, -INF], None, "tensor([inf, -inf])", id="only_infinity"),
    pytest.param([0.001, 1.5, 10.0], None, "tensor([1.0000e-03, 1.5000e+00, 1.0000e+01])", id="scientific_ratio"),
    pytest.param([0.5, 500.0], None, "tensor([  0.5000, 500.0000])", id="ratio_of_a_thousand"),
    pytest.param([123456789.0, 2.0], None, "tensor([1.2346e+08, 2.0000e+00])", id="scientific_large"),
    pytest.param([0.00005, 0.00002], None, "tensor([5.0000e-05, 2.0000e-05])", id="scientific_small"),
    pytest.param([1.0, 10000.0], None, "tensor([1.0000e+00, 1.0000e+04])", id="scientific_whole"),
    pytest.param([1e10, NAN, 0.0], None, "tensor([1.0000e+10,        nan, 0.0000e+00])", id="scientific_nan"),
    pytest.param([1e8, 2e7], None, "tensor([100000000.,  20000000.])", id="whole_hundred_million"),
    pytest.param([], None, "tensor([])", id="empty"),
    pytest.param([], "int64", "tensor([], dtype=numod.int64)", id="empty_int64"),
    pytest.param(np.zeros((2, 0)), "float32", "tensor([], size=(2, 0))", id="empty_matrix"),
    pytest.param(np.zeros((0, 3, 2)), "bool", "tensor([], size=(0, 3, 2), dtype=numod.bool)", id="empty_bool_block"),
    pytest.param(
        [[1, 2], [3, 40]],
        None,
        """\
tensor([[ 1,  2],
        [ 3, 40]])""",
        id="matrix",
    ),
    pytest.param(
        [[0.5, -1.0], [2.0, 3.0]],
        None,
        """\
tensor([[ 0.5000, -1.0000],
        [ 2.0000,  3.0000]])""",
        id="matrix_float",
    ),
    pytest.param(
        np.arange(8).reshape(2, 2, 2),
        None,
        """\
tensor([[[0, 1],
         [2, 3]],

        [[4, 5],
         [6, 7]]])""",
        id="block",
    ),
    pytest.param(
        np.arange(8).reshape(2, 2, 1, 2),
        "float32",
        """\
tensor([[[[0., 1.]],

         [[2., 3.]]],


        [[[4., 5.]],

         [[6., 7.]]]])""",
        id="four_dimensions",
    ),
    pytest.param(
        [[1.5], [-2.5]],
        None,
        """\
tensor([[ 1.5000],
        [-2.5000]])""",
        id="column",
    ),
    pytest.param(
        np.arange(30),
        None,
        """\
tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])""",
        id="wrapped",
    ),
    pytest.param(
        np.arange(34).reshape(2, 17) / 8,
        "float32",
        """\
tensor([[0.0000, 0.1250, 0.2500, 0.3750, 0.5000, 0.6250, 0.7500, 0.8750, 1.0000,
         1.1250, 1.2500, 1.3750, 1.5000, 1.6250, 1.7500, 1.8750, 2.0000],
        [2.1250, 2.2500, 2.3750, 2.5000, 2.6250, 2.7500, 2.8750, 3.0000, 3.1250,
         3.2500, 3.3750, 3.5000, 3.6250, 3.7500, 3.8750, 4.0000, 4.1250]])""",
        id="wrapped_matrix",
    ),
    pytest.param(
        np.arange(8) / 8 - 1,
        "float64",
        """\
tensor([-1.0000, -0.8750, -0.7500, -0.6250, -0.5000, -0.3750, -0.2500, -0.1250],
       dtype=numod.float64)""",
        id="dtype_on_a_new_line",
    ),
    pytest.param(np.arange(1001), None, "tensor([   0,    1,    2,  ...,  998,  999, 1000])", id="summary"),
    pytest.param(
        np.arange(2000) / 4,
        "float32",
        """\
tensor([0.0000e+00, 2.5000e-01, 5.0000e-01,  ..., 4.9925e+02, 4.9950e+02,
        4.9975e+02])""",
        id="summary_float",
    ),
    pytest.param(
        np.arange(1600).reshape(40, 40),
        "int32",
        """\
tensor([[   0,    1,    2,  ...,   37,   38,   39],
        [  40,   41,   42,  ...,   77,   78,   79],
        [  80,   81,   82,  ...,  117,  118,  119],
        ...,
        [1480, 1481, 1482,  ..., 1517, 1518, 1519],
        [1520, 1521, 1522,  ..., 1557, 1558, 1559],
        [1560, 1561, 1562,  ..., 1597, 1598, 1599]], dtype=numod.int32)""",
        id="summary_matrix",
    ),
    pytest.param(
        np.arange(1200).reshape(400, 3),
        None,
        """\
tensor([[   0,    1,    2],
        [   3,    4,    5],
        [   6,    7,    8],
        ...,
        [1191, 1192, 1193],
        [1194, 1195, 1196],
        [1197, 1198, 1199]])""",
        id="summary_narrow",
    ),
    pytest.param(
        np.arange(1400).reshape(7, 1, 200),
        None,
        """\
tensor([[[   0,    1,    2,  ...,  197,  198,  199]],

        [[ 200,  201,  202,  ...,  397,  398,  399]],

        [[ 400,  401,  402,  ...,  597,  598,  599]],

        ...,

        [[ 800,  801,  802,  ...,  997,  998,  999]],

        [[1000, 1001, 1002,  ..., 1197, 1198, 1199]],

        [[1200, 1201, 1202,  ..., 1397, 1398, 1399]]])""",
        id="summary_block",
    ),
    pytest.param(
        np.where(np.arange(1100) == 500, 10**9, 1), None, "tensor([1, 1, 1,  ..., 1, 1, 1])", id="summary_hides_width"
    ),
]


@pytest.fixture(autouse=True)
def default_options():
    set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")


def tensor(data, dtype=None, **options):
    return numod.tensor(data, dtype=dtype and getattr(numod, dtype), **options)


@pytest.mark.parametrize("data, dtype, text", TEXTS)
def test_text(data, dtype, text):
    assert repr(tensor(data, dtype)) == text


def leaf(data, dtype="float32"):
    return tensor(data, dtype, requires_grad=True)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: leaf([1.0, 2.0]), "tensor([1., 2.], requires_grad=True)"),
        (lambda: leaf(1.5), "tensor(1.5000, requires_grad=True)"),
        (lambda: leaf(np.zeros((2, 0))), "tensor([], size=(2, 0), requires_grad=True)"),
        (lambda: leaf([1.0, 2.0]) + 1, "tensor([2., 3.], grad_fn=<AddBackward0>)"),
        (
            lambda: leaf([1.0, 2.0], "float64") * 0.5,
            "tensor([0.5000, 1.0000], dtype=numod.float64, grad_fn=<MulBackward0>)",
        ),
        (lambda: (leaf([1.0, 2.0]) + 1).detach(), "tensor([2., 3.])"),
        (
            lambda: leaf(np.arange(12)),
            "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11.],\n       requires_grad=True)",
        ),
    ],
)
def test_gradient_suffix(make, text):
    assert repr(make()) == text


@pytest.mark.parametrize(
    "options, data, text",
    [
        ({"precision": 2}, [0.125, 1.0], "tensor([0.12, 1.00])"),
        ({"precision": 0}, [0.75, 2.0], "tensor([1, 2])"),
        ({"sci_mode": True}, [1.0, 2.5], "tensor([1.0000e+00, 2.5000e+00])"),
        ({"sci_mode": False}, [1e-5, 1.0], "tensor([0.0000, 1.0000])"),
        ({"linewidth": 20}, np.arange(8), "tensor([0, 1, 2, 3,\n        4, 5, 6, 7])"),
        (
            {"edgeitems": 1, "threshold": 4},
            np.arange(12).reshape(3, 4),
            "tensor([[ 0,  ...,  3],\n        ...,\n        [ 8,  ..., 11]])",
        ),
        ({"edgeitems": 0, "threshold": 2}, [0, 1, 2], "tensor([...], size=(3,))"),
        ({"edgeitems": 0}, [], "tensor([])"),
        ({"profile": "short"}, np.arange(1001, dtype=np.float32) / 1000, "tensor([0.00, 0.00,  ..., 1.00, 1.00])"),
    ],
)
def test_options(options, data, text):
    set_printoptions(**options)
    assert repr(tensor(data)) == text


def test_options_are_kept_but_sci_mode_is_not():
    set_printoptions(precision=2, sci_mode=True)
    set_printoptions(linewidth=40)
    assert get_printoptions() == {**DEFAULTS, "precision": 2, "linewidth": 40}


def test_profile_comes_before_the_other_options():
    set_printoptions(linewidth=40)
    set_printoptions(profile="full", precision=7)
    assert get_printoptions() == {**DEFAULTS, "precision": 7, "threshold": INF}
    assert "..." not in repr(tensor(np.arange(1001)))


def test_options_read_are_a_copy():
    get_printoptions()["precision"] = 9
    assert get_printoptions() == DEFAULTS


def test_default_dtype_is_not_shown():
    assert format_tensor(tensor([0.5], "float64"), default_dtype="float64") == "tensor([0.5000])"
    assert format_tensor(tensor([0.5]), default_dtype="float64") == "tensor([0.5000], dtype=numod.float32)"


class Device(SimpleNamespace):
    def __str__(self):
        return self.name


class Dtype(SimpleNamespace):
    def __str__(self):
        return self.name


class Elsewhere:
    """What `format_tensor` may ask of a tensor, for devices and dtypes that this machine or numod may not have."""

    requires_grad, grad_fn, is_leaf = False, None, True

    def __init__(self, values, device="cpu", dtype="float32"):
        self.values = np.asarray(values)
        self.shape, self.ndim = self.values.shape, self.values.ndim
        self.device = Device(type=device.split(":")[0], name=device)
        self.dtype = Dtype(name=f"numod.{dtype}", is_floating_point="float" in dtype)

    def numel(self):
        return self.values.size

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return self

    def numpy(self):
        return self.values


@pytest.mark.parametrize(
    "values, device, dtype, text",
    [
        ([0.5], "cuda:0", "float32", "tensor([0.5000], device='cuda:0')"),
        ([1, 2], "cuda:1", "int32", "tensor([1, 2], device='cuda:1', dtype=numod.int32)"),
        (
            np.full(8, 0.5),
            "cuda:0",
            "float32",
            "tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000],\n       device='cuda:0')",
        ),
        (np.zeros((2, 3)), "meta", "float32", "tensor(..., device='meta', size=(2, 3))"),
        (np.zeros(2), "meta", "int64", "tensor(..., device='meta', size=(2,), dtype=numod.int64)"),
        (np.array([0.1, 1.5], np.float16), "cpu", "float16", "tensor([0.1000, 1.5000], dtype=numod.float16)"),
        ([0.10009765625], "cpu", "bfloat16", "tensor([0.1001], dtype=numod.bfloat16)"),
    ],
)
def test_device_and_half_precision(values, device, dtype, text):
    assert format_tensor(Elsewhere(values, device, dtype)) == text


def test_a_summary_formats_only_what_it_shows():
    values = np.broadcast_to(np.float32(1.5), (1 << 20, 1 << 20))  # far too many elements to visit
    text = format_tensor(Elsewhere(values))
    assert text.count("1.5000") == 36


NUMPY_DTYPES = [np.float32, np.float32, np.float64, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_]


def random_array(seed):
    """An array whose shape, dtype and kind of values are drawn so that every style of text is met."""
    random = np.random.default_rng(seed)
    dtype = random.choice(NUMPY_DTYPES)
    largest = (1, 1500, 45, 12, 4)[ndim := random.integers(0, 5)]
    shape = tuple(random.integers(0 if random.random() < 0.1 else 1, largest, ndim, endpoint=True).tolist())
    values = random.standard_normal(shape) * 10.0 ** random.integers(-6, 10)
    if random.random() < 0.4:
        values = np.round(random.standard_normal(shape) * 10.0 ** random.integers(0, 4))
    if np.issubdtype(dtype, np.floating):
        special = random.choice([NAN, INF, -INF, 0.0, -0.0], shape)
        return np.asarray(np.where(random.random(shape) < random.choice([0.0, 0.2, 1.0]), special, values), dtype)
    limits = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max // 2)
    return np.asarray(np.clip(values, *limits)).astype(dtype)


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(200))
def test_same_text_as_pytorch(seed):
    torch = pytest.importorskip("torch")
    array = random_array(seed)
    expected = repr(torch.from_numpy(array.copy())).replace("torch.", "numod.")
    assert repr(numod.from_numpy(array)) == expected
