"""`aot_compile`: compiles a program to native code in a folder. Targets are compiled in parallel, each in a process."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..core.tensor import Tensor
from ..device import helpers
from ..graph.passes.freezing import shared_values
from . import browser, header, libraries, loader, targets
from .fourier import prepared
from .integers import floats, without_floats
from .interface import VERSION, Arena
from .job import Job, bytes_of, header_of
from .problems import ExportError, problems
from .program import ExportedProgram
from .targets import Target
from .variants import unbounded
from .zeros import without_zeros

_WEIGHTS = ("embedded", "file")
_GOALS = ("speed", "size")
_OPTIONS = ("freezing", "sparsity", "integer_only")


@dataclasses.dataclass(frozen=True)
class Artifact:
    """The output of `aot_compile`.

    `files` are the names in `folder`; `notes` list files that could not be written and what to install for them.
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
        """The shared library of a target, or its object file. Raises FileNotFoundError if it was not written."""
        row = targets.target(target)
        file = self.folder / f"{self.name}-{target}{row.library if library else row.object}"
        if file.name not in self.files:
            raise FileNotFoundError(f"{file.name} was not written{': ' if self.notes else ''}{'; '.join(self.notes)}")
        return file


def aot_compile(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    folder: str | os.PathLike,
    *,
    name: str = "net",
    targets: Sequence[str] = ("native",),
    weights: str = "embedded",
    optimize: str = "speed",
    options: Mapping[str, bool] | None = None,
) -> Artifact:
    """Compile a program to native code that needs no Python: for each target an object file and, if a linker is
    installed, a shared library.

    `program` comes from `export`, or `numod.jit.trace`. `NAME.h` declares the functions, `NAME.json` describes them,
    `example.c` calls them.

    A dict of programs, `{"encode": a, "step": b}`, makes one library with NAME_encode_run, NAME_step_run and so on.
    The programs share the weights: tensors with the same memory are stored once.

    - `targets`: names of `numod.export.targets`, such as "native", "x86-64-v3", "aarch64", "cortex-m4", "wasm".
    - `weights`: "embedded" in the code, or in a "file" NAME.safetensors, whose data the caller passes in. Their layout
      is the same for all targets. What depends on embedded weights of bytes alone is computed ahead; for speed, these
      weights are stored in the form that each target's kernels read.
    - `optimize`: for "speed" or "size".
    - `options={"freezing": True}`: weights are constants, and what depends on them alone is computed ahead
      (`ExportedProgram.frozen`); they have no names in the file of weights. With `"sparsity": True` as well, weights of
      linear layers and convolutions are stored and multiplied without their zeros, where that takes fewer bytes; if a
      target has an operating system, also only where a measurement on this machine shows that it is faster. Weights
      that the program writes to, and those of programs with dynamic dimensions, keep their zeros.
      `"integer_only": True`: what a quantized network computes between its bytes is computed in integers, on all
      targets, and floats that remain are refused. If no target has floating point, this is done where it can be.

    Raises ExportError, before anything is written, with a list of everything that cannot be exported.
    """
    rows = _checked(program, name, targets, weights, optimize, options)
    transforms = optimize == "speed" and not any(row.bare for row in rows)
    programs = {
        entry: prepared(getattr(exported, "_exported", exported)) for entry, exported in _programs(program).items()
    }
    if options and options.get("freezing"):
        copies: dict[int, Tensor] = {}
        with shared_values():
            programs = {entry: exported.frozen(copies=copies) for entry, exported in programs.items()}
    if options and options.get("sparsity"):
        measured = not all(row.bare for row in rows)
        known: dict[tuple, list[Tensor]] = {}
        programs = {entry: without_zeros(exported, measured, known) for entry, exported in programs.items()}
    _refuse(programs, lambda exported: [*problems(exported.program), *unbounded(exported.dynamic)])
    constant = weights == "embedded" and not any(exported.changes_state for exported in programs.values())
    packs = constant and optimize == "speed"
    if constant:
        with shared_values():
            programs = {entry: exported.with_byte_constants() for entry, exported in programs.items()}
            if transforms:
                programs = {entry: exported.with_transformed_weights() for entry, exported in programs.items()}
    only_integers = bool(options and options.get("integer_only"))
    if only_integers or not any(row.machine.floats for row in rows):
        programs = {entry: without_floats(exported) for entry, exported in programs.items()}
    if only_integers:
        _refuse(programs, lambda exported: floats(exported.program))
    with tempfile.TemporaryDirectory() as scratch:
        vectors = all(row.machine.vectors for row in rows)
        job = Job(Path(scratch), programs, name, weights == "embedded", optimize == "size", packs, vectors)
        for row in rows:
            job.pack(row)
        with ThreadPoolExecutor(max(min(len(rows), os.cpu_count() or 1), 1)) as pool:
            compiled_rows = [*pool.map(job.compile, rows)]
    home = Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    return _written(home, job, rows, compiled_rows, weights)


def _refuse(programs: Mapping[str, ExportedProgram], lines: Callable[[ExportedProgram], list[str]]) -> None:
    """Raise ExportError if there are lines for a program."""
    wrong = [f"{entry}: {line}" if entry else line for entry, exported in programs.items() for line in lines(exported)]
    if wrong:
        raise ExportError(wrong)


def _programs(program: Any) -> dict[str, Any]:
    """The programs by entry point; a single program has the name ""."""
    return dict(program) if isinstance(program, Mapping) else {"": program}


def _checked(
    program: Any, name: str, names: Sequence[str], weights: str, optimize: str, options: Mapping[str, bool] | None
) -> list[Target]:
    """The targets. Raises TypeError or ValueError for invalid arguments."""
    programs = _programs(program)
    for exported in programs.values():
        if not isinstance(getattr(exported, "_exported", exported), ExportedProgram):
            raise TypeError(
                f"aot_compile: expected an ExportedProgram, got {type(exported).__name__}; make one with "
                "numod.export.export(module, (example,))"
            )
    wrong = [entry for entry in programs if entry and not re.fullmatch(r"[A-Za-z]\w*", entry, re.A)]
    if wrong or not programs or (isinstance(program, Mapping) and "" in programs):
        raise ValueError(f"aot_compile: names of entry points must be identifiers of C, got {list(programs)}")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name, re.A):
        raise ValueError(f"aot_compile: name must be an identifier of C, got {name!r}")
    if weights not in _WEIGHTS or optimize not in _GOALS:
        raise ValueError(
            f"aot_compile: weights must be one of {_WEIGHTS} and optimize one of {_GOALS}, got {weights!r} and "
            f"{optimize!r}"
        )
    options = options or {}
    if not {*options} <= {*_OPTIONS} or (options.get("sparsity") and not options.get("freezing")):
        raise ValueError(
            f"aot_compile: options must be of {_OPTIONS}, and sparsity needs freezing, got {dict(options)}; try "
            'options={"freezing": True, "sparsity": True}'
        )
    if isinstance(names, str) or not names:
        raise ValueError(f"aot_compile: targets must be a sequence of names, such as ('native',), got {names!r}")
    return [targets.target(name) for name in dict.fromkeys(names)]


def _written(
    home: Path, job: Job, rows: list[Target], compiled_rows: list[tuple[list[Arena], bytes]], weights: str
) -> Artifact:
    """Write all files, and link."""
    library, files, notes, parts = job.interface, [], [], job.parts
    name = library.name
    needs = [  # bytes of arena for each part, on any target
        max(arenas[k].most(part.interface) for arenas, _ in compiled_rows) for k, part in enumerate(parts)
    ]
    samples = [
        max(arenas[k].bytes([size.size for size in part.interface.sizes]) for arenas, _ in compiled_rows)
        for k, part in enumerate(parts)
    ]

    def put(name: str, content: str | bytes) -> None:
        (home / name).write_bytes(content.encode() if isinstance(content, str) else content)
        files.append(name)

    for row, (_, code) in zip(rows, compiled_rows):
        put(f"{name}-{row.name}{row.object}", code)
        missing = helpers.undefined_symbols(code) - helpers.MEMORY if row.bare else set()
        if missing:
            notes.append(f"{files[-1]} needs a compiler's run-time library (libgcc) for {', '.join(sorted(missing))}")
    if weights == "file":
        data = b"".join(bytes_of(job.weights[weight.name]) for weight in library.weights)
        put(f"{name}.safetensors", header_of(job.weights, job.about if library.stateful else {}) + data)
    described = [*zip([part.interface for part in parts], needs, samples)]
    put(f"{name}.h", header.header(library, described, job.abi))
    for row in rows:
        if row.library is not None:
            problem = libraries.link(home, name, job.symbols, row)
            files += [] if problem else [f"{name}-{row.name}{row.library}"]
            notes += [problem] if problem else []
    flops = [part.plan.flops() for part in parts]
    about = _about(job, rows, [arenas for arenas, _ in compiled_rows], needs, flops)
    put(f"{name}.json", json.dumps(about, indent=1))
    put(f"{name}.py", loader.python_file(about))
    files += browser.write(home, about)
    put("example.c", header.example(library, [part.interface for part in parts]))
    put("README", header.readme(library, [part.interface for part in parts], [row.name for row in rows], max(needs)))
    return Artifact(
        home,
        name,
        tuple(row.name for row in rows),
        tuple(files),
        max(needs),
        library.weights_bytes + sum([part.packed_bytes for part in parts]),
        sum(flops),
        tuple(dict.fromkeys(notes)),
    )


def _about(job: Job, rows: list[Target], arenas: list[list[Arena]], needs: list[int], flops: list[int]) -> dict:
    """The content of NAME.json. `entries` has the inputs and outputs of each entry point, if there are several."""
    library, parts = job.interface, job.parts
    entries = {
        part.entry: {"inputs": ports["inputs"], "outputs": ports["outputs"], "sizes": ports["sizes"],
            "arena_bytes": need, "flops": count}
        for part, need, count in zip(parts, needs, flops)
        for ports in [dataclasses.asdict(part.interface)]
    }  # fmt: skip
    one = entries.get("", {})
    apart = [] if library.embedded else [weight.name for weight in library.weights if weight.name.isascii()]
    fields = dataclasses.asdict(library)
    return {
        "version": VERSION, "hash": job.hash, "abi": job.abi, "arena_bytes": max(needs),
        "weights_bytes": library.weights_bytes, "flops": sum(flops), "name": library.name,
        "inputs": one.get("inputs", []), "outputs": one.get("outputs", []), "sizes": one.get("sizes", []),
        "entries": {} if one else entries, "names": apart,
        **{key: fields[key] for key in ("weights", "checks", "embedded", "stateful")},
        "targets": {row.name: {"triple": row.machine.triple, "cpu": row.machine.processor,
            "arena_bytes": max(arena.most(part.interface) for part, arena in zip(parts, of_parts)),
            **loader.where_it_runs(row)} for row, of_parts in zip(rows, arenas)},
    }  # fmt: skip
