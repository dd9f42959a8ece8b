"""What layers and losses refuse, in PyTorch's words and with its types, whichever of several faults comes first."""

import numpy as np
import pytest

import numod as torch
import numod.nn.functional as F
from numod import nn

ONE = torch.zeros(1, 1, 4)
GRADIENT = torch.ones((), requires_grad=True)


def attention_with(bias_k=None, bias_v=None):
    weights = torch.zeros(12, 4), torch.zeros(12), bias_k, bias_v, False, 0.0, torch.zeros(4, 4), torch.zeros(4)
    return F.multi_head_attention_forward(ONE, ONE, ONE, 4, 2, *weights)


CASES = [
    (RuntimeError, "pad must be non-negative", lambda: F.max_pool1d(ONE, 2, padding=-1)),
    (
        RuntimeError,
        "pad should be at most half of effective kernel size, but got pad=4, kernel_size=2",
        lambda: F.avg_pool2d(torch.zeros(0, 1, 49), 2, padding=4),
    ),
    (RuntimeError, "stride must be greater than zero, but got 0", lambda: F.max_pool1d(ONE, 1, 0)),
    (RuntimeError, "dilation must be greater than zero, but got 0", lambda: F.max_pool1d(ONE, 1, 1, 0, 0)),
    (ValueError, "Input dimension should be at least 3", lambda: F.adaptive_avg_pool2d(torch.zeros(2, 2), (2, 2))),
    (RuntimeError, "Trying to create tensor with negative dimension -1", lambda: F.adaptive_max_pool1d(ONE, (-1,))),
    (RuntimeError, "'output_size' should contain one int", lambda: F.adaptive_avg_pool1d(ONE, ())),
    (
        RuntimeError,
        "internal error: output_size.size\\(\\) must be 2",
        lambda: F.adaptive_max_pool2d(torch.zeros(1, 2, 3, 4), ()),
    ),
    (TypeError, "'output_size' .*must be int or tuple of ints", lambda: F.adaptive_avg_pool1d(ONE, None)),
    (TypeError, "'output_size'", lambda: F.adaptive_max_pool2d(torch.zeros(1, 2, 3, 4), True)),
    (TypeError, "'output_size'", lambda: F.adaptive_avg_pool1d(ONE, (2.0,))),
    (TypeError, "'stride'", lambda: F.avg_pool2d(torch.zeros(1, 2, 3, 4), 2, 2.0)),
    (TypeError, "'padding'", lambda: F.max_pool2d(torch.zeros(1, 2, 3, 4), 2, 2, (True, 1))),
    (TypeError, "'stride'", lambda: F.conv1d(ONE, torch.zeros(1, 1, 2), stride=2.0)),
    (TypeError, "'dilation'", lambda: F.conv1d(ONE, torch.zeros(1, 1, 2), dilation=(1.0,))),
    (RuntimeError, "Expected 3D or 4D tensor", lambda: F.fractional_max_pool2d(torch.zeros(3, 4), 2, 2)),
    (RuntimeError, "non-zero size", lambda: F.fractional_max_pool2d(torch.zeros(2, 0, 3, 4), 2, 2)),
    (
        RuntimeError,
        "sizes must be greater than zero",
        lambda: F.fractional_max_pool2d(torch.zeros(1, 2, 3, 4), (0, 1), 2),
    ),
    (ValueError, "None is not a valid value for reduction", lambda: F.l1_loss(ONE, ONE, reduction=None)),
    (ValueError, "3 is not a valid value for reduction", lambda: F.binary_cross_entropy(ONE, ONE, reduction=3)),
    (RuntimeError, "non-positive values for delta", lambda: F.huber_loss(ONE, ONE, delta=float("nan"))),
    (RuntimeError, "between 0 and 1, but got nan", lambda: F.dropout(ONE, float("nan"))),
    (RuntimeError, "eps must be non-negative", lambda: F.cosine_similarity(ONE, ONE, eps=-1.0)),
    (RuntimeError, "non-positive stride is not supported", lambda: F.conv1d(ONE, torch.zeros(1, 2, 2), stride=-1)),
    (RuntimeError, "negative padding is not supported", lambda: F.conv1d(ONE, torch.zeros(1, 2, 2), padding=-1)),
    (
        RuntimeError,
        "dilation should be greater than zero",
        lambda: F.conv_transpose1d(ONE, torch.zeros(1, 1, 2), dilation=-1),
    ),
    (
        RuntimeError,
        "non-positive stride is not supported",
        lambda: F.conv_transpose1d(ONE, torch.zeros(1, 1, 2), stride=0),
    ),
    (
        RuntimeError,
        "negative padding is not supported",
        lambda: F.conv_transpose1d(ONE, torch.zeros(1, 1, 2), padding=-1),
    ),
    (
        RuntimeError,
        "negative output_padding is not supported",
        lambda: F.conv_transpose1d(ONE, torch.zeros(1, 1, 2), output_padding=-1),
    ),
    (
        RuntimeError,
        "expected stride to be a single integer value or a list of 2",
        lambda: F.unfold(torch.zeros(1, 4, 4), 2, stride=(2, 2, 2)),
    ),
    (
        RuntimeError,
        "expected kernel_size to be a single integer value or a list of 2",
        lambda: F.fold(torch.zeros(4, 9), 4, ()),
    ),
    (
        RuntimeError,
        "weight should contain 3 elements not 1",
        lambda: F.instance_norm(torch.zeros(2, 3, 4), weight=torch.zeros(1)),
    ),
    (
        RuntimeError,
        "running_mean should contain 3 elements not 2",
        lambda: F.instance_norm(torch.zeros(2, 3, 4), torch.zeros(2), torch.zeros(3)),
    ),
    (
        RuntimeError,
        "bias size does not match weight size",
        lambda: F.bilinear(torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(5, 3, 4), torch.zeros(1)),
    ),
    (
        ValueError,
        "var is of incorrect size",
        lambda: F.gaussian_nll_loss(torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2, 2, 3)),
    ),
    (RuntimeError, "weight should have at least three dimensions", lambda: F.conv1d(ONE, torch.zeros(1, 2))),
    (
        RuntimeError,
        "Expected 3-dimensional input for 3-dimensional weight",
        lambda: F.conv2d(torch.zeros(1, 1, 4, 3), torch.zeros(1, 2, 2)),
    ),
    (
        RuntimeError,
        "expected weight to be at least 3 at dimension 0",
        lambda: F.conv1d(torch.zeros(2, 2, 4), torch.zeros(2, 2, 2), groups=3),
    ),
    (
        RuntimeError,
        "should be the same",
        lambda: F.conv1d(ONE, torch.zeros(1, 1, 2), torch.zeros(1, dtype=torch.float64)),
    ),
    (
        RuntimeError,
        "Expected non-empty vector or matrix",
        lambda: F.multi_margin_loss(torch.zeros(5, 0), torch.zeros(5)),
    ),
    (
        RuntimeError,
        r"target tensor should be 1-D with size equal to.*Expected target size \[5\]",
        lambda: F.multi_margin_loss(torch.zeros(5, 4), torch.zeros(5, 4)),
    ),
    (
        ValueError,
        "weight must be one-dimensional",
        lambda: F.multi_margin_loss(torch.zeros(5, 4), torch.zeros(5), weight=torch.tensor(1.0)),
    ),
    (
        ValueError,
        "abc is not a valid value for reduction",
        lambda: F.multilabel_margin_loss(torch.zeros(5, 4), torch.zeros(5, 4), reduction="abc"),
    ),
    (
        RuntimeError,
        r"inconsistent target size: \[4\] for input of size: \[5, 4\]",
        lambda: F.multilabel_margin_loss(torch.zeros(5, 4), torch.zeros(4)),
    ),
    (RuntimeError, "Not allow zero-dim input tensor.", lambda: F.prelu(torch.tensor(1.0), torch.zeros(2))),
    (
        RuntimeError,
        r"lambda must be in range \[0, 3.40282e\+38\] for input dtype Float, but found -0.5",
        lambda: F.softshrink(ONE, -0.5),
    ),
    (
        RuntimeError,
        "1D tensors expected, but got 2D and 1D tensors",
        lambda: torch.dot(torch.zeros(1, 1), torch.zeros(3)),
    ),
    (
        RuntimeError,
        "dot : expected both vectors to have same dtype, but found Float and Half",
        lambda: torch.dot(torch.zeros(1), torch.zeros(3).half()),
    ),
    (
        RuntimeError,
        r"inconsistent tensor size, expected tensor \[9\] and src \[3\]",
        lambda: torch.vdot(torch.zeros(9), torch.zeros(3)),
    ),
    (
        RuntimeError,
        r"size \{\[3, 5\]\} is not expandable to size \{\[3, 4\]\}",
        lambda: torch.zeros(3, 4).sum_to_size(3, 5),
    ),
    (
        RuntimeError,
        "dim 1 appears multiple times in the list of dims",
        lambda: torch.gradient(torch.zeros(3, 3), dim=(1, 1)),
    ),
    (
        ValueError,
        "batch_norm eps must be positive during training, but got -1.0",
        lambda: nn.BatchNorm1d(10, eps=-1.0)(torch.zeros(2, 10)),
    ),
    (TypeError, "bias should be of type bool, got: int", lambda: nn.GRU(3, 5, bias=0)),
    (TypeError, "input_size should be of type int, got: float", lambda: nn.LSTM(3.0, 5)),
    (ValueError, "input_size must be greater than zero", lambda: nn.RNN(-1, 5)),
    (
        ValueError,
        "RNN input dtype .* does not match weight dtype .* Convert input: input.to",
        lambda: nn.GRU(3, 5)(torch.zeros(2, 4, 3, dtype=torch.float64)),
    ),
    (ValueError, r"expected 2D or 3D input \(got 4D input\)", lambda: nn.CircularPad1d(3)(torch.zeros(2, 3, 4, 5))),
    (
        RuntimeError,
        "expected target dtype to be Long or Byte",
        lambda: F.cross_entropy(torch.zeros(2, 3), torch.zeros(2)),
    ),
    (
        RuntimeError,
        "Expected target size",
        lambda: F.cross_entropy(torch.zeros(2, 3, 5), torch.zeros(2, 4, dtype=torch.int64)),
    ),
    (
        RuntimeError,
        r"got \[2, 1\], for input \[2, 3\]; remove the dimension of one: target.squeeze\(1\)",
        lambda: F.cross_entropy(torch.zeros(2, 3), torch.zeros(2, 1, dtype=torch.int64)),
    ),
    (
        RuntimeError,
        r"got Long; for one-hot targets use target.argmax\(1\) or target.float\(\)",
        lambda: F.cross_entropy(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.int64)),
    ),
    (
        RuntimeError,
        r"a loss module takes its options first and then its inputs, as in loss = nn.MSELoss\(\)",
        lambda: nn.CrossEntropyLoss(torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64)),
    ),
    (
        RuntimeError,
        r"non-empty 3D or 4D \(batch mode\) tensor expected for input",
        lambda: nn.MaxPool2d(2)(torch.zeros(3, 4)),
    ),
    (
        RuntimeError,
        r"shape \[4\] doesn't match the broadcast shape \[2, 4\]",
        lambda: F.soft_margin_loss(torch.zeros(4), torch.ones(2, 4)),
    ),
    (
        RuntimeError,
        "doesn't match the broadcast shape",
        lambda: F.binary_cross_entropy(ONE, ONE, weight=torch.ones(2, 1, 1, 4)),
    ),
    (
        RuntimeError,
        "doesn't match the broadcast shape",
        lambda: F.binary_cross_entropy_with_logits(ONE, ONE, weight=torch.ones(2, 1, 1)),
    ),
    (
        RuntimeError,
        "doesn't match the broadcast shape",
        lambda: F.binary_cross_entropy_with_logits(ONE, ONE, pos_weight=torch.ones(2, 1, 1)),
    ),
    (AssertionError, "bias_k is set but bias_v is None", lambda: attention_with(bias_k=ONE)),
    (AssertionError, "bias_v is set but bias_k is None", lambda: attention_with(bias_v=ONE)),
    (
        RuntimeError,
        "hidden0 has inconsistent hidden_size: got 21, expected 20",
        lambda: nn.LSTMCell(10, 20)(torch.zeros(3, 10), (torch.zeros(3, 21),) * 2),
    ),
    (
        RuntimeError,
        "Input batch size 3 doesn't match hidden0 batch size 5",
        lambda: nn.GRUCell(10, 20)(torch.zeros(3, 10), torch.zeros(5, 20)),
    ),
    (TypeError, "'alpha' must be float, not Tensor", lambda: F.celu(ONE, GRADIENT)),
    (TypeError, "'eps' must be float, not Tensor", lambda: F.layer_norm(ONE, (4,), eps=GRADIENT)),
    (TypeError, "'value' must be float, not Tensor", lambda: F.pad(ONE, (1, 1), value=GRADIENT)),
    (TypeError, "'beta' must be float, not complex", lambda: F.smooth_l1_loss(ONE, ONE, beta=1j)),
    (TypeError, "'divisor_override' must be int", lambda: F.avg_pool2d(ONE, 1, divisor_override=2.0)),
    (TypeError, "'log_target' must be bool", lambda: F.kl_div(ONE, ONE, reduction="sum", log_target=1)),
    (TypeError, "'input' .* must be Tensor, not str", lambda: F.dropout("x", 0.0)),
    (TypeError, "'input' .* must be Tensor, not NoneType", lambda: F.feature_alpha_dropout(None, training=False)),
    (TypeError, "found element of type float", lambda: F.pad(ONE, (2.0, 2))),
    (TypeError, "found element of type bool", lambda: F.pad(ONE, (True, 1), "circular")),
    (NotImplementedError, "log_sigmoid_cpu", lambda: F.binary_cross_entropy_with_logits(ONE.long(), ONE)),
    (
        RuntimeError,
        "All tensors must have the same dtype",
        lambda: F.bilinear(ONE[0], ONE[0].double(), torch.zeros(1, 4, 4)),
    ),
    (
        RuntimeError,
        "Expected dtype int32/int64 for index",
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 3, [1])(torch.zeros(2, 4), torch.ones(2)),
    ),
    (
        RuntimeError,
        "too large relative to input size",
        lambda: F.fractional_max_pool3d(torch.zeros(1, 4, 4, 4), 3, output_size=2),
    ),
    (RuntimeError, "cast to the desired output type Long", lambda: F.gaussian_nll_loss(ONE, ONE, ONE.long())),
    (RuntimeError, "cast to the desired output type Bool", lambda: F.huber_loss(ONE > 0, ONE)),
    (RuntimeError, "eps must be non-negative", lambda: F.cosine_similarity(ONE, ONE, eps=float("nan"))),
]


@pytest.mark.parametrize(("error", "words", "call"), CASES, ids=[words for _, words, _ in CASES])
def test_refusal(error, words, call):
    with pytest.raises(error, match=words):
        call()


def test_sizes_are_integers_of_any_kind():
    x = torch.rand(1, 2, 6, 6)
    expected = F.avg_pool2d(x, 2, 2).tolist()
    for size in (np.int64(2), torch.tensor(2), [torch.tensor(2)] * 2, np.array([2, 2]), torch.tensor([2, 2]), (2,)):
        assert F.avg_pool2d(x, size, size).tolist() == expected
        assert F.adaptive_avg_pool2d(x, 3).tolist() == expected
    weight = torch.rand(1, 2, 3, 3)
    for size in ([torch.tensor(2)] * 2, np.array([2, 2]), range(2, 4)):
        stride = [int(n) for n in size]
        assert F.conv2d(x, weight, stride=size).tolist() == F.conv2d(x, weight, stride=stride).tolist()


def test_a_refused_call_leaves_equal_arguments_good():
    """2.0 equals 2 as a key of plans."""
    x = torch.ones(2, 7)
    with pytest.raises(TypeError):
        F.pad(x, (2.0, 3))
    assert F.pad(x, (2, 3)).shape == (2, 12)


@pytest.mark.parametrize("half", [0.5, np.float32(0.5), torch.tensor(0.5)])
def test_numbers_of_layers_of_any_kind(half):
    x = torch.arange(24.0).reshape(2, 3, 4)
    for name in ("Dropout", "Dropout1d", "AlphaDropout", "ELU"):
        layer, usual = getattr(nn, name)(half), getattr(nn, name)(0.5)
        assert repr(layer) == repr(usual)
        torch.manual_seed(0)
        expected = usual(x)
        torch.manual_seed(0)
        assert layer(x).tolist() == expected.tolist()


def test_numbers_that_pytorch_computes_in_python_may_have_gradients():
    x, number = torch.ones(1, 3, 4), torch.tensor(2.0, requires_grad=True)
    for result in (F.gumbel_softmax(x, number), F.lp_pool1d(x, number, 2), F.local_response_norm(x, 2, number)):
        assert result.requires_grad
    assert F.gaussian_nll_loss(x, x, x, full=1) == F.gaussian_nll_loss(x, x, x, full=True)


def test_losses_have_the_dtype_of_the_input():
    x, y = torch.tensor([0.25, 0.75]), torch.tensor([0.5, 0.5])
    assert F.huber_loss(x.bfloat16(), y).dtype is torch.bfloat16 and F.huber_loss(x, y.double()).dtype is torch.float32
    assert F.binary_cross_entropy(x, y, y.double()).dtype is torch.float32
    for weights in ({"weight": y.double()}, {"pos_weight": y.double()}):
        assert F.binary_cross_entropy_with_logits(x, y, **weights).dtype is torch.float32


def test_paddings_of_arrays():
    assert nn.Conv1d(1, 1, 3, padding=np.array([1]))(ONE).shape == (1, 1, 4)
    assert nn.ConvTranspose2d(1, 1, 3, padding=np.array([1, 1])).padding == (1, 1)
