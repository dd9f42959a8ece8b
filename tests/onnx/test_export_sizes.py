"""Functions with a dynamic batch, height and width, or length: the model gives numod's results at three sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.export import Dim

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.onnx
F = nn.functional

IMAGE = ({0: "batch", 2: "height", 3: "width"}, [(2, 3, 8, 10), (1, 3, 13, 9), (4, 3, 9, 16)])
SERIES = ({0: "batch", 2: "time"}, [(2, 3, 12), (1, 3, 13), (5, 3, 20)])
TOKENS = ({0: "batch", 1: "time"}, [(2, 6, 8), (1, 11, 8), (4, 3, 8)])


def identity_grid(x: torch.Tensor, corners: bool) -> torch.Tensor:
    return F.affine_grid(torch.eye(2, 3).expand(x.shape[0], 2, 3) * 0.8, x.size(), align_corners=corners)


def positions(x: torch.Tensor) -> torch.Tensor:
    """Positions of pixels, as detectors add them."""
    rows, columns = torch.meshgrid(torch.arange(x.shape[2]), torch.arange(x.shape[3]), indexing="ij")
    return torch.stack((rows, columns), 0).float() + x[:, :2]


def with_borders(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[:, :, 1:-1] = 0.0
    y[..., 0] = 1.0
    return y


IMAGES: dict[str, Callable] = {
    "convolution": nn.Conv2d(3, 4, 3),
    "dilated convolution": nn.Conv2d(3, 4, 3, dilation=2, padding=1),
    "transposed convolution": nn.ConvTranspose2d(3, 4, 3, 2, 1, 1),
    "max pool of stride 1": lambda x: F.max_pool2d(x, 3, 1, 1),
    "max pool with dilation": lambda x: F.max_pool2d(x, 2, 1, 0, 2),
    "adaptive average": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive maximum": lambda x: F.adaptive_max_pool2d(x, 1),
    "adaptive average of rows": lambda x: F.adaptive_avg_pool2d(x, (None, 1)),
    "reflected padding": lambda x: F.pad(x, (1, 2, 2, 1), "reflect"),
    "circular padding": lambda x: F.pad(x, (1, 2, 2, 1), "circular"),
    "affine_grid": lambda x: identity_grid(x, False),
    "affine_grid with corners": lambda x: identity_grid(x, True),
    "grid_sample": lambda x: F.grid_sample(x, identity_grid(x, False), align_corners=False),
    "linspace": lambda x: torch.linspace(-1, 1, x.shape[3]) + x,
    "linspace to a size": lambda x: torch.linspace(0, x.shape[2] - 1, x.shape[2])[:, None] + x,
    "logspace": lambda x: torch.logspace(0, 1, x.shape[3]) + x,
    "meshgrid": positions,
    "hann_window": lambda x: torch.hann_window(x.shape[3]) * x,
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
    "roll": lambda x: torch.roll(x, (1, -2), (2, 3)),
    "narrow": lambda x: x.narrow(2, 1, 3),
    "last columns": lambda x: x[..., -3:],
    "diagonal of a part": lambda x: x[:, :, :3, :3].diagonal(0, 2, 3),
    "writes": with_borders,
    "group_norm": nn.GroupNorm(3, 3),
    "instance_norm": nn.InstanceNorm2d(3, affine=True),
    "softmax of pixels": lambda x: x.flatten(2).softmax(-1).view_as(x),
    "triangle": lambda x: torch.tril(torch.ones(x.shape[2], x.shape[2])) @ x,
    "topk": lambda x: x.topk(2, 3),
    "std": lambda x: x.std(3, keepdim=True),
    "one_hot": lambda x: F.one_hot(x.argmax(1), 3).permute(0, 3, 1, 2).float(),
    "sizes as numbers": lambda x: x * x.shape[2] / x.shape[3],
}
OTHERS: dict[str, tuple[Callable, tuple]] = {
    "causal convolution": (lambda x: F.pad(x, (4, 0))[:, :, : x.shape[2]], SERIES),
    "convolution of series": (nn.Conv1d(3, 4, 4), SERIES),
    "reflected series": (lambda x: F.pad(x, (3, 3), "reflect"), SERIES),
    "differences": (torch.diff, SERIES),
    "window of the length": (lambda x: x * torch.hamming_window(x.shape[2], periodic=False), SERIES),
    "bidirectional gru": (nn.GRU(8, 4, 2, batch_first=True, bidirectional=True), TOKENS),
    "encoder": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), TOKENS),
    "rotary angles": (lambda x: x * torch.outer(torch.arange(x.shape[1]).float(), torch.arange(8) / 8).cos(), TOKENS),
    "first token": (lambda x: torch.cat([torch.zeros(1, 1, 8).expand(x.shape[0], -1, -1), x], 1), TOKENS),
}
CASES = {**{name: (function, IMAGE) for name, function in IMAGES.items()}, **OTHERS}


def results(function: Callable, x: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        outputs = function(x)
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


def agrees(program: torch.onnx.ONNXProgram, function: Callable, shapes: list[tuple[int, ...]]) -> None:
    onnx.checker.check_model(program.model_proto, full_check=True)
    for seed, shape in enumerate(shapes):
        x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
        for ours, theirs in zip(results(function, x), program(x), strict=True):
            assert ours.shape == theirs.shape
            assert np.allclose(theirs.numpy(), ours.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_a_function_at_three_sizes(name: str) -> None:
    function, (axes, shapes) = CASES[name]
    agrees(
        torch.onnx.export(function, (torch.randn(*shapes[0]),), dynamic_axes={"input": axes}, input_names=["input"]),
        function,
        shapes,
    )


def test_strided_layers_take_multiples_of_their_strides() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, 2, 1), nn.MaxPool2d(2), nn.Upsample(scale_factor=4), nn.Conv2d(4, 2, 1)
    ).eval()
    sizes = {0: Dim("batch"), 2: 4 * Dim("rows"), 3: 4 * Dim("columns")}
    program = torch.onnx.export(net, (torch.randn(1, 3, 8, 12),), dynamic_shapes=(sizes,))
    agrees(program, net, [(2, 3, 4, 8), (1, 3, 16, 12), (3, 3, 20, 32)])


def test_windows_that_divide_a_dynamic_size_are_refused_with_the_line() -> None:
    with pytest.raises(RuntimeError, match="height as dynamic|give 4 and"):
        torch.onnx.export(
            lambda x: F.max_pool2d(x, 2),
            (torch.randn(1, 3, 8, 8),),
            dynamic_axes={"x": {2: "height"}},
            input_names=["x"],
        )
    indices = nn.AdaptiveMaxPool2d(1, return_indices=True)
    with pytest.raises(torch.export.ExportError, match="indices of windows"):
        torch.onnx.export(indices, (torch.randn(1, 3, 8, 8),), dynamic_axes={"input": {2: "height"}})
