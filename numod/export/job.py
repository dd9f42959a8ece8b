"""The work of `aot_compile`: entry points with shared weights, compiled for each target by worker processes.

A single program has functions NAME_run and so on. Several programs have functions NAME_ENTRY_run and share one block of
weights; tensors with the same memory are stored once.
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
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.create.generator import _signed, default_generator, get_rng_state, set_rng_state
from ..core.tensor import Tensor
from ..device import ahead
from ..graph.backend.executable import Executable
from ..graph.ir.program import Value
from ..graph.passes.freezing import with_packed_bytes
from ..graph.values.pytree import replace
from ..serialization import save_file
from ..serialization.program import load_program
from . import header, levels, targets
from .entry import Data, Entry, declared_once
from .interface import LIBRARY, NETWORK, Arena, Interface, Port, Size, Weight
from .module import planned, weights_of
from .outputs import outputs_of
from .polynomial import Terms
from .program import ExportedProgram, save
from .state_file import STATE
from .targets import Target


class Part:
    """An entry point. `entry`: its name, "" for the only one. `packs`, `vectors`: see `Job`."""

    def __init__(
        self,
        home: Path,
        entry: str,
        exported: ExportedProgram,
        names: dict[Value, str],
        stream: tuple,
        packs: bool,
        vectors: bool,
    ) -> None:
        self.home, self.entry, self.exported, self.names, self.stream = home, entry, exported, names, stream
        home.mkdir()
        save(exported, home / "program")
        self.program = load_program(home / "program")  # as the workers do; loading may add checks and constants
        self.sizes_vary, self.vectors = exported.dynamic is not None, vectors
        program, packed = self.program, []
        if packs:
            program, packed = with_packed_bytes(self.program, sizes_vary=self.sizes_vary, vectors=vectors)
        self.packs, self.packed_bytes = bool(packed), 0
        self.plan = planned(program, stream, packed)
        self.weights = weights_of(self.plan, names, f"{entry}.constant" if entry else "constant")
        self.samples = tuple([bytes_of(example) for example in exported.examples]), tuple(self._results())
        for kind, samples in zip(("input", "output"), self.samples):
            for k, sample in enumerate(samples):
                (home / f"{kind}{k}").write_bytes(sample)

    def describe(self, library: Interface, first_check: int, abi: int, size: bool) -> None:
        """Write the job description of this part for the workers."""
        name = f"{library.name}_{self.entry}" if self.entry else library.name
        self.interface = dataclasses.replace(
            interface_of(self.plan, self.exported, name),
            weights=library.weights,
            embedded=library.embedded,
            stateful=library.stateful,
            first_check=first_check,
            parts=NETWORK if self.entry else NETWORK + LIBRARY,
        )
        self.scales = [_scale(output, port) for output, port in zip(self.samples[1], self.interface.outputs)]
        job = {
            "interface": dataclasses.asdict(self.interface),
            "names": {str(value.number): name for value, name in self.names.items()},
            "constants": f"{self.entry}.constant" if self.entry else "constant",
            "scales": self.scales, "vectors": self.vectors, "abi": abi, "size": size, "stream": self.stream,
        }  # fmt: skip
        (self.home / "job.json").write_text(json.dumps(job))

    def pack(self, row: Target) -> None:
        """Write the packed weights for a target's worker."""
        folder = self.home / row.name
        if not self.packs or folder.exists():
            return
        folder.mkdir()
        _, packed = with_packed_bytes(
            self.program, machine=row.machine, sizes_vary=self.sizes_vary, vectors=self.vectors
        )
        for k, weight in enumerate(packed):
            (folder / str(k)).write_bytes(bytes_of(weight))
        self.packed_bytes = max(self.packed_bytes, sum([weight.numel() * 4 for weight in packed]))

    def _results(self) -> list[bytes]:
        """The outputs for the example inputs, from a separate copy of the program: a run may write held tensors."""
        program = load_program(self.home / "program")
        stream = get_rng_state()
        default_generator._restart(*self.stream)
        try:
            results = Executable(program, "sample")(*[example.clone() for example in self.exported.examples])
        finally:
            set_rng_state(stream)
        tensors: list[Tensor] = []
        replace(results, lambda leaf: tensors.append(leaf) if isinstance(leaf, Tensor) else None)
        return [*map(bytes_of, tensors)]

    def worked(self, row: Target, kernel: str = "") -> tuple[Arena, bytes]:
        """A worker's result for a target: (arena, code). `kernel`: the function name if it is linked with others."""
        root = str(Path(__file__).parents[2])
        code = f"import sys; sys.path.insert(0, {root!r}); from numod.export.worker import main; main(*sys.argv[1:])"
        machine, packed = json.dumps(dataclasses.asdict(row.machine)), row.name if self.packs else ""
        command = [sys.executable, "-c", code, str(self.home), machine, kernel, packed]
        done = subprocess.run(
            command, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "0", "NUMOD_CACHE_DIR": ""}
        )
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip()
            reason = last or f"the process ended with code {done.returncode}"
            raise RuntimeError(f"aot_compile: compiling for {row.name} failed: {reason}")
        report_line, _, object_code = done.stdout.partition(b"\n")
        return Arena(*json.loads(report_line)["arena"]), object_code


class Job:
    """All entry points and their shared interface. `home`: the folder from which workers read.

    `packs`: whether weights of bytes are packed ahead, for each target in the format of its kernels. `vectors`: whether
    all targets have vector registers; otherwise only those weights are packed that kernels without them read packed.
    """

    def __init__(
        self,
        home: Path,
        programs: Mapping[str, ExportedProgram],
        name: str,
        embedded: bool,
        size: bool,
        packs: bool = False,
        vectors: bool = True,
    ) -> None:
        self.stream = _signed(default_generator._seed), default_generator._offset
        names = shared_names(programs)
        self.parts = [
            Part(home / f"part{k}", entry, exported, names[entry], self.stream, packs, vectors)
            for k, (entry, exported) in enumerate(programs.items())
        ]
        self.weights: dict[str, Tensor] = {}
        for part in self.parts:
            self.weights = {**part.weights, **self.weights}
        checks = tuple([check for part in self.parts for check in part.plan.checks])
        stateful = any(part.plan.written[1] for part in self.parts)
        self.interface = Interface(name, (), (), _placed(self.weights), checks, embedded, stateful, parts=LIBRARY)
        described = [interface_of(part.plan, part.exported, part.entry) for part in self.parts]
        common = dataclasses.replace(self.interface, embedded=False)
        self.abi = int(hashlib.sha256(repr((common, described)).encode()).hexdigest()[:7], 16)
        self.hash = hashlib.sha256(b"".join((part.home / "program").read_bytes() for part in self.parts)).hexdigest()
        self.about = next((part.exported.state for part in self.parts if part.exported.state), {})
        self.header = header_of(self.weights, self.about) if stateful else b""
        first_check = 0
        for part in self.parts:
            (part.home / "header").write_bytes(self.header)
            part.describe(self.interface, first_check, self.abi, size)
            first_check += len(part.plan.checks)
        self.size = size

    @property
    def symbols(self) -> list[str]:
        """The exported functions."""
        several = [self.interface] if self.parts[0].entry else []
        interfaces = [*(part.interface for part in self.parts), *several]
        return [f"{interface.name}_{function}" for interface in interfaces for function in interface.functions]

    def pack(self, row: Target) -> None:
        """Pack weights of bytes for a target, or for each of its levels. Kernels that do so run in this process."""
        for part in self.parts:
            for machine_row in [targets.target(level) for level in row.levels] or [row]:
                part.pack(machine_row)

    def compile(self, row: Target) -> tuple[list[Arena], bytes]:
        """(each part's arena on a target, the object file)."""
        if not row.levels and not self.parts[0].entry:
            arena, code = self.parts[0].worked(row)
            return [arena], code
        machine, texts, codes, arenas, exported = row.machine, [], [], [], []
        for part in self.parts:
            kernel = f"kernel_{part.entry}" if part.entry else "kernel"
            compiled_rows, dispatcher = self._kernels(part, row, kernel)
            data = self._data(part.samples, part.scales)
            room = Arena(
                (levels.ROOM if row.levels else 0) + max(arena.fixed for arena, _ in compiled_rows),
                max(arena.unit for arena, _ in compiled_rows),
            )
            entry = Entry(part.interface, machine, room, data, machine.is_elf, kernel, part.entry)
            text = entry.text()
            texts.append(text.replace(entry.declaration, dispatcher) if dispatcher else text)
            codes += [code.decode() for _, code in compiled_rows]
            arenas.append(entry.arena)
            exported += entry.exported
        if self.parts[0].entry:
            library = Entry(self.interface, machine, Arena(0), self._data(((), ()), []), machine.is_elf)
            texts.append(library.text())
            exported += library.exported
        if row.levels:
            texts.append(levels.level())
            codes.append(levels.instructions())
        return arenas, ahead.merged(codes, declared_once(texts), [*dict.fromkeys(exported)], machine)

    def _kernels(self, part: Part, row: Target, kernel: str) -> tuple[list[tuple[Arena, bytes]], str]:
        """(the workers' results: a kernel, or one for each level; LLVM IR that chooses the level)."""
        if not row.levels:
            return [part.worked(row, kernel)], ""
        names = [f"{kernel}_{level.replace('-', '_')}" for level in row.levels]
        compiled_parts = [part.worked(targets.target(level), name) for level, name in zip(row.levels, names)]
        interface = part.interface
        ports = len(interface.sizes) + len(interface.inputs) + len(interface.outputs)
        return compiled_parts, levels.dispatcher(kernel, names, ports)

    def _data(self, samples: tuple, scales: Sequence[float]) -> Data:
        embedded = self.interface.weights if self.interface.embedded else ()
        block = b"".join(bytes_of(self.weights[weight.name]) for weight in embedded)
        return Data(block, (), *samples, tuple(scales), self.abi, self.header)


def shared_names(programs: Mapping[str, ExportedProgram]) -> dict[str, dict[Value, str]]:
    """Names of each program's held tensors. Tensors of several programs with the same memory have the same name."""
    exports = programs.values()
    with_names = {
        id(exported.program.held[value]._storage)
        for exported in exports
        for value in exported.names
        if value in exported.program.held
    }
    storages = [{id(tensor._storage) for tensor in exported.program.held.values()} for exported in exports]
    uses = Counter(storage for of_program in storages for storage in of_program)
    unnamed = [storage for storage, count in uses.items() if count > 1 and storage not in with_names]
    known = {storage: f"shared{k}" for k, storage in enumerate(unnamed)}
    names_by_entry: dict[str, dict[Value, str]] = {}
    for entry, exported in programs.items():
        names_by_entry[entry] = {}
        for value, tensor in exported.program.held.items():
            storage = id(tensor._storage)
            name = exported.names.get(value)
            if storage not in known and name is not None:
                known[storage] = f"{entry}.{name}" if name in known.values() else name
            if storage in known and (name is not None or len(programs) > 1):
                names_by_entry[entry][value] = known[storage]
    return names_by_entry


def interface_of(plan: Any, exported: ExportedProgram, name: str) -> Interface:
    """The inputs, outputs, sizes and checks of a program."""
    layouts, dynamic = plan.program.layouts, exported.dynamic
    written, stateful = plan.written
    symbols = [] if dynamic is None else dynamic.symbols
    names = _c_names([*(symbol.name for symbol in symbols), *exported.input_names], "input")
    sizes = tuple(
        [Size(c_name, s.low, s.high, s.size, *dynamic.source(k)) for k, (c_name, s) in enumerate(zip(names, symbols))]
    )
    values = outputs_of(plan.program)
    shapes = [()] * len(plan.program.inputs) if dynamic is None else dynamic.shapes
    of_outputs = [()] * len(values) if dynamic is None else dynamic.shapes_of_outputs()
    inputs = tuple(
        [
            dataclasses.replace(
                _port(c_name, layouts[value], dims, exported.scales.get(f"input{k}")), written=k in written
            )
            for k, (c_name, value, dims) in enumerate(zip(names[len(sizes) :], plan.program.inputs, shapes))
        ]
    )
    outputs = tuple(
        [
            _port(
                "output" if len(values) == 1 else f"output{k}", layouts[value], dims, exported.scales.get(f"output{k}")
            )
            for k, (value, dims) in enumerate(zip(values, of_outputs))
        ]
    )
    return Interface(name, inputs, outputs, (), tuple(plan.checks), True, stateful, sizes)


def _placed(weights: dict[str, Tensor]) -> tuple[Weight, ...]:
    """The layout of the block of weights, in safetensors order, which aligns all tensors."""
    placed, offset = [], 0
    for key in sorted(weights, key=lambda key: (-weights[key].dtype.itemsize, key)):
        tensor = weights[key]
        nbytes = tensor.numel() * tensor.dtype.itemsize
        placed.append(Weight(key, tensor.dtype.name, tuple(tensor.shape), offset, nbytes))
        offset += nbytes
    return tuple(placed)


def _c_names(names: Sequence[str], fallback: str) -> list[str]:
    """Distinct valid C identifiers."""
    c_names: list[str] = []
    for k, name in enumerate(names):
        name = re.sub(r"\W", "_", name, flags=re.A)
        valid = re.fullmatch(r"[A-Za-z]\w*", name) and name not in header.RESERVED
        c_names.append(name if valid and name not in c_names else f"{fallback}{k}")
    return c_names


def _port(name: str, layout: Any, dims: Sequence[Terms], scale: tuple[float, int] | None) -> Port:
    storage, shape = layout.storage, tuple(layout.shape)
    size, scale, zero = storage.itemsize, *(scale or (0.0, 0))
    return Port(name, layout.dtype.name, shape, storage.name, size, False, tuple(dims), scale, zero)


def header_of(state: dict[str, Tensor], about: dict) -> bytes:
    """The header of a safetensors file of the state."""
    file = io.BytesIO()
    save_file(state, file, {STATE: json.dumps(about)} if about else None)
    data = file.getvalue()
    return data[: 8 + int.from_bytes(data[:8], "little")]


def bytes_of(tensor: Tensor) -> bytes:
    """A dense tensor's memory."""
    return tensor._storage.data[tensor._offset : tensor._offset + tensor._layout.extent].tobytes()


def _scale(data: bytes, port: Port) -> float:
    """The largest finite absolute value among floats."""
    if port.storage not in ("float32", "float64", "complex64", "complex128"):
        return 0.0
    numbers = np.abs(np.frombuffer(data, port.storage))
    return float(np.max(numbers[np.isfinite(numbers)], initial=0.0))
