"""The commands about a model of the user, `MODULE:NAME`: `warmup`, which also takes a script, and `summary`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

from . import config
from .kernel import build
from .profiler.script import run_script


class CommandError(Exception):
    """What the user gave cannot be used: the text says what was expected."""


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register both."""
    warmup = commands.add_parser(
        "warmup", help="run a script, or a model once, so that its kernels are compiled ahead of time"
    )
    warmup.add_argument("target", help="a Python file, or MODULE:NAME of a model (or of a function that makes one)")
    warmup.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        help="arguments of the script; for a model the shape of its input, such as 1 3 32 32, and the options below",
    )
    _add_warmup_options(warmup)
    warmup.set_defaults(run=_warmup)
    summary = commands.add_parser("summary", help="the layers of a model: output shapes, parameters, multiply-adds")
    summary.add_argument("target", help="MODULE:NAME of a model (or of a function that makes one)")
    summary.add_argument("--json", action="store_true", help="print JSON")
    summary.add_argument(
        "--depth", metavar="N", type=int, default=3, help="levels of submodules (default: %(default)s)"
    )
    _add_shape(summary)
    _add_input_options(summary)
    summary.set_defaults(run=_summary)


def _add_shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shape", nargs="*", type=_size, help="the shape of the model's input, such as 1 3 32 32")


def _size(text: str) -> int:
    """A size of `shape`. The value of an option that does not exist comes here too."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected sizes such as 1 3 32 32, got {text!r}; several inputs are --input 1,3,32,32 --input 1,16:int64"
        ) from None


def _add_input_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input",
        metavar="SHAPE",
        action="append",
        default=[],
        help="the shape of one input, such as 1,3,32,32 or, with its dtype, 1,16:int64; repeat it for several inputs",
    )
    parser.add_argument(
        "--dtype", metavar="NAME", nargs="+", default=["float32"], help="of all inputs, or of each (default: float32)"
    )


def _add_warmup_options(parser: argparse.ArgumentParser) -> None:
    """The options of `warmup` for a model, which may also stand after its name, as a script's arguments do."""
    options = parser.add_argument_group("options for a model")
    options.add_argument("--eval", action="store_true", help="inference: model.eval(), without gradients")
    options.add_argument("--compile", action="store_true", help="run torch.compile(model)")
    options.add_argument("--dynamic", action="store_true", help="run torch.compile(model, dynamic=True)")
    options.add_argument(
        "--batch", metavar="N", nargs="+", type=int, default=[], help="run with each of these sizes of dimension 0"
    )
    _add_input_options(options)


# ---- warmup


def _warmup(options: argparse.Namespace) -> int:
    start = time.perf_counter()
    if options.target.endswith(".py"):
        code = run_script(options.target, options.arguments, contextlib.redirect_stdout(io.StringIO()))
    else:
        code = _reporting("warmup", options.target, lambda: _warm_model(options))
    if code == 0:
        done = build.statistics
        print(
            f"{done.compiled} kernels compiled, {done.loaded} found in the cache, "
            f"{time.perf_counter() - start:.1f} s: {config.cache_dir() or 'kept in memory only'}"
        )
    return code


def _warm_model(options: argparse.Namespace) -> None:
    """Run the model forward and, without --eval and where it has parameters, backward, with inputs of each size."""
    from . import autograd, graph

    options = _with_arguments(options)
    model = _load_model(options.target)
    if options.eval:
        model.eval()
    if options.compile or options.dynamic:
        model = graph.compile(model, dynamic=options.dynamic or None)
    for inputs in _inputs(model, options):
        for _ in range(3 if options.compile or options.dynamic else 1):  # the first records, the next run the program
            with autograd.no_grad() if options.eval else contextlib.nullcontext():
                _call(model if options.eval else lambda *tensors: _backward(model(*tensors)), inputs)


def _backward(result: object) -> None:
    """Run backward from all tensors of a model's result."""
    from .paths.pytree import tree_leaves

    leaves = [leaf for leaf in tree_leaves(result) if getattr(leaf, "requires_grad", False)]
    if leaves:
        sum(leaf.sum() for leaf in leaves).backward()


class _Arguments(argparse.ArgumentParser):
    """What follows a model's name. Errors are raised."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(message)


def _with_arguments(options: argparse.Namespace) -> argparse.Namespace:
    """`options` with those after the model's name. Raises CommandError."""
    parser = _Arguments(prog="python -m numod warmup MODULE:NAME")
    _add_shape(parser)
    _add_warmup_options(parser)
    return parser.parse_args(options.arguments, options)


def _call(model: Callable, inputs: list) -> object:
    try:
        return model(*inputs)
    except Exception as error:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
        raise _ModelError(f"with an input of {shapes}: {type(error).__name__}: {error}") from error


class _ModelError(Exception):
    """An error of the user's model."""


def _reporting(command: str, target: str, work: Callable[[], object]) -> int:
    """Do the work; the exit code. Errors of the command line give 2, errors of the model 1, with one line each."""
    try:
        work()
        return 0
    except CommandError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    except _ModelError as error:
        print(f"{command}: {target} {error}", file=sys.stderr)
        return 1


# ---- summary


def _summary(options: argparse.Namespace) -> int:
    return _reporting("summary", options.target, lambda: _print_summary(options))


def _print_summary(options: argparse.Namespace) -> None:
    from .utils.summary import summary

    model = _load_model(options.target)
    inputs = next(_inputs(model, options))
    result = _call(lambda *tensors: summary(model, input_data=tensors, depth=options.depth, verbose=0), inputs)
    print(json.dumps(result.as_dict(), indent=1) if options.json else result)


# ---- the model and its inputs


def _load_model(target: str) -> Callable:
    """The model that MODULE:NAME names, or that the function of this name makes. Raises CommandError."""
    from .nn import Module

    module, _, name = target.partition(":")
    if not module or not name:
        raise CommandError(
            f"expected FILE.py, or MODULE:NAME of a model and the shape of its input, such as mymodels:net 1 3 32 32, "
            f"got {target!r}"
        )
    if module.endswith(".py"):
        path = os.path.splitext(os.path.normpath(module))[0].replace(os.sep, ".").lstrip(".")
        raise CommandError(f"expected the name of a module, such as {path}:{name}, got the file {module}")
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        value = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise CommandError(str(error)) from None
    finally:
        with contextlib.suppress(ValueError):  # the module may have changed the path
            sys.path.remove(folder)
    if isinstance(value, type) or not (isinstance(value, Module) or _is_compiled(value)):
        value = _made(value)
    if not (isinstance(value, Module) or _is_compiled(value)):
        raise CommandError(f"{target} is not a model, but {type(value).__name__}")
    return value


def _is_compiled(value: object) -> bool:
    from .graph.compile import Compiled

    return isinstance(value, Compiled)


def _made(factory: object) -> object:
    if not callable(factory):
        return factory
    try:
        return factory()
    except Exception as error:
        raise _ModelError(f"cannot be made without arguments: {type(error).__name__}: {error}") from error


def _inputs(model: Callable, options: argparse.Namespace) -> Iterator[list]:
    """The inputs of each run: random numbers, or zeros for integers, which are valid indices. Raises CommandError."""
    shapes = _shapes(model, options)
    for batch in getattr(options, "batch", None) or [None]:
        yield [_input_of(shape if batch is None else (batch, *shape[1:]), dtype) for shape, dtype in shapes]


def _shapes(model: Callable, options: argparse.Namespace) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of each input, from the options or, for a model that begins with a Linear, from this."""
    texts = [*([",".join(map(str, options.shape))] if options.shape else []), *options.input]
    features = next((module.in_features for module in _modules(model) if hasattr(module, "in_features")), None)
    is_flat = next((hasattr(module, "in_features") for module in _modules(model) if _has_own_weights(module)), False)
    if not texts and is_flat:
        texts = [f"1,{features}"]
    if not texts:
        raise CommandError("expected the shape of its input after the model, such as 1 3 32 32, or --input 1,3,32,32")
    dtypes = options.dtype if len(options.dtype) == len(texts) else options.dtype * len(texts)
    if len(dtypes) != len(texts):
        raise CommandError(f"expected one dtype for all inputs, or {len(texts)}, got {len(options.dtype)}")
    return [_shape_and_dtype(text, dtype) for text, dtype in zip(texts, dtypes)]


def _modules(model: object) -> Iterator[object]:
    return model.modules() if hasattr(model, "modules") else iter(())


def _has_own_weights(module: object) -> bool:
    return next(module.parameters(recurse=False), None) is not None


def _shape_and_dtype(text: str, dtype: str) -> tuple[tuple[int, ...], str]:
    sizes, _, own_dtype = text.partition(":")
    try:
        return tuple(int(size) for size in sizes.split(",") if size), own_dtype or dtype
    except ValueError:
        raise CommandError(f"expected a shape such as 1,3,32,32 or 1,16:int64, got {text!r}") from None


def _input_of(shape: tuple[int, ...], name: str) -> object:
    import numod

    dtype = getattr(numod, name.rpartition(".")[2], None)
    if not isinstance(dtype, numod.dtype):
        raise CommandError(f"there is no dtype {name!r}; expected one such as float32 or int64")
    try:
        return (numod.rand if dtype.differentiable else numod.zeros)(shape, dtype=dtype)
    except RuntimeError as error:
        raise CommandError(str(error)) from None
