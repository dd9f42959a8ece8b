"""`python -m perf export`: sizes and times of exported networks, beside `numod.compile`, and beside ONNX Runtime and
emx-onnx-cgen where they are installed.

Needs cc; a row whose tools are missing says so. Times are the best of several rounds, in one thread, and all that a row
compares is timed in this one run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import networks
from .peers import session

_NETWORKS = {
    "lenet": networks.lenet(1),
    "mlp": networks.perceptron(4, 3, 1, batch=1, activation="Tanh"),
    "resnet18": networks.resnet18(1),
}
_TURNS = 4  # rounds in which what a row compares is timed in turns: the machine's speed changes within seconds
_FLEXIBLE = "+batch"  # after the name of a network that is exported for batches of 1 to 8
_CORTEX_M4 = "-mcpu=cortex-m4 -mthumb -mfpu=fpv4-sp-d16 -mfloat-abi=hard -Os"
_TIMER = """
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>
DECLARED
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
int main(void)
{
    double best = 1e9;
    long calls = 1;
    BEGIN
    for (int round = 0; round < 40; round++) {
        double start = now();
        for (long k = 0; k < calls; k++)
            CALL
        double each = (now() - start) / calls;
        if (each < best) best = each;
        calls = (long)(0.01 / best) + 1;
    }
    printf("%.9g\\n", best);
    return 0;
}
"""
_HEADER = '#include "net.h"\nstatic _Alignas(64) unsigned char arena[NET_ARENA_BYTES];\n'
_EMX = """
extern void emx(const float *, float *);
static _Alignas(64) float x[INPUTS], y[OUTPUTS];
"""
_EMX_OPTIONS = "--model-name emx --restrict-arrays --large-temp-threshold 0 --large-weight-threshold 0"
_IN_NODE = """
import { load } from "./net.js";
const net = await load(), x = new Float32Array(net.inputs[0].count).fill(0.5);
let best = Infinity;
for (let round = 0; round < 60; round++) {
  const start = performance.now();
  for (let k = 0; k < 100; k++) net.check(net.call("run", net.weights, net.arena, 1e9, ...net.places));
  best = Math.min(best, (performance.now() - start) / 100);
}
console.log(best / 1000);
"""
_PREDICTION = "import sys; sys.path.insert(0, sys.argv[1]); import net; net.load().run([[[[0.5] * 28] * 28]])"
_MEMORY = """
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])"""
_FIRMWARE = '#include "net.h"\nvolatile float data[16]; static _Alignas(8) unsigned char arena[NET_ARENA_BYTES];\n'


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m perf export", description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", default="", metavar="TEXT", help="only rows whose name has this text")
    options = parser.parse_args(arguments)
    import numod as torch

    torch.set_num_threads(1)
    print(f"{'what':<58} {'measured':>26} {'bar':>16}  met")
    with tempfile.TemporaryDirectory() as folder:
        for name, bar, measure in _rows(_Exports(Path(folder))):
            if options.rows in name:
                print(_line(name, bar, measure), flush=True)
    return 0


def _line(name: str, bar: str, measure: Callable[[], tuple[str, bool | None]]) -> str:
    try:
        text, met = measure()
    except Exception as problem:  # one row's trouble is told, and the others are measured
        text, met = f"not measured: {type(problem).__name__}: {str(problem).splitlines()[0][:90]}", None
    return f"{name:<58} {text:>26} {bar:>16}  {'' if met is None else 'yes' if met else 'no'}"


class _Exports:
    """Networks as native code, each compiled once."""

    def __init__(self, home: Path) -> None:
        self.home, self.made = home, {}

    def get(self, name: str, target: str = "native", **options: str) -> Path:
        """The folder of a network's files for a target."""
        key = "-".join((name, target, *options.values()))
        if key not in self.made:
            import numod as torch

            start = time.perf_counter()
            module, inputs = self.network(name)
            flexible = ({0: torch.export.Dim("batch", max=8)},) if name.endswith(_FLEXIBLE) else None
            program = module if name == "step" else torch.export.export(module, inputs, dynamic_shapes=flexible)
            torch.export.aot_compile(program, self.home / key, targets=(target,), **options)
            self.made[key] = time.perf_counter() - start
        return self.home / key

    def network(self, name: str) -> tuple:
        """A network in evaluation mode with its inputs; for "step" a captured training step."""
        import numod as torch

        torch.manual_seed(0)
        if name == "step":
            return _training_step(torch), ()
        module, inputs = _NETWORKS[name.removesuffix(_FLEXIBLE)](torch)
        return module.eval(), tuple(map(torch.tensor, inputs))

    def from_c(self, name: str, target: str = "native") -> Callable[[], float]:
        """Measures the seconds of `net_run`, called from C."""
        folder = self.get(name, target)
        (folder / "timer.c").write_text(_timer(json.loads((folder / "net.json").read_text())))
        return _timer_of(folder, f"cc -O2 -std=c11 timer.c net-{target}.o")

    def compiled(self, name: str) -> Callable[[], float]:
        """Measures the seconds of `numod.compile`, called from Python."""
        import numod as torch

        module, inputs = self.network(name)
        fast = torch.compile(module)

        def seconds() -> float:
            with torch.no_grad():
                return _best(lambda: fast(*inputs))

        return seconds

    def onnxruntime(self, name: str) -> Callable[[], float]:
        """Measures the seconds of ONNX Runtime with one thread."""
        import torch

        from .peers import set_threads

        set_threads(1, ["PyTorch"])
        module, inputs = _NETWORKS[name](torch)
        return partial(_best, session(module.eval(), inputs).values)

    def emx(self, name: str) -> Callable[[], float]:
        """Measures the seconds of emx-onnx-cgen's C, compiled for speed by gcc."""
        import numod as torch

        if importlib.util.find_spec("emx_onnx_cgen") is None:
            raise ModuleNotFoundError("pip install emx-onnx-cgen 'numod[onnx]'")
        module, inputs = self.network(name)
        folder = self.home / f"{name}-emx"
        folder.mkdir(exist_ok=True)
        torch.onnx.export(module, inputs, folder / "net.onnx")
        command = f"{sys.executable} -m emx_onnx_cgen compile net.onnx emx.c {_EMX_OPTIONS}"
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
        counts = {"INPUTS": inputs[0].numel(), "OUTPUTS": module(*inputs).numel()}
        declared = _EMX
        for word, count in counts.items():
            declared = declared.replace(word, str(count))
        (folder / "timer.c").write_text(_timed(declared, "emx(x, y);"))
        return _timer_of(folder, "gcc -O3 -march=native timer.c emx.c")

    def firmware(self, name: str, **options: str) -> int:
        """Bytes of code and constants of a program for Cortex-M4 that calls `net_run` and nothing else."""
        folder = self.get(name, "cortex-m4", optimize="size", **options)
        about = json.loads((folder / "net.json").read_text())
        state = about.get("stateful")
        data_arguments = "".join(", (void *)data" for _ in (*about["inputs"], *about["outputs"]))
        block = "state" if state else "0"
        begin = "net_state_init(state); " if state else ""
        declared = "static _Alignas(8) unsigned char state[NET_WEIGHTS_BYTES];\n" if state else ""
        call = f"int main(void) {{ {begin}return net_run({block}, arena, sizeof arena{data_arguments}); }}\n"
        (folder / "main.c").write_text(_FIRMWARE + declared + call)
        alone = "-nostdlib -nostartfiles -Wl,--gc-sections -Wl,-emain"
        command = f"arm-none-eabi-gcc {_CORTEX_M4} {alone} main.c net-cortex-m4.o -o all".split()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        completed = subprocess.run(
            ["arm-none-eabi-size", "all"], cwd=folder, check=True, capture_output=True, text=True
        )
        return int(completed.stdout.split("\n")[1].split()[0])


def _training_step(torch: object) -> object:
    """A captured training step of the MLP 4-3-1: forward, loss, backward, SGD."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: object, y: object) -> object:
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return torch.export.export(step, (torch.ones(1, 4), torch.ones(1, 1)))


def _timer(about: dict) -> str:
    """A C program that prints the seconds of a call."""
    ports = [*about["inputs"], *about["outputs"]]
    state = about.get("stateful")
    sizes = [size["size"] for size in about["sizes"]]
    size_arguments = f"({', '.join(map(str, sizes))})" if sizes else ""
    counts = [f"NET_{port['name'].upper()}_COUNT{size_arguments}" for port in ports]
    arrays = [f"data{k}[{port['itemsize']} * {count} + 1]" for k, (port, count) in enumerate(zip(ports, counts))]
    declared = "".join(f"static _Alignas(64) unsigned char {array};\n" for array in arrays)
    declared += "static _Alignas(64) unsigned char state[NET_WEIGHTS_BYTES + 1];\n" if state else ""
    size_arguments = "".join(f", {size}" for size in sizes) + "".join(f", (void *)data{k}" for k in range(len(ports)))
    call = f"if (net_run({'state' if state else 'NULL'}, arena, sizeof arena{size_arguments})) return 1;"
    return _timed(_HEADER + declared, call, "net_state_init(state);" if state else "")


def _timed(declared: str, call: str, begin: str = "") -> str:
    """A C program that prints the seconds of a call."""
    return _TIMER.replace("DECLARED", declared).replace("BEGIN", begin).replace("CALL", call)


def _timer_of(folder: Path, command: str) -> Callable[[], float]:
    """Compiles a timer; each call runs it and returns the seconds of a call of the network."""
    subprocess.run(f"{command} -lm -o timer".split(), cwd=folder, check=True)
    return lambda: float(subprocess.run(["./timer"], cwd=folder, check=True, capture_output=True).stdout)


def _best(call: Callable[[], object], seconds: float = 0.5) -> float:
    """The least mean time of a call, in rounds of some milliseconds."""
    for _ in range(3):
        call()
    start = time.perf_counter()
    call()
    count = max(1, int(0.005 / max(time.perf_counter() - start, 1e-7)))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def _rows(exports: _Exports) -> list[tuple[str, str, Callable[[], tuple[str, bool | None]]]]:
    """(what, bar, measurement -> (text, whether the bar is met))."""
    return [
        ("LeNet, x86-64-v3 .so, weights in a file", "<= 64 kB", partial(_library, exports)),
        ("MLP 4-3-1, cortex-m4, size, with weights", "<= 2048 bytes", lambda: _bytes(exports.firmware("mlp"), 2048)),
        ("its training step", "<= 6144 bytes", lambda: _bytes(exports.firmware("step"), 6144)),
        ("process start to first LeNet prediction, net.py", "<= 50 ms", partial(_start, exports)),
        ("memory of it over a bare process", "<= 12 MB", partial(_memory, exports)),
        ("LeNet from C / numod.compile from Python", "<= 1.0", partial(_ratio, exports, "lenet", "compiled", 1.0)),
        ("LeNet from C / ONNX Runtime", "<= 0.5", partial(_ratio, exports, "lenet", "onnxruntime", 0.5)),
        (
            "LeNet from C / emx-onnx-cgen, gcc -O3 native",
            "<= 0.35",
            partial(_ratio, exports, "lenet", "emx", 0.35),
        ),
        ("MLP 4-3-1 from C", "<= 60 ns", lambda: _nanoseconds(exports.from_c("mlp")(), 60)),
        ("MLP 4-3-1 with a batch argument, from C", "", lambda: _nanoseconds(exports.from_c("mlp" + _FLEXIBLE)(), 1e9)),
        ("its training step from C", "<= 400 ns", lambda: _nanoseconds(exports.from_c("step")(), 400)),
        ("ResNet-18 (CIFAR) from C / ONNX Runtime", "<= 0.9", partial(_ratio, exports, "resnet18", "onnxruntime", 0.9)),
        ("LeNet in wasm (simd128, node) / x86-64-v2 from C", "<= 3", partial(_wasm, exports)),
        ("aot_compile of LeNet for one more target", "<= 6 s", partial(_compile_time, exports)),
    ]


def _library(exports: _Exports) -> tuple[str, bool]:
    """Only what `net_run` needs."""
    folder = exports.get("lenet", "x86-64-v3", weights="file")
    linked = "cc -shared -Wl,--gc-sections -s -Wl,-z,noseparate-code -Wl,--build-id=none -Wl,-u,net_run".split()
    only = ["-Wl,--version-script=run.map", "net-x86-64-v3.o", "-o", "run.so"]
    (folder / "run.map").write_text("{ global: net_run; local: *; };\n")
    subprocess.run([*linked, *only], cwd=folder, check=True)
    size = (folder / "run.so").stat().st_size
    return f"{size:,} bytes", size <= 64_000


def _bytes(size: int, bar: int) -> tuple[str, bool]:
    return f"{size:,} bytes", size <= bar


def _nanoseconds(seconds: float, bar: float) -> tuple[str, bool]:
    return f"{1e9 * seconds:.1f} ns", 1e9 * seconds <= bar


def _ratio(exports: _Exports, name: str, peer: str, bar: float) -> tuple[str, bool]:
    both = exports.from_c(name), getattr(exports, peer)(name)
    numod_seconds, other = (min(times) for times in zip(*[[measure() for measure in both] for _ in range(_TURNS)]))
    return (
        f"{numod_seconds / other:.2f} ({1e6 * numod_seconds:.1f} / {1e6 * other:.1f} us)",
        numod_seconds / other <= bar,
    )


def _wasm(exports: _Exports) -> tuple[str, bool]:
    if not shutil.which("node"):
        raise FileNotFoundError("node is not installed")
    folder = exports.get("lenet", "wasm")
    (folder / "timer.mjs").write_text(_IN_NODE)
    (folder / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(["node", "timer.mjs"], cwd=folder, check=True, capture_output=True, text=True)
    seconds, numod_seconds = float(done.stdout), exports.from_c("lenet", "x86-64-v2")()
    return (
        f"{seconds / numod_seconds:.2f} ({1e6 * seconds:.1f} / {1e6 * numod_seconds:.1f} us)",
        seconds / numod_seconds <= 3,
    )


def _compile_time(exports: _Exports) -> tuple[str, bool]:
    """From the captured program to the files, in a process that has compiled for another target before."""
    exports.get("lenet", "x86-64-v2")
    exports.get("lenet", "aarch64")
    return f"{exports.made['lenet-aarch64']:.1f} s", exports.made["lenet-aarch64"] <= 6


def _start(exports: _Exports) -> tuple[str, bool]:
    python = [sys.executable, "-I", "-S", "-c"]  # the packages of the environment may import much at the start
    commands = [*python, _PREDICTION, str(exports.get("lenet"))], [*python, "pass"]
    best, bare = (1e3 * min(times) for times in zip(*[[*map(_seconds, commands)] for _ in range(20)]))
    return f"{best:.1f} ms (bare: {bare:.1f})", best <= 50


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def _memory(exports: _Exports) -> tuple[str, bool]:
    def used(code: str) -> int:
        command = [sys.executable, "-I", "-S", "-c", code + _MEMORY, str(exports.get("lenet"))]
        return int(subprocess.run(command, check=True, capture_output=True).stdout)

    over = (used(_PREDICTION) - used("pass")) / 1024
    return f"{over:.1f} MB", over <= 12
