"""`aot_compile(options={"sparsity": True})`: which weights lose their zeros, and that results stay the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.ao import quantization
from numod.ao.pruning import WeightNormSparsifier
from numod.export import aot_compile, export, load_native, zeros
from numod.nn.utils import prune

OPTIONS = {"freezing": True, "sparsity": True}


def pruned(amount: float = 0.9) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10)).eval()
    for layer in (model[0], model[2]):
        prune.l1_unstructured(layer, "weight", amount)
    return model


def names_of(program: object) -> list[str]:
    return [step.op.name for step in program.steps]


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeros, "is_faster", lambda one, other: True)


@pytest.mark.export
def test_native_code_of_a_pruned_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    model, x = pruned(), torch.randn(1, 64)
    dense = aot_compile(export(model, (x,)), tmp_path / "dense", options={"freezing": True})
    sparse = aot_compile(export(model, (x,)), tmp_path / "sparse", options=OPTIONS)
    assert sparse.weights_bytes < 0.25 * dense.weights_bytes
    got = load_native(sparse.folder).run(x.numpy())
    np.testing.assert_allclose(got, model(x).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_patterns_of_blocks_and_two_of_four() -> None:
    for shape, count in (((1, 4), 4), ((1, 4), 2)):
        model = nn.Sequential(nn.Linear(64, 32))
        sparsifier = WeightNormSparsifier(0.9 if count == 4 else 1.0, shape, count)
        sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
        sparsifier.step()
        sparsifier.squash_mask()
        x = torch.randn(2, 64)
        exported = zeros.without_zeros(export(model.eval(), (x,)).frozen(), measured=False)
        (step,) = exported.program.steps
        assert step.op.name == "compressed_linear" and step.attributes == (count if count == 4 else 1,)
        torch.testing.assert_close(exported.module()(x), model(x))


def test_quantized_layers_keep_their_integers() -> None:
    model, x = pruned(0.8), torch.randn(20, 64)
    for layer in (model[0], model[2]):
        prune.remove(layer, "weight")
    wrapped = quantization.QuantWrapper(quantization.fuse_modules(model, ["0", "1"])).eval()
    wrapped.qconfig = quantization.get_default_qconfig("qnnpack")
    prepared = quantization.prepare(wrapped)
    prepared(x)
    converted = quantization.convert(prepared)
    integers = converted.quant(x)
    exported = zeros.without_zeros(export(converted.module, (integers,)).frozen(), measured=False)
    assert names_of(exported.program) == ["compressed_byte_linear"] * 2
    assert torch.equal(exported.module()(integers.int_repr()), converted.module(integers).int_repr())


def test_weights_that_do_not_pay_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    x = torch.randn(1, 64)
    exported = export(pruned(0.1), (x,)).frozen()
    assert names_of(zeros.without_zeros(exported, True).program) == names_of(exported.program)
    exported = export(pruned(), (x,)).frozen()
    assert "compressed_linear" in names_of(zeros.without_zeros(exported, True).program)
    monkeypatch.setattr(zeros, "is_faster", lambda one, other: False)
    assert names_of(zeros.without_zeros(exported, True).program) == names_of(exported.program)


class _Doubling(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.mul_(2)
        return super().forward(x)


@pytest.mark.parametrize("measured", [False, True])
def test_written_weights_and_weights_of_other_dtypes_stay(monkeypatch: pytest.MonkeyPatch, measured: bool) -> None:
    always(monkeypatch)
    for layer, x in (
        (_Doubling(64, 32), torch.randn(3, 64)),
        (nn.Linear(64, 32).double(), torch.randn(3, 64).double()),
    ):
        torch.nn.init.sparse_(layer.weight, 0.9)
        exported = zeros.without_zeros(export(layer, (x,)).frozen(), measured)
        assert "compressed_linear" not in names_of(exported.program)
        module = exported.module()
        for _ in range(2):
            torch.testing.assert_close(module(x), layer(x).detach())


def test_programs_with_compressed_weights_are_saved(tmp_path: Path) -> None:
    model, x = pruned(), torch.randn(3, 64)
    exported = zeros.without_zeros(export(model, (x,)).frozen(), False)
    torch.export.save(exported, tmp_path / "net.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "net.pt2").module()(x), model(x))


@pytest.mark.export
def test_programs_share_the_weights_that_they_shared(tmp_path: Path) -> None:
    layer, x = nn.Linear(64, 64), torch.randn(1, 64)
    programs = {"one": export(layer, (x,)), "two": export(nn.Sequential(layer, nn.ReLU()), (x,))}
    artifact = aot_compile(programs, tmp_path, options={"freezing": True})
    assert artifact.weights_bytes < 1.5 * 64 * 64 * 4


@pytest.mark.export
def test_programs_share_what_is_computed_of_shared_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed weights, transformed ones, and those with the scale of a batch norm."""
    always(monkeypatch)
    scaled = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32)).eval()
    for folder, part, x, options in (
        (tmp_path / "zeros", pruned(), torch.randn(1, 64), OPTIONS),
        (tmp_path / "scale", scaled, torch.randn(1, 32, 16, 16), {"freezing": True}),
        (tmp_path / "transform", scaled[0], torch.randn(1, 32, 16, 16), {}),
    ):
        one, two = export(part, (x,)), export(nn.Sequential(part, nn.Sigmoid()), (x,))
        alone = aot_compile({"one": one}, tmp_path / "alone", options=options)
        both = aot_compile({"one": one, "two": two}, folder, options=options)
        assert both.weights_bytes == alone.weights_bytes
        native = load_native(folder)
        np.testing.assert_allclose(native.one(x.numpy()), part(x).detach().numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(native.two(x.numpy()), part(x).sigmoid().detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{"sparsity": True}, {"sparse": True}])
def test_refused_options(options: dict, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="options must be of"):
        aot_compile(export(pruned(), (torch.randn(1, 64),)), tmp_path, options=options)


def pruned_convolutions() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 1), nn.Conv2d(16, 16, 3, stride=2, groups=4)
    model = nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(16, 8, 3, padding=2, dilation=2)).eval()
    for layer in model:
        if type(layer) is nn.Conv2d:
            prune.l1_unstructured(layer, "weight", 0.9)
    return model


def test_convolutions_lose_their_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    model, x = pruned_convolutions(), torch.randn(2, 3, 9, 9)
    exported = zeros.without_zeros(export(model, (x,)).frozen(), measured=True)
    assert names_of(exported.program).count("compressed_convolution") == 4
    torch.testing.assert_close(exported.module()(x), model(x).detach(), rtol=1e-4, atol=1e-5)
    torch.export.save(exported, tmp_path / "net.pt2")
    loaded = torch.export.load(tmp_path / "net.pt2").module()
    assert loaded(x).equal(exported.module()(x))


@pytest.mark.export
def test_native_code_of_pruned_convolutions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    model, x = pruned_convolutions(), torch.randn(2, 3, 9, 9)
    dense = aot_compile(export(model, (x,)), tmp_path / "dense", options={"freezing": True})
    sparse = aot_compile(export(model, (x,)), tmp_path / "sparse", options=OPTIONS)
    assert sparse.weights_bytes < 0.35 * dense.weights_bytes
    got = load_native(sparse.folder).run(x.numpy())
    np.testing.assert_allclose(got, model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_transposed_convolutions_and_integers_stay() -> None:
    layer, x = nn.ConvTranspose2d(4, 4, 3), torch.randn(1, 4, 5, 5)
    prune.l1_unstructured(layer, "weight", 0.9)
    exported = zeros.without_zeros(export(layer, (x,)).frozen(), measured=False)
    assert "compressed_convolution" not in names_of(exported.program)
    torch.testing.assert_close(exported.module()(x), layer(x).detach())


def quantized_convolutions() -> tuple[nn.Module, torch.Tensor]:
    """A network that was pruned, then quantized, and its input."""
    model, x = pruned_convolutions(), torch.randn(4, 3, 9, 9)
    for layer in model:
        if type(layer) is nn.Conv2d:
            prune.remove(layer, "weight")
    wrapped = quantization.QuantWrapper(quantization.fuse_modules(model, [["0", "1"], ["3", "4"]])).eval()
    wrapped.qconfig = quantization.get_default_qconfig("qnnpack")
    prepared = quantization.prepare(wrapped)
    prepared(x)
    converted = quantization.convert(prepared)
    return converted.module, converted.quant(x)


def test_quantized_convolutions_lose_their_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The integers are those of the dense weights, in a saved program too."""
    always(monkeypatch)
    module, integers = quantized_convolutions()
    exported = zeros.without_zeros(export(module, (integers,)).frozen(), measured=True)
    assert names_of(exported.program).count("compressed_byte_convolution") == 4
    torch.export.save(exported, tmp_path / "net.pt2")
    result = torch.export.load(tmp_path / "net.pt2").module()(integers.int_repr())
    assert result.equal(module(integers).int_repr())


@pytest.mark.export
def test_native_code_of_quantized_convolutions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    module, integers = quantized_convolutions()
    program, want = export(module, (integers,)), module(integers).int_repr()
    artifact = aot_compile(program, tmp_path / "native", options=OPTIONS)
    np.testing.assert_array_equal(load_native(artifact.folder).run(integers.int_repr().numpy()), want.numpy())
    sizes = [
        aot_compile(program, tmp_path, options={**OPTIONS, "sparsity": sparsity}, targets=["cortex-m4"]).weights_bytes
        for sparsity in (True, False)
    ]
    assert sizes[0] < 0.7 * sizes[1]
