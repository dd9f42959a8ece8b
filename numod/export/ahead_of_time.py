"""`aot_compile`: a program as native code in a folder.

Each target is compiled by a process of its own, several at a time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ..core.create.random import _signed, default_generator, get_rng_state, set_rng_state
from ..core.tensor import Tensor
from ..device import ahead, helpers
from ..graph.backend.executable import Executable
from ..graph.values.pytree import replace
from ..serialization import save_file
from ..serialization.program import load_program
from . import browser, header, levels, libraries, loader, targets
from .entry import Data, Entry
from .interface import VERSION, Arena, Interface, Port, Size, Weight
from .module import Planned, planned, weights_of
from .outputs import outputs_of
from .problems import ExportError, problems
from .polynomial import Terms
from .program import ExportedProgram, save
from .state_file import STATE
from .targets import Target
from .variants import unbounded

_WEIGHTS = ("embedded", "file")
_GOALS = ("speed", "size")


@dataclasses.dataclass(frozen=True)
class Artifact:
    """What `aot_compile` wrote.

    `files` are the names in `folder`; `notes` say what could not be written, and what to install for it.
    """

    folder: Path
    name: str
    targets: tuple[str, ...]
    files: tuple[str, ...]
    arena_bytes: int
    weights_bytes: int
    flops: int
    notes: tuple[str, ...]

    def path(self, target: str, library: bool = True) -> Path:
        """The shared library of a target, or its object file. Raises FileNotFoundError where it was not written."""
        row = targets.target(target)
        found = self.folder / f"{self.name}-{target}{row.library if library else row.object}"
        if found.name not in self.files:
            raise FileNotFoundError(f"{found.name} was not written{': ' if self.notes else ''}{'; '.join(self.notes)}")
        return found


def aot_compile(
    program: ExportedProgram,
    folder: str | os.PathLike,
    *,
    name: str = "net",
    targets: Sequence[str] = ("native",),
    weights: str = "embedded",
    optimize: str = "speed",
) -> Artifact:
    """Write a program as native code that needs no Python: for each target an object file and, where a linker is at
    hand, a shared library.

    `program` comes from `export`, or `numod.jit.trace`. `NAME.h` declares the functions, `NAME.json` describes them,
    `example.c` calls them.

    - `targets`: names of `numod.export.targets`, such as "native", "x86-64-v3", "aarch64", "cortex-m4", "wasm".
    - `weights`: "embedded" in the code, or in a "file" NAME.safetensors, whose data the caller passes in. Their layout
      is the same for all targets.
    - `optimize`: for "speed" or "size".

    Raises ExportError, before anything is written, with a list of all that cannot be exported.
    """
    rows = _checked(program, name, targets, weights, optimize)
    exported = getattr(program, "_exported", program)
    wrong = [*problems(exported.program), *unbounded(exported.dynamic)]
    if wrong:
        raise ExportError(wrong)
    with tempfile.TemporaryDirectory() as scratch:
        job = _Job(Path(scratch), exported, name, weights == "embedded", optimize == "size")
        with ThreadPoolExecutor(max(min(len(rows), os.cpu_count() or 1), 1)) as pool:
            made = [*pool.map(job.compile, rows)]
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    return _written(home, job, rows, made, weights)


def _checked(program: Any, name: str, names: Sequence[str], weights: str, optimize: str) -> list[Target]:
    """The targets. Raises TypeError or ValueError for arguments that are none."""
    if not isinstance(getattr(program, "_exported", program), ExportedProgram):
        raise TypeError(
            f"aot_compile: expected an ExportedProgram, got {type(program).__name__}; make one with "
            "numod.export.export(module, (example,))"
        )
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name, re.A):
        raise ValueError(f"aot_compile: name must be an identifier of C, got {name!r}")
    if weights not in _WEIGHTS or optimize not in _GOALS:
        raise ValueError(
            f"aot_compile: weights must be one of {_WEIGHTS} and optimize one of {_GOALS}, got {weights!r} and "
            f"{optimize!r}"
        )
    if isinstance(names, str) or not names:
        raise ValueError(f"aot_compile: targets must be a sequence of names, such as ('native',), got {names!r}")
    return [targets.target(name) for name in dict.fromkeys(names)]


class _Job:
    """The folder from which workers read, and what the targets have in common."""

    def __init__(self, home: Path, exported: ExportedProgram, name: str, embedded: bool, size: bool) -> None:
        self.home, self.examples, self.about = home, exported.examples, exported.state
        save(exported, home / "program")
        program = load_program(home / "program")  # what the workers read: it may have further checks and constants
        self.stream = _signed(default_generator._seed), default_generator._offset
        self.plan = planned(program, self.stream)
        self.weights = weights_of(self.plan, exported.names)
        self.interface = _interface(self.plan, exported, name, self.weights, embedded)
        self.hash = hashlib.sha256((home / "program").read_bytes()).hexdigest()
        self.abi = int(
            hashlib.sha256(repr(dataclasses.replace(self.interface, embedded=False)).encode()).hexdigest()[:7], 16
        )
        inputs, outputs = [*map(_bytes, exported.examples)], self._results()
        for kind, samples in (("input", inputs), ("output", outputs)):
            for k, sample in enumerate(samples):
                (home / f"{kind}{k}").write_bytes(sample)
        self.samples = tuple(inputs), tuple(outputs)
        self.scales = scales = [_scale(output, port) for output, port in zip(outputs, self.interface.outputs)]
        (home / "header").write_bytes(_header(self.weights, exported.state) if self.interface.stateful else b"")
        names = {str(value.number): name for value, name in exported.names.items()}
        job = {
            "interface": dataclasses.asdict(self.interface),
            "names": names,
            "scales": scales,
            "abi": self.abi,
            "size": size,
            "stream": self.stream,
        }
        (home / "job.json").write_text(json.dumps(job))

    def _results(self) -> list[bytes]:
        """The outputs for the example inputs, of a program of its own: a run may write to what it holds."""
        program = load_program(self.home / "program")
        stream = get_rng_state()
        default_generator._restart(*self.stream)
        try:
            results = Executable(program, "sample")(*[example.clone() for example in self.examples])
        finally:
            set_rng_state(stream)
        found: list[Tensor] = []
        replace(results, lambda each: found.append(each) if isinstance(each, Tensor) else None)
        return [*map(_bytes, found)]

    def compile(self, row: Target) -> tuple[dict, bytes]:
        """What the workers say of a target, and the object file."""
        if not row.levels:
            return self._worked(row)
        names = [f"kernel_{each.replace('-', '_')}" for each in row.levels]
        made = [self._worked(targets.target(each), name) for each, name in zip(row.levels, names)]
        embedded = self.interface.weights if self.interface.embedded else ()
        data = Data(
            b"".join(_bytes(self.weights[weight.name]) for weight in embedded),
            (), *self.samples, tuple(self.scales), self.abi, (self.home / "header").read_bytes(),
        )  # fmt: skip
        several = [Arena(*told["arena"]) for told, _ in made]
        arena = Arena(levels.ROOM + max(each.fixed for each in several), max(each.unit for each in several))
        entry = Entry(self.interface, row.machine, arena, data)
        ports = len(self.interface.sizes) + len(self.interface.inputs) + len(self.interface.outputs)
        text = entry.text().replace(entry.declaration, levels.dispatcher(names, ports))
        code = ahead.merged(
            [*(each.decode() for _, each in made), levels.instructions()], text, entry.exported, row.machine
        )
        return {"arena": dataclasses.astuple(entry.arena)}, code

    def _worked(self, row: Target, level: str = "") -> tuple[dict, bytes]:
        root = str(Path(__file__).parents[2])
        code = f"import sys; sys.path.insert(0, {root!r}); from numod.export.worker import main; main(*sys.argv[1:])"
        command = [sys.executable, "-c", code, str(self.home), json.dumps(dataclasses.asdict(row.machine)), level]
        done = subprocess.run(
            command, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "0", "NUMOD_CACHE_DIR": ""}
        )
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip()
            raise RuntimeError(
                f"aot_compile: compiling for {row.name} failed: "
                f"{last or f'the process ended with code {done.returncode}'}"
            )
        told, _, code = done.stdout.partition(b"\n")
        return json.loads(told), code


def _interface(
    plan: Planned, exported: ExportedProgram, name: str, weights: dict[str, Tensor], embedded: bool
) -> Interface:
    layouts = plan.program.layouts
    written, stateful = plan.written
    dynamic = exported.dynamic
    symbols = [] if dynamic is None else dynamic.symbols
    names = _c_names([*(symbol.name for symbol in symbols), *exported.input_names], "input")
    sizes = tuple(
        [
            Size(name, each.low, each.high, each.size, *dynamic.source(k))
            for k, (name, each) in enumerate(zip(names, symbols))
        ]
    )
    c_names = names[len(sizes) :]
    shapes = [()] * len(c_names) if dynamic is None else dynamic.shapes
    inputs = tuple(
        [
            dataclasses.replace(_port(c_name, layouts[value], dims), written=k in written)
            for k, (c_name, value, dims) in enumerate(zip(c_names, plan.program.inputs, shapes))
        ]
    )
    values = outputs_of(plan.program)
    found = [()] * len(values) if dynamic is None else dynamic.shapes_of_outputs()
    outputs = tuple(
        [
            _port("output" if len(values) == 1 else f"output{k}", layouts[value], dims)
            for k, (value, dims) in enumerate(zip(values, found))
        ]
    )
    placed, offset = [], 0
    # the order of safetensors, in which all are aligned
    for key in sorted(weights, key=lambda key: (-weights[key].dtype.itemsize, key)):
        each = weights[key]
        nbytes = each.numel() * each.dtype.itemsize
        placed.append(Weight(key, each.dtype.name, tuple(each.shape), offset, nbytes))
        offset += nbytes
    return Interface(name, inputs, outputs, tuple(placed), tuple(plan.checks), embedded, stateful, sizes)


def _c_names(names: Sequence[str], fallback: str) -> list[str]:
    """Names that C allows, all different."""
    found: list[str] = []
    for k, each in enumerate(names):
        each = re.sub(r"\W", "_", each, flags=re.A)
        valid = re.fullmatch(r"[A-Za-z]\w*", each) and each not in header.RESERVED
        found.append(each if valid and each not in found else f"{fallback}{k}")
    return found


def _port(name: str, layout: Any, dims: Sequence[Terms] = ()) -> Port:
    storage, shape = layout.storage, tuple(layout.shape)
    return Port(name, layout.dtype.name, shape, storage.name, storage.itemsize, dims=tuple(dims))


def _header(state: dict[str, Tensor], about: dict) -> bytes:
    """What stands before the data in a safetensors file of the state."""
    file = io.BytesIO()
    save_file(state, file, {STATE: json.dumps(about)} if about else None)
    data = file.getvalue()
    return data[: 8 + int.from_bytes(data[:8], "little")]


def _bytes(tensor: Tensor) -> bytes:
    return tensor._storage.data[tensor._offset : tensor._offset + tensor._layout.extent].tobytes()


def _scale(data: bytes, port: Port) -> float:
    """The largest finite absolute value among floats."""
    if port.storage not in ("float32", "float64", "complex64", "complex128"):
        return 0.0
    numbers = np.abs(np.frombuffer(data, port.storage))
    return float(np.max(numbers[np.isfinite(numbers)], initial=0.0))


def _written(home: Path, job: _Job, rows: list[Target], made: list[tuple[dict, bytes]], weights: str) -> Artifact:
    """Write all files, and link."""
    interface, files, notes = job.interface, [], []
    sample = [size.size for size in interface.sizes]
    arenas = [Arena(*told["arena"]) for told, _ in made]
    arena = max(each.most(interface) for each in arenas)

    def put(name: str, content: str | bytes) -> None:
        (home / name).write_bytes(content.encode() if isinstance(content, str) else content)
        files.append(name)

    for row, (_, code) in zip(rows, made):
        put(f"{interface.name}-{row.name}{row.object}", code)
        missing = helpers.undefined_symbols(code) - helpers.MEMORY if row.bare else set()
        if missing:
            notes.append(f"{files[-1]} needs a compiler's run-time library (libgcc) for {', '.join(sorted(missing))}")
    if weights == "file":
        data = b"".join(_bytes(job.weights[weight.name]) for weight in interface.weights)
        header_bytes = _header(job.weights, job.about) if interface.stateful else _header(job.weights, {})
        (home / f"{interface.name}.safetensors").write_bytes(header_bytes + data)
        files.append(f"{interface.name}.safetensors")
    put(f"{interface.name}.h", header.header(interface, arena, max(each.bytes(sample) for each in arenas), job.abi))
    for row in rows:
        if row.library is not None:
            problem = libraries.link(home, interface, row)
            files += [] if problem else [f"{interface.name}-{row.name}{row.library}"]
            notes += [problem] if problem else []
    flops = job.plan.flops()
    about = {
        "version": VERSION, "hash": job.hash, "abi": job.abi, "arena_bytes": arena,
        "weights_bytes": interface.weights_bytes, "flops": flops,
        **dataclasses.asdict(interface),
        "targets": {row.name: {"triple": row.machine.triple, "cpu": row.machine.processor,
            "arena_bytes": each.most(interface), **loader.where_it_runs(row)} for row, each in zip(rows, arenas)},
    }  # fmt: skip
    put(f"{interface.name}.json", json.dumps(about, indent=1))
    put(f"{interface.name}.py", loader.python_file(about))
    files += browser.write(home, about)
    put("example.c", header.example(interface))
    put("README", header.readme(interface, [row.name for row in rows], arena))
    return Artifact(
        home,
        interface.name,
        tuple(row.name for row in rows),
        tuple(files),
        arena,
        interface.weights_bytes,
        flops,
        tuple(dict.fromkeys(notes)),
    )
