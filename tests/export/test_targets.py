"""Exported code for other processors, run by emulators, and what its object files need.

Marker `export`; a target whose tools are not there is skipped.

One small network is compiled for all targets, which takes about a minute on two idle cores.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from object_files import undefined_and_writable

import numod as torch
from numod import nn
from numod.ao import quantization
from numod.device import helpers
from numod.ao.nn.quantized import FloatFunctional
from numod.export import Artifact, aot_compile, export, libraries, targets
from numod.export.integers import without_floats

pytestmark = pytest.mark.export
LIBM = {"fmaf", "fma"}
RUNNERS = {  # compiler, emulator
    "x86-64": ("cc", ()), "x86-64-v2": ("cc", ()), "aarch64": ("aarch64-linux-gnu-gcc", ("qemu-aarch64",)),
    "armv7": ("arm-linux-gnueabihf-gcc", ("qemu-arm",)),
    "riscv64": ("riscv64-linux-gnu-gcc", ("qemu-riscv64",)),
}  # fmt: skip
NODE = """
const fs = require('fs'), header = fs.readFileSync(process.argv[2] + '/net.h', 'utf8');
const number = name => parseInt(header.match(new RegExp('#define NET_' + name + ' +(\\\\d+)'))[1]);
WebAssembly.instantiate(fs.readFileSync(process.argv[2] + '/net-' + process.argv[3] + '.wasm'), {}).then(({instance}) => {
  const {memory, __heap_base, net_selftest} = instance.exports, base = (__heap_base.value + 63) & ~63;
  memory.grow(Math.ceil(number('SELFTEST_BYTES') / 65536) + 1);
  process.exit(net_selftest(base, number('SELFTEST_BYTES')));
});
"""
START = """
#include "net.h"
static _Alignas(64) unsigned char arena[NET_SELFTEST_BYTES];
extern unsigned _stack;
static void leave(int code) {  /* semihosting: exit with a code */
    unsigned block[2] = {0x20026, (unsigned)code};
    register unsigned r0 __asm__("r0") = 0x20, r1 __asm__("r1") = (unsigned)block;
    __asm__ volatile("bkpt 0xab" : : "r"(r0), "r"(r1) : "memory");
}
void start(void) {
    *(volatile unsigned *)0xE000ED88 |= 0xF << 20;  /* the floating-point unit on */
    __asm__ volatile("dsb; isb");
    leave(net_selftest(arena, sizeof arena));
    for (;;) ;
}
__attribute__((section(".vectors"), used)) static void (*const vectors[])(void) = {(void (*)(void))&_stack, start};
"""
LAYOUT = """
MEMORY { FLASH (rx) : ORIGIN = 0, LENGTH = 4M  RAM (rw) : ORIGIN = 0x20000000, LENGTH = 4M }
_stack = ORIGIN(RAM) + LENGTH(RAM);
SECTIONS { .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) } > FLASH  .ARM.exidx : { *(.ARM.exidx*) } > FLASH  .bss : { *(.bss*) *(.data*) } > RAM }
ENTRY(start)
"""


class Net(nn.Module):
    """Convolution, product, division of integers, softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 4, 3), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor, k: torch.Tensor) -> tuple:
        hidden = torch.max_pool2d(torch.tanh(self.conv(x)), 2)
        return torch.softmax(self.out(hidden.flatten(1)), -1), k // 3 % 5


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    torch.manual_seed(0)
    net = Net().eval()
    inputs = torch.randn(1, 1, 6, 6), torch.tensor([7, -8, 9, -(1 << 40)])
    names = (
        *RUNNERS, "x86-64-v3", "x86-64-v4", "cortex-m0", "cortex-m4", "cortex-m33", "cortex-m55", "riscv32",
        "wasm", "wasm-scalar",
        "windows-x86-64", "macos-arm64",
    )  # fmt: skip
    return aot_compile(export(net, inputs), tmp_path_factory.mktemp("targets"), targets=names)


def _needs(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.mark.parametrize("name", RUNNERS)
def test_the_self_test_passes_on(name: str, artifact: Artifact) -> None:
    compiler, emulator = RUNNERS[name]
    _needs(compiler, *emulator)
    subprocess.run(
        [compiler, "-O1", "-static", "example.c", f"net-{name}.o", "-lm", "-o", f"example-{name}"],
        cwd=artifact.folder,
        check=True,
    )
    done = subprocess.run([*emulator, f"./example-{name}"], cwd=artifact.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("code", ["net-windows-x86-64.obj", "net-windows-x86-64.dll"])
def test_the_self_test_passes_on_windows(code: str, artifact: Artifact) -> None:
    _needs("x86_64-w64-mingw32-gcc", "wine")
    command = ["x86_64-w64-mingw32-gcc", "-O1", "-static", "example.c", code, "-lm", "-o", f"example-{code}.exe"]
    subprocess.run(command, cwd=artifact.folder, check=True)
    quiet = {**os.environ, "WINEPREFIX": str(artifact.folder / "wine"), "WINEDEBUG": "-all"}
    done = subprocess.run(["wine", f"example-{code}.exe"], cwd=artifact.folder, capture_output=True, env=quiet)
    assert done.returncode == 0 and done.stdout.count(b"=") >= 5, done.stderr


@pytest.mark.parametrize("name", ["wasm", "wasm-scalar"])
def test_the_self_test_passes_in_webassembly(name: str, artifact: Artifact) -> None:
    _needs("wasm-ld", "node")
    subprocess.run(["node", "-e", NODE, "-", str(artifact.folder), name], check=True)


CORES = {  # compiler's options, machine, whether it has a floating-point unit
    "cortex-m0": ("-mcpu=cortex-m0 -mthumb -mfloat-abi=soft", "microbit", False),
    "cortex-m4": ("-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard", "mps2-an386", True),
    "cortex-m33": ("-mcpu=cortex-m33 -mthumb -mfpu=fpv5-sp-d16 -mfloat-abi=hard", "mps2-an505", True),
    "cortex-m55": ("-mcpu=cortex-m55 -mthumb -mfloat-abi=hard", "mps3-an547", True),
}
MEMORY = {  # where it lies on other boards, and how much there is
    "cortex-m0": {"LENGTH = 4M  RAM": "LENGTH = 256K  RAM", "LENGTH = 4M }": "LENGTH = 16K }"},
    "cortex-m33": {"ORIGIN = 0,": "ORIGIN = 0x10000000,", "0x20000000": "0x38000000"},
    "cortex-m55": {"LENGTH = 4M": "LENGTH = 512K"},
}


# microbit, the board with a Cortex-M0, has 16 kB of memory: too little for the self-test of this network
@pytest.mark.parametrize("name", ["cortex-m4", "cortex-m33", "cortex-m55"])
def test_the_self_test_passes_on_a_microcontroller(name: str, artifact: Artifact, tmp_path: Path) -> None:
    assert _self_test(name, artifact, tmp_path) == 0


def _self_test(name: str, artifact: Artifact, folder: Path) -> int:
    """The result of the self-test on an emulated microcontroller, linked without any library."""
    return _status(name, artifact, folder, START)


def _status(name: str, artifact: Artifact, folder: Path, start: str, *libraries: str) -> int:
    """The status with which a program for an emulated microcontroller ends."""
    _needs("arm-none-eabi-gcc", "qemu-system-arm")
    options, board, floats = CORES[name]
    start = start if floats else re.sub(r".*(0xE000ED88|dsb).*\n", "", start)
    layout = LAYOUT
    for text, on_board in MEMORY.get(name, {}).items():
        layout = layout.replace(text, on_board)
    (folder / "start.c").write_text(start)
    (folder / "layout.ld").write_text(layout)
    code = str(artifact.path(name, library=False))
    command = f"arm-none-eabi-gcc {options} -O1 -nostdlib -nostartfiles -T layout.ld -Wl,--gc-sections -o net.elf"
    sources = f"-I{artifact.folder}", "start.c", code, *libraries
    subprocess.run([*command.split(), *sources], cwd=folder, check=True)
    machine = ["qemu-system-arm", "-M", board, "-nographic", "-semihosting", "-kernel", "net.elf"]
    return subprocess.run(machine, cwd=folder, timeout=60).returncode


def _quantized(model: nn.Module, x: torch.Tensor) -> tuple[nn.Module, torch.Tensor]:
    """(the quantized layers of a model that begins with a layer and a ReLU, a quantized input)."""
    wrapped = quantization.QuantWrapper(quantization.fuse_modules(model.eval(), ["0", "1"]))
    wrapped.qconfig = quantization.get_default_qconfig("qnnpack")
    prepared = quantization.prepare(wrapped)
    prepared(x)
    converted = quantization.convert(prepared)
    return converted.module, converted.quant(x[:1])


class Block(nn.Module):
    """A convolution with a residual, as in a ResNet, or with norms and functions, as in a MobileNet."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers, self.add = nn.Sequential(*layers), FloatFunctional()
        self.pool, self.out = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.pool(self.add.add_relu(self.layers(x), x)).flatten(1))


def _integer_networks() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Networks of which parts other than products compute in floats elsewhere, with inputs."""
    images = torch.randn(32, 4, 6, 6)
    return {
        "residual": (Block(nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 3, padding=1)), images),
        "mobile": (
            Block(nn.Conv2d(4, 6, 1), nn.BatchNorm2d(6), nn.Hardswish(), nn.Conv2d(6, 6, 3, padding=1, groups=6),
                nn.ReLU6(), nn.Conv2d(6, 4, 1)),
            images,
        ),
        "sigmoid": (nn.Sequential(nn.Linear(8, 6), nn.Sigmoid(), nn.Linear(6, 3), nn.Tanh()), torch.randn(32, 8)),
    }  # fmt: skip


COMPARE = """
void start(void) {
    for (int k = 0; k < COUNT; ++k) {
        net_run(0, arena, sizeof arena, inputs + k * (sizeof inputs / COUNT), output);
        for (int j = 0; j < NET_OUTPUT_COUNT; ++j) if (output[j] != results[k * NET_OUTPUT_COUNT + j]) leave(1);
    }
    leave(0);
    for (;;) ;
}
"""


def _floats_of(code: Path) -> list[str]:
    """The functions for floating point that an object file defines or needs."""
    symbols = subprocess.run(["arm-none-eabi-nm", code], capture_output=True, text=True, check=True).stdout.split()
    return [name for name in symbols if re.match(r"__aeabi_(c?[fd]|.*2[fd]$)|rint|f?max|f?min|exp|__.*[sd]f", name)]


@pytest.mark.parametrize("network", ["residual", "mobile", "sigmoid"])
def test_networks_of_integers_run_without_floating_point(network: str, tmp_path: Path) -> None:
    """Random and extreme bytes give what the program of integers gives here, and within 1 what the network gives."""
    _needs("arm-none-eabi-nm")
    torch.manual_seed(0)
    model, x = _integer_networks()[network]
    wrapped = quantization.QuantWrapper(model.eval())
    wrapped.qconfig = quantization.get_default_qconfig("qnnpack")
    prepared = quantization.prepare(wrapped)
    prepared(x)
    converted = quantization.convert(prepared)
    program = export(converted.module, (converted.quant(x[:1]),)).frozen()
    artifact = aot_compile(program, tmp_path, targets=["cortex-m0"], optimize="size", options={"integer_only": True})
    assert not _floats_of(artifact.path("cortex-m0", library=False))
    inputs = torch.randint(0, 256, (12, *x.shape[1:])).to(torch.uint8)
    inputs[0], inputs[1] = 0, 255
    integers = without_floats(program.with_byte_constants()).module()
    results = torch.cat([integers(one[None]) for one in inputs])
    expected = torch.cat([program.module()(one[None]) for one in inputs])
    assert (results.int() - expected.int()).abs().max() <= 1
    arrays = "".join(
        f"static const uint8_t {name}[] = {{{', '.join(map(str, tensor.flatten().tolist()))}}};\n"
        for name, tensor in (("inputs", inputs), ("results", results))
    )
    head, _, tail = START.partition("void start(void) {")
    start = f"{head}#define COUNT 12\n{arrays}static uint8_t output[NET_OUTPUT_COUNT];\n{COMPARE}"
    assert _status("cortex-m0", artifact, tmp_path, start + tail.partition("}\n")[2], "-lgcc") == 0


QUANTIZED = {  # a model and its inputs, the most bytes of code and constants
    "layers": lambda: (nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), torch.randn(50, 64), 4096),
    "images": lambda: (
        nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, 2, groups=8),
            nn.Flatten(), nn.Linear(32, 4)),
        torch.randn(50, 1, 10, 10), 8192,
    ),
}  # fmt: skip


def _guide_program() -> str:
    """The C program in the guide's section on microcontrollers."""
    page = Path(torch.__file__).parent / "guide" / "export.md"
    return re.search(r"```c\n(.*?)```", page.read_text(encoding="utf-8"), re.S)[1]


@pytest.mark.parametrize("name", ["cortex-m0", "cortex-m4"])
def test_the_program_of_the_guide_runs_on_a_microcontroller(name: str, tmp_path: Path) -> None:
    """It quantizes the input by the scale of the header; the result is the class of the quantized network."""
    torch.manual_seed(0)
    net, x, _ = QUANTIZED["layers"]()
    model, integers = _quantized(net, x)
    program = export(model, (integers,)).frozen()
    assert program.scales["input0"] == (integers.q_scale(), integers.q_zero_point())
    artifact = aot_compile(program, tmp_path, targets=[name], optimize="size")
    values = ", ".join(f"{value!r}f" for value in x[0].tolist())
    start = START[START.index("extern unsigned") :].replace("net_selftest(arena, sizeof arena)", "classify(values)")
    text = f"{_guide_program()}\nstatic const float values[] = {{{values}}};\n{start}"
    best = int(model(integers).int_repr().argmax())
    assert _status(name, artifact, tmp_path, text, "-lgcc") == best


@pytest.mark.parametrize("network", QUANTIZED)
def test_quantized_networks_need_no_floating_point(network: str, tmp_path: Path) -> None:
    _needs("arm-none-eabi-nm", "arm-none-eabi-size")
    torch.manual_seed(0)
    model, x, most = QUANTIZED[network]()
    model, x = _quantized(model, x)
    program = export(model, (x,)).frozen()
    assert torch.equal(program.module()(x.int_repr()), model(x).int_repr())
    artifact = aot_compile(program, tmp_path, targets=["cortex-m0"], optimize="size")
    code = artifact.path("cortex-m0", library=False)
    assert not _floats_of(code)
    size = subprocess.run(["arm-none-eabi-size", "-A", code], capture_output=True, text=True, check=True).stdout
    sections = [line.split() for line in size.splitlines() if line.startswith((".text", ".rodata"))]
    assert sum([int(row[1]) for row in sections]) <= most
    assert _self_test("cortex-m0", artifact, tmp_path) == 0


BARE = "cortex-m0", "cortex-m4", "cortex-m33", "cortex-m55", "riscv32"


@pytest.mark.parametrize("name", [*RUNNERS, "x86-64-v3", "x86-64-v4", *BARE, "windows-x86-64", "macos-arm64"])
def test_objects_need_nothing_but_memory_functions_and_have_nothing_writable(name: str, artifact: Artifact) -> None:
    undefined, writable = undefined_and_writable(artifact.path(name, library=False).read_bytes())
    known = helpers.MEMORY | LIBM
    if name == "macos-arm64":  # where LLVM fills memory by two more functions of the system
        known = {f"_{symbol}" for symbol in known | {"bzero", "memset_pattern16"}}
    assert undefined <= (set() if name in BARE else known)
    assert not writable


def test_results_agree_across_processors(artifact: Artifact) -> None:
    ready = [name for name, tools in RUNNERS.items() if all(map(shutil.which, (tools[0], *tools[1])))]
    if not ready:
        pytest.skip("needs a C compiler")
    with torch.no_grad():
        torch.manual_seed(0)
        want = Net().eval()(torch.zeros(1, 1, 6, 6), torch.zeros(4, dtype=torch.int64))[0].flatten().tolist()
    for name in ready:
        program = f"show-{name}"
        command = [RUNNERS[name][0], "-O1", "-static", "example.c", f"net-{name}.o", "-lm", "-o", program]
        subprocess.run(command, cwd=artifact.folder, check=True)
        done = subprocess.run(
            [*RUNNERS[name][1], f"./{program}"], cwd=artifact.folder, capture_output=True, text=True, check=True
        )
        shown = [float(line.split("=")[1]) for line in done.stdout.splitlines()]
        assert all(abs(a - b) < 1e-5 for a, b in zip(shown, want, strict=True)), name


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])  # valgrind knows no AVX-512
def test_valgrind_finds_nothing(target: str, artifact: Artifact) -> None:
    _needs("cc", "valgrind")
    command = f"cc -O1 -g example.c net-{target}.o -lm -o example-valgrind"
    subprocess.run(command.split(), cwd=artifact.folder, check=True)
    watched = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", "./example-valgrind"]
    done = subprocess.run(watched, cwd=artifact.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_objects_have_their_formats(artifact: Artifact) -> None:
    starts = {
        "windows-x86-64": b"\x64\x86",
        "macos-arm64": b"\xcf\xfa\xed\xfe",
        "wasm": b"\0asm",
        "cortex-m4": b"\x7fELF\1",
        "aarch64": b"\x7fELF\2",
    }
    assert all(artifact.path(name, library=False).read_bytes().startswith(start) for name, start in starts.items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_mathematics_needs_no_library_on_bare_processors(dtype: torch.dtype, tmp_path: Path) -> None:
    def functions(x: torch.Tensor) -> torch.Tensor:
        values = [torch.exp(x), torch.log(x), torch.sin(x), torch.cos(x), torch.tan(x), torch.tanh(x), torch.erf(x)]
        values += [x**x, torch.fmod(x, 0.7), torch.lgamma(x), torch.floor(x), torch.round(x), torch.expm1(x)]
        return torch.stack(values)

    names = ["cortex-m0", "riscv32", *(["wasm"] if shutil.which("wasm-ld") else [])]
    written = aot_compile(export(functions, (torch.rand(3).to(dtype) + 1,)), tmp_path, targets=names)
    assert not written.notes
    for name in names:
        assert not helpers.undefined_symbols(written.path(name, library=False).read_bytes()), name


def test_libraries_are_linked_by_lld_alone(artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _needs("ld.lld")
    shutil.copy(artifact.path("x86-64-v2", library=False), tmp_path)
    lld = shutil.which("ld.lld")
    monkeypatch.setattr(libraries.shutil, "which", {"ld.lld": lld}.get)
    monkeypatch.setattr(libraries, "_zig", lambda: None)
    assert libraries.link(tmp_path, "net", ["net_run", "net_error"], targets.target("x86-64-v2")) == ""
    assert ctypes.CDLL(str(tmp_path / "net-x86-64-v2.so")).net_run(None, None, 0, None, None, None, None) != 0


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("windows-x86-64", "x86_64-w64-mingw32-gcc, or ziglang"), ("macos-arm64", "install ziglang"),
        ("aarch64", "aarch64-linux-gnu-gcc, lld, or ziglang"), ("wasm", "install lld, or ziglang"),
    ],
)  # fmt: skip
def test_where_no_linker_is_installed_it_says_what_helps(
    name: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries.shutil, "which", lambda tool: None)
    monkeypatch.setattr(libraries, "_zig", lambda: None)
    assert advice in libraries.link(tmp_path, "net", ["net_run"], targets.target(name))


@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m4"])
def test_dynamic_layers_read_packed_weights_on_a_microcontroller(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = quantization.quantize_dynamic(
        nn.Sequential(nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 2)).eval(), {nn.Linear}
    )
    artifact = aot_compile(export(model, (torch.randn(2, 9),)), tmp_path, targets=[target])
    assert "int8" not in [row["dtype"] for row in json.loads((tmp_path / "net.json").read_text())["weights"]]
    assert _self_test(target, artifact, tmp_path) == 0
