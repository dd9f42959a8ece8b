"""`dynamic_shapes`: programs for many sizes, their errors, and their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from selection import every

import numod as torch
from numod import nn
from numod.ao import quantization
from numod.export import Dim, dims, export, load, polynomial, save
from numod.export.sizes import filled_in


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.recurrent, self.out = nn.Embedding(7, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.recurrent(self.table(tokens))[0])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.project(x).view(batch, length, 3, 2, 2).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-1, -2) + torch.ones(length, length).tril().log(), -1)
        return (scores @ v).transpose(1, 2).reshape(batch, length, 4)


def _agree(module: nn.Module, net: nn.Module, *inputs: torch.Tensor) -> None:
    with torch.no_grad():
        got, want = module(*inputs), net(*inputs)
    assert got.shape == want.shape and torch.allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 6])
def test_a_convolution_takes_any_batch(size: int) -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)).eval()
    captured = export(net, (torch.randn(3, 1, 8, 8),), dynamic_shapes={"input": {0: Dim("batch", max=8)}})
    assert captured.range_constraints == {"batch": (1, 8)}
    _agree(captured.module(), net, torch.randn(size, 1, 8, 8))


@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (5, 3)])
def test_recurrent_networks_take_any_batch_and_length(shape: tuple, tmp_path: Path) -> None:
    net = Tagger().eval()
    batch, length = dims("batch length", min=1, max=9)
    save(export(net, (torch.randint(0, 7, (3, 4)),), dynamic_shapes=((batch, length),)), tmp_path / "net.pt2")
    again = load(tmp_path / "net.pt2")
    assert again.range_constraints == {"batch": (1, 9), "length": (1, 9)}
    _agree(again.module(), net, torch.randint(0, 7, shape))


@pytest.mark.parametrize("shape", [(2, 5), (4, 2)])
def test_attention_takes_any_batch_and_length(shape: tuple) -> None:
    net = Attention()
    captured = export(net, (torch.randn(2, 3, 4),), dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim("length", max=6)}})
    _agree(captured.module(), net, torch.randn(*shape, 4))


def test_scripted_programs_take_any_batch(tmp_path: Path) -> None:
    net = nn.Linear(4, 3)
    save(export(net, (torch.randn(2, 4),), dynamic_shapes=({0: Dim("batch")},)), tmp_path / "net.pt")
    loaded = torch.jit.load(tmp_path / "net.pt")
    for size in (1, 2, 17):
        _agree(loaded, net, torch.randn(size, 4))


def test_a_mean_over_the_batch_divides_by_its_size() -> None:
    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(x, y) + x.sum() / x.shape[0] + x.var()

    batch = Dim("batch", min=2)
    module = export(loss, (torch.randn(3, 4), torch.randn(3, 4)), dynamic_shapes=[{0: batch}, {0: batch}]).module()
    x, y = torch.randn(10, 4), torch.randn(10, 4)
    assert torch.allclose(module(x, y), loss(x, y), rtol=1e-5)


def test_dependent_dimensions() -> None:
    half = Dim("half", max=10)
    captured = export(
        lambda x, y: x.view(-1, 2).sum(1) * y[1:],
        (torch.ones(6), torch.ones(4)),
        dynamic_shapes=({0: 2 * half}, {0: half + 1}),
    )
    assert captured.module()(torch.ones(10), torch.ones(6)).tolist() == [2.0] * 5
    with pytest.raises(AssertionError, match=r"y\.size\(\)\[0\] == half \+ 1 = 6, got 7|y.*got 7"):
        captured.module()(torch.ones(10), torch.ones(7))
    with pytest.raises(AssertionError, match=r"size\(\)\[0\] == 2\*half"):
        captured.module()(torch.ones(9), torch.ones(5))


def test_a_size_beyond_the_range_names_the_constraint() -> None:
    module = export(nn.Linear(4, 3), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("batch", min=2, max=8)},)).module()
    for error in (AssertionError, RuntimeError):
        with pytest.raises(error, match=r"Guard failed: input\.size\(\)\[0\] <= 8, got 9 \(batch = 9\)"):
            module(torch.ones(9, 4))
    with pytest.raises(AssertionError, match=r"Guard failed: 2 <= input\.size\(\)\[0\]"):
        module(torch.ones(1, 4))
    with pytest.raises(AssertionError, match=r"Guard failed: input\.size\(\)\[1\] == 4, got 5"):
        module(torch.ones(3, 5))
    with pytest.raises(AssertionError, match=r"Guard failed: input\.dim\(\) == 2"):
        module(torch.ones(4))
    with pytest.raises(RuntimeError, match="float32"):
        module(torch.ones(3, 4, dtype=torch.float64))


def _of_fixed_shape(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(3, 4) * 2


def _of_few_rows(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.shape[0] > 4 else x


@pytest.mark.parametrize("function", [_of_fixed_shape, _of_few_rows, lambda x: x * torch.ones(3, 4)])
def test_a_function_of_one_size_is_refused_with_its_line(function: object) -> None:
    batch = Dim("batch", min=2, max=8)
    with pytest.raises(
        RuntimeError, match=r"Constraints violated \(batch\)(.|\n)*test_dynamic\.py:\d+(.|\n)*batch = 3"
    ):
        export(function, (torch.ones(3, 4),), dynamic_shapes=({0: batch},))
    automatic = export(function, (torch.ones(3, 4),), dynamic_shapes=({0: Dim.AUTO},))
    assert automatic.range_constraints == {} and automatic.module()(torch.ones(3, 4)).shape == (3, 4)


@pytest.mark.parametrize(("shapes", "message"), [
    ({"y": {0: Dim("batch")}}, r"top-level keys must be the arg names \['input'\]"),
    (({0: Dim("batch")}, None), "Detected mismatch between the structure"),
    ({"input": (Dim("batch"),)}, "expected 2, but got 1"),
    ({"input": {0: "batch"}}, "Unexpected dimension mapped to index 0"),
    ({"input": 3}, "Unexpected input tensor shape 3"),
    ({"input": {0: Dim("batch", max=2)}}, r"3 not in range \[0, 2\]"),
    ({"input": {0: 2 * Dim("half")}}, r"of the form 2\*half"),
    ({"input": {0: 5}}, "constraint of 5 does not match"),
    ({"input": {0: Dim("size"), 1: Dim("size", max=9)}}, "different definitions"),
    ({"input": {0: Dim("size"), 1: Dim("size")}}, "must be equal"),
    ({"input": {1: Dim("width")}}, r"Constraints violated \(width\)"),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(shapes: object, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        export(nn.Linear(4, 3), (torch.ones(3, 4),), dynamic_shapes=shapes)


def test_dims() -> None:
    assert repr(Dim("batch", min=1, max=8)) == "Dim('batch', min=1, max=8)" and repr(Dim.AUTO) == "DimHint(AUTO)"
    for name, low, high in (("2b", None, None), ("b", 5, 2), ("b", 5, 5)):
        with pytest.raises(AssertionError):
            Dim(name, min=low, max=high)
    with pytest.raises(IndexError):
        export(nn.Linear(4, 3), (torch.ones(3, 4),), dynamic_shapes=({2: Dim("batch")},))


def test_static_shapes_stay_static() -> None:
    for shapes in (None, {"input": None}, ({0: Dim.STATIC, 1: 4},), ({},)):
        captured = export(nn.Linear(4, 3), (torch.ones(3, 4),), dynamic_shapes=shapes)
        assert captured.dynamic is None and captured.range_constraints == {}


def test_polynomials_are_the_simplest_that_fit() -> None:
    points = [(2, 3), (2, 4), (3, 3), (3, 4), (5, 6), (5, 3)]
    assert polynomial.fit(points, [7] * 6) == polynomial.constant(7, 2)
    assert polynomial.text(polynomial.fit(points, [4 * a * b for a, b in points]), "ab") == "4*a*b"
    assert polynomial.text(polynomial.fit(points, [3 * a - b + 1 for a, b in points]), "ab") in (
        "1 - 1*b + 3*a", "1 + 3*a - 1*b",
    )  # fmt: skip
    assert polynomial.fit(points, [a // 2 for a, b in points]) is None
    assert polynomial.fit([(2,), (4,)], [1, 2]) is None
    assert filled_in({"a": [{"polynomial": [[2, [1]], [1, [0]]]}, {"ratio": [1.0, [[4, [1]]]]}]}, (3,)) == {
        "a": [7, 1 / 12]
    }


@pytest.mark.parametrize("change", [
    lambda about: about["symbols"][0].__setitem__(3, 5),
    lambda about: about["symbols"][0].__setitem__(0, "a b"),
    lambda about: about["shapes"][0][0][0].__setitem__(0, 2),
    lambda about: about["shapes"].pop(),
    lambda about: about["shapes"][0].pop(),
    lambda about: about["template"]["steps"].pop(),
    lambda about: about["template"].pop("held"),
    lambda about: about["template"].__setitem__("inputs", {"repeat": [0, [[1 << 40, [1]]]]}),
    lambda about: about["template"].__setitem__("inputs", {"polynomial": [[1, [99]]]}),
    lambda about: about["template"].__setitem__("inputs", {"ratio": [1.0, [[0, [0]]]]}),
    lambda about: about.pop("template"),
])  # fmt: skip
def test_damaged_files_are_refused(change: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captured = export(nn.Linear(4, 3), (torch.ones(3, 4),), dynamic_shapes=({0: Dim("batch")},))
    plain = json.dumps

    def changed(content: object, **options: object) -> str:
        if isinstance(content, dict) and "template" in content:
            content = json.loads(plain(content))
            change(content)
        return plain(content, **options)

    monkeypatch.setattr("numod.export.program.json.dumps", changed)
    save(captured, tmp_path / "net.pt2")
    monkeypatch.undo()
    with pytest.raises(ValueError):
        load(tmp_path / "net.pt2")


def test_two_dimensions_with_large_minima_are_told_apart() -> None:
    rows, columns = Dim("rows", min=20), Dim("columns", min=30)
    captured = export(
        lambda x, y: x.sum() + y * 0 + y.shape[0],
        (torch.ones(20), torch.ones(30)),
        dynamic_shapes=({0: rows}, {0: columns}),
    )
    assert captured.module()(torch.ones(21), torch.ones(40)).tolist() == [61.0] * 40


def test_attention_has_one_form_at_all_sizes() -> None:
    """The blockwise kernel does not pay for small batches; a program has it, or not, at all of them."""
    net = nn.MultiheadAttention(24, 3, batch_first=True).eval()

    def attend(x: torch.Tensor) -> torch.Tensor:
        return net(x, x, x, need_weights=False)[0]

    captured = export(attend, (torch.randn(2, 17, 24),), dynamic_shapes=({0: Dim("batch", max=16)},))
    _agree(captured.module(), attend, torch.randn(5, 17, 24))


INTERPOLATIONS = {
    "nearest": {"scale_factor": 2},
    "nearest-exact": {"scale_factor": 2, "mode": "nearest-exact"},
    "to a size": {"size": (5, 9), "mode": "bilinear"},
    "bilinear": {"scale_factor": 2, "mode": "bilinear"},
    "corners": {"scale_factor": 2, "mode": "bilinear", "align_corners": True},
    "bicubic": {"scale_factor": 3, "mode": "bicubic"},
}


@pytest.mark.parametrize("name", every(2, INTERPOLATIONS, others=pytest.mark.fuzz))
def test_interpolation_of_dynamic_images(name: str) -> None:
    def resized(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, **INTERPOLATIONS[name])

    sizes = {0: Dim("n"), 2: Dim("h"), 3: Dim("w")}
    program = export(resized, (torch.randn(2, 3, 6, 8),), dynamic_shapes=(sizes,))
    for shape in ((2, 3, 6, 8), (3, 3, 5, 9), (2, 3, 9, 5), (2, 3, 4, 4)):
        x = torch.randn(*shape)
        for run in (program, program.frozen()):
            assert torch.allclose(run.module()(x), resized(x), atol=1e-6)


def test_interpolation_of_images_of_one_size_keeps_its_tables_as_constants() -> None:
    def resized(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")

    shapes = ({0: Dim("n")},)
    program = export(resized, (torch.randn(2, 3, 6, 8),), dynamic_shapes=shapes)
    assert {step.op.name for step in program.program.steps} == {"copy", "resample"}  # of the tables, and of images
    with pytest.raises(RuntimeError, match="antialiasing"):
        export(
            lambda x: torch.nn.functional.interpolate(x, size=(3, 3), mode="bilinear", antialias=True),
            (torch.randn(1, 1, 6, 8),),
            dynamic_shapes=({2: Dim("h")},),
        )


@pytest.mark.parametrize("bits", [8, 4])
def test_weight_only_layers_have_one_form_for_few_and_for_many_rows(bits: int) -> None:
    torch.manual_seed(0)
    config = quantization.Int8WeightOnlyConfig() if bits == 8 else quantization.Int4WeightOnlyConfig(group_size=8)
    model = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 3)).eval()
    quantization.quantize_(model, config)
    program = export(model, (torch.randn(4, 16),), dynamic_shapes=({0: Dim("batch", max=40)},))
    assert "weight_only_product" in [step.op.name for step in program.program.steps]
    for batch in (1, 16, 17, 40):
        x = torch.randn(batch, 16)
        torch.testing.assert_close(program.module()(x), model(x))
