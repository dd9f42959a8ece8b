"""Docstrings that are completed from `core/docstrings.txt`, and the errors that the table names."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import warnings

import pytest

import numod as torch
import numod.nn.functional as F
from numod import nn, optim
from numod.core import docstrings

# an expression for errors that the table's lines `raises` name
ERRORS = """
torch.zeros(-1) | RuntimeError
torch.zeros_like(1) | TypeError
torch.full((2,), 300, dtype=torch.uint8) | RuntimeError
torch.arange(0, 5, 0) | RuntimeError
torch.arange(0, 5, -1) | RuntimeError
torch.range(0, 5, -1) | RuntimeError
torch.linspace(0, 1, -1) | RuntimeError
torch.eye(-1) | RuntimeError
torch.empty_strided((2,), (1, 1)) | RuntimeError
torch.as_strided(torch.ones(2), (3,), (1,)) | RuntimeError
torch.tensor([[1], [2, 3]]) | ValueError
torch.tensor("a") | TypeError
torch.frombuffer(bytearray(4), dtype=torch.int32, count=2) | ValueError
torch.scalar_tensor([1]) | TypeError
torch.hann_window(-1) | RuntimeError
torch.hann_window(3, dtype=torch.int64) | RuntimeError
torch.tril_indices(-1, 2) | RuntimeError
torch.randint(3, 3, (2,)) | RuntimeError
torch.randperm(-1) | RuntimeError
torch.bernoulli(torch.tensor([2.0])) | RuntimeError
torch.normal(0.0, -1.0, (2,)) | RuntimeError
torch.multinomial(torch.tensor([-1.0, 1.0]), 1) | RuntimeError
torch.multinomial(torch.tensor([1.0, 1.0]), 3) | RuntimeError
torch.poisson(torch.tensor([-1.0])) | RuntimeError
torch.ones(2).geometric_(2.0) | RuntimeError
torch.ones(2).cauchy_(0, -1) | RuntimeError
torch.ones(2).exponential_(-1) | RuntimeError
torch.ones(2).uniform_(1, 0) | RuntimeError
torch.ones(2).random_(3, 3) | RuntimeError
torch.ones(2) + torch.ones(3) | RuntimeError
torch.bitwise_and(torch.ones(2), torch.ones(2)) | NotImplementedError
torch.bitwise_not(torch.ones(2)) | NotImplementedError
torch.tensor([1]) // torch.tensor([0]) | RuntimeError
torch.pow(torch.tensor([2]), -1) | RuntimeError
torch.ones(2).imag | RuntimeError
torch.complex(torch.ones(2), torch.ones(2, dtype=torch.float64)) | RuntimeError
torch.polygamma(-1, torch.ones(1)) | RuntimeError
torch.clamp(torch.ones(2)) | RuntimeError
torch.frexp(torch.tensor([1])) | RuntimeError
torch.equal(torch.ones(2), 1) | TypeError
torch.exp(torch.ones(2), out=torch.ones(2, dtype=torch.int64)) | RuntimeError
torch.rrelu(torch.ones(2), 1.0, 0.5) | RuntimeError
F.hardtanh(torch.ones(2), 1.0, 0.0) | ValueError
F.gelu(torch.ones(2), approximate="a") | RuntimeError
torch.prelu(torch.ones(2, 3), torch.ones(2)) | RuntimeError
F.glu(torch.ones(3)) | RuntimeError
F.dropout(torch.ones(2), 2.0) | ValueError
nn.Dropout(2.0) | ValueError
torch.dropout_(torch.ones(2), 2.0, True) | (RuntimeError, ValueError)
torch.softmax(torch.ones(2), 2) | IndexError
torch.max(torch.ones(2, 0), 1) | IndexError
torch.argmax(torch.ones(0), 0) | IndexError
torch.mean(torch.tensor([1])) | RuntimeError
torch.var(torch.tensor([1])) | RuntimeError
torch.quantile(torch.ones(2), 2.0) | RuntimeError
torch.quantile(torch.tensor([1]), 0.5) | RuntimeError
torch.kthvalue(torch.ones(2), 3) | RuntimeError
torch.histc(torch.ones(2), min=2, max=1) | RuntimeError
torch.bincount(torch.tensor([-1])) | RuntimeError
torch.bincount(torch.tensor([1.0])) | RuntimeError
torch.cov(torch.ones(2, 2, 2)) | RuntimeError
torch.trace(torch.ones(2)) | RuntimeError
torch.renorm(torch.ones(2, 2), -1, 0, 1) | RuntimeError
torch.mm(torch.ones(2, 3), torch.ones(2, 3)) | RuntimeError
torch.mm(torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)) | RuntimeError
torch.dot(torch.ones(2), torch.ones(3)) | RuntimeError
torch.kron(torch.ones(2), "a") | TypeError
torch.cross(torch.ones(2), torch.ones(2)) | RuntimeError
torch.linalg.cross(torch.ones(2), torch.ones(2)) | RuntimeError
torch.bilinear(torch.ones(1, 2), torch.ones(1, 3), torch.ones(1, 2, 2)) | RuntimeError
torch.cdist(torch.ones(2, 3), torch.ones(2, 2)) | RuntimeError
torch.pdist(torch.ones(2)) | RuntimeError
F.cosine_similarity(torch.ones(2, 3), torch.ones(2, 2)) | RuntimeError
torch.reshape(torch.ones(2), (3,)) | RuntimeError
torch.ones(2, 3).t().view(6) | RuntimeError
torch.unflatten(torch.ones(4), 0, (3, 2)) | RuntimeError
torch.permute(torch.ones(2, 2), (0, 0)) | RuntimeError
torch.transpose(torch.ones(2), 0, 3) | IndexError
torch.t(torch.ones(2, 2, 2)) | RuntimeError
torch.movedim(torch.ones(2), 0, 3) | IndexError
torch.broadcast_to(torch.ones(2), (3,)) | RuntimeError
torch.broadcast_tensors(torch.ones(2), torch.ones(3)) | RuntimeError
torch.meshgrid(torch.ones(2, 2), indexing="ij") | RuntimeError
torch.atleast_1d(2) | TypeError
torch.block_diag(torch.ones(2, 2, 2)) | RuntimeError
torch.cartesian_prod(torch.ones(2, 2)) | RuntimeError
torch.combinations(torch.ones(2, 2)) | RuntimeError
torch.broadcast_shapes((2,), (3,)) | RuntimeError
torch.cat([torch.ones(2, 2), torch.ones(3, 3)]) | RuntimeError
torch.cat([]) | (RuntimeError, ValueError)
torch.stack([torch.ones(2), torch.ones(3)]) | RuntimeError
torch.hstack([torch.ones(2, 2), torch.ones(3, 3)]) | RuntimeError
torch.split(torch.ones(2), [1, 2]) | RuntimeError
torch.chunk(torch.ones(2), 0) | RuntimeError
torch.vsplit(torch.ones(3, 2), 2) | RuntimeError
torch.narrow(torch.ones(2), 0, 1, 3) | (IndexError, RuntimeError)
torch.select(torch.ones(2), 0, 5) | IndexError
torch.index_select(torch.ones(2), 0, torch.tensor([5])) | IndexError
torch.diagonal(torch.ones(2, 2), dim1=0, dim2=0) | RuntimeError
torch.diag(torch.ones(2, 2, 2)) | RuntimeError
torch.diag_embed(torch.ones(2), dim1=0, dim2=0) | RuntimeError
torch.tril(torch.ones(2)) | RuntimeError
torch.ones(2).unfold(0, 3, 1) | RuntimeError
torch.view_as_complex(torch.ones(3)) | RuntimeError
torch.view_as_real(torch.ones(2)) | RuntimeError
torch.flip(torch.ones(2), (0, 0)) | RuntimeError
torch.fliplr(torch.ones(2)) | RuntimeError
torch.rot90(torch.ones(2, 2), 1, (0, 0)) | RuntimeError
torch.roll(torch.ones(2), 1, 5) | IndexError
torch.tile(torch.ones(2), (-1,)) | RuntimeError
torch.ones(2, 2).repeat(2) | RuntimeError
torch.repeat_interleave(torch.ones(2), torch.tensor([1, 2, 3]), 0) | RuntimeError
torch.ones(2).resize_(-1) | RuntimeError
F.pixel_shuffle(torch.ones(1, 3, 2, 2), 2) | RuntimeError
F.channel_shuffle(torch.ones(1, 3, 2), 2) | RuntimeError
torch.gather(torch.ones(2), 0, torch.tensor([5])) | RuntimeError
torch.take(torch.ones(2), torch.tensor([5])) | IndexError
torch.scatter(torch.zeros(2), 0, torch.tensor([5]), torch.ones(1)) | RuntimeError
torch.scatter_reduce(torch.zeros(2), 0, torch.tensor([0]), torch.ones(1), "a") | RuntimeError
torch.index_put(torch.zeros(2), (torch.tensor([5]),), torch.ones(1)) | IndexError
torch.masked_select(torch.ones(2), torch.ones(2)) | RuntimeError
torch.masked_scatter(torch.ones(2), torch.tensor([True, True]), torch.ones(1)) | RuntimeError
torch.slice_scatter(torch.zeros(4), torch.ones(3), 0, 1, 3) | RuntimeError
torch.select_scatter(torch.zeros(2, 2), torch.ones(3), 0, 1) | RuntimeError
torch.nonzero(1) | TypeError
torch.nonzero_static(torch.ones(2), size=-1) | RuntimeError
torch.unravel_index(torch.tensor([1]), (-1,)) | ValueError
torch.unravel_index(torch.tensor([1.0]), (2,)) | (TypeError, ValueError)
torch.topk(torch.ones(2), 3) | RuntimeError
torch.searchsorted(torch.ones(2, 2), torch.ones(3, 2)) | RuntimeError
torch.searchsorted(torch.ones(2), torch.ones(2), right=True, side="left") | RuntimeError
torch.bucketize(torch.ones(2), torch.ones(2, 2)) | RuntimeError
torch.isin(1, 2) | TypeError
torch.vander(torch.ones(2), -1) | RuntimeError
torch.linalg.det(torch.ones(2, 3)) | RuntimeError
torch.linalg.norm(torch.ones(2, 2), "a") | RuntimeError
torch.linalg.cholesky(-torch.eye(2)) | torch.linalg.LinAlgError
torch.linalg.cholesky(torch.ones(2, 3)) | RuntimeError
torch.linalg.inv(torch.zeros(2, 2)) | torch.linalg.LinAlgError
torch.linalg.eigh(torch.eye(2), "X") | RuntimeError
torch.linalg.qr(torch.eye(2), mode="a") | RuntimeError
torch.linalg.qr(torch.ones(2)) | RuntimeError
torch.linalg.householder_product(torch.ones(2, 3), torch.ones(2)) | RuntimeError
torch.linalg.svd(torch.ones(2)) | RuntimeError
torch.linalg.lu(torch.ones(2)) | RuntimeError
torch.linalg.solve(torch.eye(2), torch.ones(3)) | RuntimeError
torch.linalg.lstsq(torch.ones(2, 2), torch.ones(3, 2)) | RuntimeError
torch.linalg.tensorinv(torch.ones(2, 3), 1) | RuntimeError
torch.linalg.tensorsolve(torch.ones(2, 3), torch.ones(2)) | RuntimeError
torch.lobpcg(torch.eye(3), 2) | ValueError
torch.fft.fft(torch.ones(2), n=0) | RuntimeError
torch.fft.fft(torch.ones(2), norm="a") | RuntimeError
torch.fft.fftshift(torch.ones(2), 3) | IndexError
torch.stft(torch.ones(4), 8, return_complex=True, center=False) | RuntimeError
torch.conv1d(torch.ones(1, 2, 4), torch.ones(1, 3, 2)) | RuntimeError
torch.conv1d(torch.ones(1, 1, 2), torch.ones(1, 1, 3)) | RuntimeError
nn.Conv1d(3, 4, 1, groups=2) | ValueError
nn.ConvTranspose1d(2, 2, 2)(torch.ones(1, 2, 4), output_size=(100,)) | ValueError
F.max_pool1d(torch.ones(1, 4), 2, padding=2) | RuntimeError
F.adaptive_avg_pool2d(torch.ones(1, 1, 2, 2), (1, 1, 1)) | RuntimeError
F.fractional_max_pool2d(torch.ones(1, 1, 4, 4), 2) | ValueError
F.fractional_max_pool2d(torch.ones(1, 1, 4, 4), 2, output_size=9) | RuntimeError
F.max_unpool1d(torch.ones(1, 1, 1), torch.tensor([[[9]]]), 2) | RuntimeError
F.pad(torch.ones(2), (1,)) | RuntimeError
F.pad(torch.ones(1, 1, 2), (3, 3), mode="reflect") | RuntimeError
F.unfold(torch.ones(1, 1, 2, 2), 3) | RuntimeError
F.fold(torch.ones(1, 4, 3), (3, 3), 2) | RuntimeError
F.interpolate(torch.ones(1, 1, 2)) | ValueError
F.interpolate(torch.ones(1, 1, 2), 4, mode="bilinear") | NotImplementedError
F.grid_sample(torch.ones(1, 1, 2, 2), torch.ones(2, 1, 1, 2), align_corners=True) | RuntimeError
nn.Softmax2d()(torch.ones(2)) | ValueError
nn.Linear(2, 3)(torch.ones(3)) | RuntimeError
nn.Linear(2, 3)(torch.ones(2, dtype=torch.float64)) | RuntimeError
nn.Bilinear(0, 2, 3) | ValueError
nn.BatchNorm1d(2)(torch.ones(1, 2, 2, 2)) | ValueError
nn.BatchNorm1d(2)(torch.ones(1, 2)) | ValueError
nn.BatchNorm1d(2)(torch.ones(4, 3)) | RuntimeError
nn.GroupNorm(2, 3) | ValueError
F.group_norm(torch.ones(2, 3), 2) | (RuntimeError, ValueError)
nn.LayerNorm(3)(torch.ones(2)) | RuntimeError
F.local_response_norm(torch.ones(2, 2), 2) | ValueError
nn.LSTM(2, 3)(torch.ones(4, 1, 5)) | RuntimeError
nn.LSTM(2, 0) | ValueError
nn.GRUCell(2, 3)(torch.ones(1, 5)) | RuntimeError
nn.Embedding(3, 2)(torch.tensor([5])) | IndexError
F.embedding_bag(torch.tensor([0, 1]), torch.ones(2, 2)) | ValueError
F.embedding_bag(torch.tensor([[5]]), torch.ones(2, 2)) | RuntimeError
F.one_hot(torch.tensor([-1])) | RuntimeError
F.one_hot(torch.tensor([3]), 2) | RuntimeError
nn.TransformerEncoderLayer(6, 4) | AssertionError
nn.MultiheadAttention(6, 4) | AssertionError
F.scaled_dot_product_attention(torch.ones(1, 2, 4), torch.ones(1, 2, 3), torch.ones(1, 2, 4)) | RuntimeError
nn.Flatten(5)(torch.ones(2, 2)) | IndexError
nn.Sequential(1) | TypeError
nn.ModuleList([1]) | TypeError
nn.ParameterList()[1] | IndexError
nn.Parameter(torch.tensor([1])) | RuntimeError
nn.LazyLinear(2).weight + 1 | (RuntimeError, ValueError)
F.mse_loss(torch.ones(2), torch.ones(3)) | RuntimeError
F.mse_loss(torch.ones(2), torch.ones(2), reduction="a") | ValueError
F.cross_entropy(torch.ones(1, 3), torch.tensor([5])) | IndexError
F.binary_cross_entropy(torch.ones(2), torch.ones(3)) | ValueError
F.ctc_loss(torch.zeros(2, 1, 3), torch.ones(1, 2, dtype=torch.int64), (5,), (2,)) | RuntimeError
F.multi_margin_loss(torch.ones(1, 3), torch.tensor([0]), p=5) | ValueError
nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5, 3]) | ValueError
nn.init.xavier_normal_(torch.ones(2)) | ValueError
nn.init.kaiming_normal_(torch.ones(2, 2), mode="a") | ValueError
nn.init.eye_(torch.ones(2)) | ValueError
nn.init.constant_(1, 2) | (TypeError, AttributeError)
nn.init.calculate_gain("a") | ValueError
nn.utils.weight_norm(nn.ReLU()) | (AttributeError, KeyError)
nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 1, 1), nn.BatchNorm1d(1)) | (AssertionError, RuntimeError)
optim.Adam([]) | ValueError
optim.Adam([torch.ones(1, requires_grad=True)], lr=-1.0) | ValueError
optim.Adam(torch.ones(1)) | TypeError
optim.lr_scheduler.StepLR(1, 2) | TypeError
optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([torch.ones(1, requires_grad=True)]), factor=2.0) | ValueError
torch.autograd.grad(torch.ones(2), torch.ones(2)) | RuntimeError
torch.func.grad(lambda x: x.sum(), argnums=3)(torch.ones(2)) | (ValueError, RuntimeError)
torch.func.grad(lambda x: x)(torch.ones(2)) | RuntimeError
torch.func.functional_call(nn.Linear(1, 1), {"a": torch.ones(1)}, (torch.ones(1),), strict=True) | RuntimeError
torch.func.stack_module_state([]) | RuntimeError
torch.vmap(lambda x: x, in_dims=3)(torch.ones(2)) | ValueError
torch.vmap(lambda x: torch.rand(()))(torch.ones(2)) | RuntimeError
torch.set_grad_enabled("a") | TypeError
torch.distributions.Normal(0.0, -1.0) | ValueError
torch.distributions.Uniform(0.0, 1.0).log_prob(torch.tensor(2.0)) | ValueError
torch.distributions.ExpTransform(cache_size=3) | ValueError
torch.distributions.register_kl(1, int) | TypeError
torch.FloatTensor("a") | TypeError
torch.FloatStorage("a") | TypeError
torch.Size(["a"]) | TypeError
torch.GradScaler("cpu", growth_factor=0.5) | AssertionError
torch.finfo(torch.int64) | TypeError
torch.set_default_dtype(torch.int64) | TypeError
torch.set_default_tensor_type(3) | TypeError
torch.set_num_threads(-1) | RuntimeError
torch.set_num_interop_threads(-1) | RuntimeError
torch.set_deterministic_debug_mode("a") | (RuntimeError, TypeError)
torch.set_rng_state(3) | (TypeError, RuntimeError)
torch.set_autocast_dtype("a", torch.float16) | (RuntimeError, ValueError)
torch.can_cast(1, 2) | TypeError
torch.promote_types(1, 2) | TypeError
torch.is_floating_point(3) | TypeError
torch.load("/nowhere/file") | FileNotFoundError
torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.float32) | RuntimeError
torch.q_scale(torch.ones(2)) | RuntimeError
torch.segment_reduce(torch.ones(3), "a", lengths=torch.tensor([1, 2])) | RuntimeError
torch.ones(2).backward() | RuntimeError
torch.ones(2).register_hook(print) | RuntimeError
torch.tensor([1]).requires_grad_() | RuntimeError
torch.ones(2).fill_diagonal_(1) | RuntimeError
torch.ones(2).sum_to_size(3) | RuntimeError
torch.device("nowhere") | RuntimeError
torch.ones(2, device="nowhere") | RuntimeError
nn.ReLU()(1) | TypeError
nn.Identity().weight | AttributeError
torch.nn.functional.linear(torch.ones(2), torch.ones(2, 3)) | RuntimeError
torch.SymInt(3) | NotImplementedError
torch.mvlgamma(torch.tensor([3.0]), 0) | RuntimeError
torch.manual_seed(2 ** 70) | ValueError
torch.set_num_threads("a") | RuntimeError
torch.to_dlpack(3) | AttributeError
torch.histogramdd(torch.ones(3, 2), 2, range=[0.0, 1.0]) | RuntimeError
torch.histogramdd(torch.ones(3, 2), [2]) | RuntimeError
"""
CASES = [line.rpartition(" | ")[::2] for line in ERRORS.strip().splitlines()]
SPACE = {"torch": torch, "F": F, "nn": nn, "optim": optim}


@pytest.mark.parametrize("expression, error", CASES, ids=[expression for expression, _ in CASES])
def test_an_error_that_a_docstring_names_is_raised(expression: str, error: str) -> None:
    with warnings.catch_warnings(), pytest.raises(eval(error, SPACE)):
        warnings.simplefilter("ignore")
        eval(expression, SPACE)


def test_sections_come_before_the_example() -> None:
    text = inspect.getdoc(torch.sum)
    places = [text.index(title) for title in ("Args:", "Shape:", "Raises:", "Source:", "Example:")]
    assert text.startswith("Sum over dimensions") and places == sorted(places)
    assert "keepdim (bool, default False): whether reduced dimensions stay, with size 1" in text
    assert "    IndexError: if `dim` is out of range.\n" in text
    assert "Source: numod/core/math/reductions.py, line" in text


def test_a_later_section_of_the_table_takes_precedence() -> None:
    assert docstrings.lookup("nn.functional.conv2d")["bias"] == ["the bias (C_out,); None: none"]
    assert docstrings.lookup("nn.Conv2d")["bias"] == ["whether to add a learned bias"]
    assert docstrings.lookup("Tensor.cumsum_")["Shape"] == docstrings.lookup("cumsum")["Shape"]


def test_help_and_every_method_of_str_read_the_completed_text() -> None:
    text = torch.cumsum.__doc__
    assert "Args:" in text and text.count("Raises:") == 1 and "Args:" in f"{text}" and "Args:" in str(text)
    assert len(text) == len(str(text)) and ("see " + text).startswith("see Running sum")
    assert "dim (int): the dimension" in pydoc.render_doc(torch.cumsum)
    assert "out_channels (int): the number of channels" in pydoc.render_doc(nn.Conv2d)
    assert type(copy.deepcopy(text)) is str and pickle.loads(pickle.dumps(text)) == text


def test_a_text_is_completed_when_it_is_first_read() -> None:
    text = docstrings.Docstring("Sum.", "sum", torch.sum)
    assert text._full is None
    assert text.startswith("Sum.") and text._full is not None
