"""The C interface as text: header, names, codes; which programs are refused. Nothing is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

import numod as torch
from numod import nn
from numod.export import ExportError, aot_compile, export, targets
from numod.export.header import example, header, readme
from numod.export.interface import CHECK, Interface, Port, Weight


def _interface(embedded: bool = True) -> Interface:
    inputs = (Port("x", "float32", (2, 3), "float32", 4),)
    outputs = (Port("mask", "bool", (2,), "uint8", 1), Port("z", "complex64", (2,), "complex64", 8))
    return Interface(
        "net",
        inputs,
        outputs,
        (Weight("w", "float32", (3,), 0, 12), Weight("b", "float32", (3,), 12, 12)),
        ("model.py:7",),
        embedded,
    )


def test_the_header_has_the_sizes_and_a_code_for_each_fault() -> None:
    text = header(_interface(), [(_interface(), 100, 100)], 7)
    for line in (
        "NET_ARENA_BYTES    100",
        "NET_WEIGHTS_BYTES  24",
        "NET_ABI            7",
        "NET_X_COUNT 6",
        "NET_Z_COUNT 4",
        f"{CHECK}  /* index out of range, model.py:7",
    ):
        assert f"#define {line}" in text or line in text
    assert (
        "int net_run(const void *weights, void *arena, size_t arena_bytes, const float *x, uint8_t *mask, float *z);"
        in text
    )
    assert (
        "int net_selftest(void *arena, size_t arena_bytes);" in text
        and "int net_selftest(const void *weights" in header(_interface(False), [(_interface(False), 0, 0)], 7)
    )
    assert _interface().messages()[CHECK].endswith("(model.py:7)")
    assert (
        "net_run(NULL, arena" in example(_interface(), [_interface()])
        and "net.safetensors" in example(_interface(False), [_interface(False)])
        and "24 bytes of weights" in readme(_interface(), [_interface()], ["native"], 1)
    )


def test_the_header_has_the_scales_of_quantized_tensors() -> None:
    ports = Port("x", "uint8", (4,), "uint8", 1, scale=0.05, zero_point=3), Port("y", "int64", (4,), "int64", 8)
    text = header(interface := Interface("net", ports[:1], ports[1:], (), (), True), [(interface, 8, 8)], 7)
    assert "#define NET_X_SCALE 0.05f " in text and "#define NET_X_ZERO_POINT 3\n" in text and "NET_Y_SCALE" not in text


def test_targets_are_rows() -> None:
    assert "cortex-m4" in targets.names()
    with pytest.raises(ValueError, match="there is no target 'z80'; known targets are native"):
        targets.target("z80")


@pytest.mark.parametrize("options, error", [
    ({"targets": "native"}, "sequence of names"), ({"name": "1net"}, "identifier of C"), ({"weights": "none"}, "weights must be"), ({"optimize": "all"}, "optimize"),
], ids=["targets", "name", "weights", "optimize"])  # fmt: skip
def test_bad_options_are_refused(options: dict, error: str, tmp_path: Path) -> None:
    program = export(torch.tanh, (torch.ones(3),))
    with pytest.raises(ValueError, match=error):
        aot_compile(program, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_module_must_be_exported_first(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="export"):
        aot_compile(nn.Linear(2, 2), tmp_path)


def test_everything_that_cannot_be_exported_is_told_at_once(tmp_path: Path) -> None:
    stream, weight = torch.Generator(), torch.ones(3, requires_grad=True)

    def hard(x: torch.Tensor) -> torch.Tensor:
        (weight * x).sum().backward()
        return x + torch.rand(3, generator=stream)

    program = export(hard, (torch.randn(3),))
    with pytest.raises(ExportError) as caught:
        aot_compile(program, tmp_path / "out")
    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 2 and "generator of its own" in problems and ".grad" in problems
    assert not (tmp_path / "out").exists()


def test_functions_of_lapack_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"test_interface\.py:\d+: \w+ is computed by NumPy"):
        aot_compile(export(lambda x: torch.linalg.eigvalsh(x + x.t()), (torch.eye(3),)), tmp_path)


def test_the_command_reports_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from numod.__main__ import main

    assert main(["export", str(tmp_path / "nothing.pt"), "-o", str(tmp_path / "out")]) == 1
    assert "nothing.pt" in capsys.readouterr().err
    (tmp_path / "train.py").write_text("print('a script, not a program')")
    assert main(["export", str(tmp_path / "train.py")]) == 1
    assert capsys.readouterr().err.startswith("export: load: ")
    torch.jit.trace(lambda x: torch.linalg.eigvalsh(x), torch.eye(3)).save(tmp_path / "matrix.pt")
    assert main(["export", str(tmp_path / "matrix.pt"), "-o", str(tmp_path / "out")]) == 1
    assert "LAPACK" in capsys.readouterr().err and not (tmp_path / "out").exists()
