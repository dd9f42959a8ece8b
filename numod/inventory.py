"""What of PyTorch's public names numod has, per namespace:

`python -m numod api`. Compares with the installed torch; without it lists numod's own.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Iterator

NAMESPACES = (
    "", "Tensor", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.parametrize", "nn.utils.parametrizations",
    "nn.utils.prune", "nn.utils.rnn", "optim", "optim.lr_scheduler", "optim.swa_utils", "autograd", "linalg", "special",
    "distributions", "func", "utils.data", "utils.checkpoint", "testing", "cuda", "amp",
)  # fmt: skip
_REASONS = (  # a reason, and the parts of names it explains
    ("no 16-bit complex dtype", ("chalf",)),
    (
        "no sparse or nested layouts",
        (
            "sparse",
            "coo",
            "csr",
            "csc",
            "bsr",
            "bsc",
            "nested",
            "to_dense",
            "coalesce",
            "hspmm",
            "smm",
            "sspaddmm",
            "indices",
            "values",
        ),
    ),
    (
        "quantization is part of numod.ao; no dtypes below 8 bits",
        (
            "quant",
            "qint",
            "quint",
            "q_",
            "fake_",
            "fbgemm",
            "int_repr",
            "dequantize",
            "qscheme",
            "int1",
            "int2",
            "int3",
            "int4",
            "int5",
            "int6",
            "int7",
            "float8",
            "float4",
            "bits",
        ),
    ),
    ("one process", ("distributed", "Distributed", "DataParallel", "share_memory", "multiprocessing")),
    (
        "internal to PyTorch",
        (
            "_",
            "cudnn",
            "miopen",
            "mkldnn",
            "mps",
            "xpu",
            "ipc",
            "jit",
            "Script",
            "script",
            "Sym",
            "sym_",
            "torch_function",
            "vmap",
            "names",
            "rename",
            "refine",
            "align_",
            "dispatch",
            "Storage",
            "storage",
            "onednn",
            "cuda_",
            "hip",
            "mtia",
            "Graph",
            "graph",
            "Stream",
            "Event",
            "nccl",
            "tunable",
            "gds",
            "green",
            "native_",
            "grid_sampler",
            "batch_norm_",
            "_copy",
            "fused",
            "foreach",
            "export",
            "compile",
            "library",
            "cond",
            "while_loop",
        ),
    ),
)


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register `api`."""
    parser = commands.add_parser(
        "api", help="which of PyTorch's public names exist here, and which are missing and why"
    )
    parser.add_argument("--details", action="store_true", help="every missing name, and signatures that differ")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    for line in inventory(options.details):
        print(line)
    return 0


def inventory(details: bool = False) -> Iterator[str]:
    """Lines of the report: per namespace how many names exist, which differ in signature, which are missing and why."""
    import numod

    try:
        torch = importlib.import_module("torch")
    except ImportError:
        yield "torch is not installed, so there is nothing to compare with; numod has:"
        for path in NAMESPACES:
            yield f"  {'numod' + ('.' + path if path else ''):32} {len(_names(_reached(numod, path)))} names"
        return
    for path in NAMESPACES:
        mine, theirs = _reached(numod, path), _reached(torch, path)
        if theirs is None:
            continue
        expected = _names(theirs)
        present = [name for name in expected if mine is not None and hasattr(mine, name)]
        missing = [name for name in expected if name not in set(present)]
        notes = {name: _difference(getattr(mine, name), getattr(theirs, name)) for name in present} if details else {}
        yield f"{'torch' + ('.' + path if path else ''):32} {len(present):5} of {len(expected):5}"
        for reason, names in _explained(missing, theirs).items():
            yield f"    {reason}: {', '.join(names)}" if details or reason == _OTHER else f"    {reason}: {len(names)}"
        yield from (f"    {name}: {note}" for name, note in notes.items() if note)


_OTHER = "missing"


def _explained(names: list[str], space: object) -> dict[str, list[str]]:
    """Missing names of a namespace by reason."""
    names_by_reason: dict[str, list[str]] = {}
    for name in names:
        made_in_c = inspect.isclass(getattr(space, name, None)) and getattr(space, name).__module__.startswith(
            "torch._C"
        )
        reason = (
            "internal to PyTorch"
            if made_in_c
            else next(
                (
                    text
                    for text, parts in _REASONS
                    if any(part in name if part != "_" else name.startswith("_") for part in parts)
                ),
                _OTHER,
            )
        )
        names_by_reason.setdefault(reason, []).append(name)
    return names_by_reason


def _reached(root: object, path: str) -> object | None:
    for part in path.split(".") if path else ():
        root = getattr(root, part, None)
    return root


def _names(space: object) -> list[str]:
    """Public names that are not modules: those in `__all__` if the module has it, else those that it defines itself."""
    if space is None:
        return []
    listed = getattr(space, "__all__", None)
    names = [
        name
        for name in (listed or dir(space))
        if not name.startswith("_") and not inspect.ismodule(getattr(space, name, None))
    ]
    if listed or inspect.isclass(space):
        return sorted(set(names))
    home = getattr(space, "__name__", "").partition(".")[0]
    return [
        name for name in names if (getattr(getattr(space, name), "__module__", None) or home).partition(".")[0] == home
    ]


def _difference(mine: object, theirs: object) -> str | None:
    """Parameters PyTorch's signature has and ours lacks, where both can be read."""
    try:
        our_parameters, their_parameters = inspect.signature(mine).parameters, inspect.signature(theirs).parameters
    except (TypeError, ValueError):
        return None
    if any(value.kind in (value.VAR_KEYWORD, value.VAR_POSITIONAL) for value in our_parameters.values()):
        return None
    missing = [
        name
        for name, parameter in their_parameters.items()
        if name not in our_parameters and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    return f"takes no {', '.join(missing)}" if missing else None
