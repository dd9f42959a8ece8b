"""Batch inference: `predict` runs a program over an array, a data frame or files, in this process or on Dask's workers.

Results come in order and equal those of one process. Examples stream through: at most a few batches per worker are in
memory at once. Dask, pandas, PyArrow and Pillow (the extra `dask`) are imported where a source needs them.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from ..autograd import no_grad
from ..core.create.values import from_numpy
from ..core.shape.joining import cat
from ..core.tensor import Tensor
from .progress import progress as progress_line

__all__ = ["predict", "stream"]
_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
_RETRIES = 3  # of a batch whose worker was lost or whose computation failed
_TASKS_AHEAD = 2  # tasks under way per thread of the workers
_TASK_BYTES = 16 << 20  # examples of one task, so that small batches share the cost of a task
_TASK_BATCHES = 16  # of one task at most, whose results are in memory together, and may be larger than its examples
_TASKS_PER_THREAD = 4  # of an array, at least, so that workers end together
_SHARED_BYTES = 1 << 16  # from here on a file is faster than sending


def predict(
    program: Callable, source: Any, client: Any = None, batch_size: int = 64, progress: bool = False
) -> Tensor | tuple[Tensor, ...]:
    """The results of `program` for all examples of the source, concatenated along the first dimension.

    `stream` has the arguments, and gives the batches one by one where the results do not fit in memory.
    """
    batches = list(stream(program, source, client, batch_size, progress))
    if not batches:
        raise ValueError("predict: the source has no examples")
    if isinstance(batches[0], tuple):
        return tuple(cat(list(parts)) for parts in zip(*batches))
    return cat(batches)


def stream(
    program: Callable, source: Any, client: Any = None, batch_size: int = 64, progress: bool = False
) -> Iterator[Tensor | tuple[Tensor, ...]]:
    """Yield `program(batch)` for each batch of the source, in order.

    `program` is a module, a compiled function, an exported program's module or a function; modules should be in
    evaluation mode. `source` is an array or tensor of examples, (N, ...), a .npy file of one, a Dask array or data
    frame, a pandas data frame, a Parquet file or a folder of them, or a folder with one example per .npy or image file,
    by name; images become float32 (3, H, W) in [0, 1]. With `client`, a `dask.distributed.Client`, batches are computed
    by its workers: the program is sent to each once, and a batch whose worker is lost is computed again. Workers map
    .npy files and `numpy.memmap` arrays into memory; other arrays reach workers of this machine through temporary
    files, and others by the network.
    """
    if not callable(program):
        raise TypeError(f"predict: expected a module or a function, got {type(program).__name__}")
    if batch_size < 1:
        raise ValueError(f"predict: batch_size is at least 1, got {batch_size}")
    results = (
        _in_process(program, _pieces(source, batch_size, 1))
        if client is None
        else _on_workers(program, source, batch_size, client)
    )
    results = progress_line(results, file=sys.stderr) if progress else results
    for arrays in results:
        tensors = tuple(map(from_numpy, arrays))
        yield tensors[0] if len(tensors) == 1 else tensors


def _in_process(program: Callable, pieces: Iterable[tuple]) -> Iterator[tuple]:
    """Compute one piece after the other here."""
    for load, *arguments in pieces:
        arguments = [argument.compute() if hasattr(argument, "compute") else argument for argument in arguments]
        yield from _compute(program, load, *arguments)


def _on_workers(program: Callable, source: Any, batch_size: int, client: Any) -> Iterator[tuple]:
    """Compute pieces on Dask's workers, some before their results are read."""
    threads = sum(client.nthreads().values())
    sent = client.scatter(program, broadcast=True, hash=False)
    waiting: deque = deque()
    pieces = _pieces(source, batch_size, max(threads, 1) * _TASKS_PER_THREAD)
    with tempfile.TemporaryDirectory(prefix="numod-batch-", ignore_cleanup_errors=True) as folder:
        share = _sharing(client, folder)
        while True:
            limit = max(_TASKS_AHEAD * sum(client.nthreads().values()), 1)
            for load, *arguments in itertools.islice(pieces, max(limit - len(waiting), 0)):
                arguments = [
                    client.compute(argument) if hasattr(argument, "compute") else share(argument)
                    for argument in arguments
                ]
                task = client.submit(_compute_all, sent, load, *arguments, retries=_RETRIES, pure=False)
                waiting.append((task, arguments))
            if not waiting:
                return
            task, arguments = waiting.popleft()
            results = task.result()
            for argument in arguments:
                if isinstance(argument, _Mapped) and argument.temporary:
                    with suppress(OSError):  # Windows keeps a file that a worker still maps
                        os.unlink(argument.path)
            yield from results


class _Mapped(NamedTuple):
    """An array in a file, which a worker maps into its memory."""

    path: str
    dtype: np.dtype
    offset: int
    shape: tuple[int, ...]
    temporary: bool

    def open(self) -> np.ndarray:
        """The array. Writes to it do not reach the file."""
        return np.asarray(np.memmap(self.path, self.dtype, "c", self.offset, self.shape))


def _sharing(client: Any, folder: str) -> Callable[[Any], Any]:
    """A function of a task's argument: an array becomes `_Mapped` where all workers can read the file.

    Through Dask an array is pickled, and copied by the client, the scheduler and the worker, which takes longer than
    inference of a small network.
    """

    @cache
    def readable(path: str) -> bool:
        expected, seen = _identity(path), client.run(_identity, path).values()
        return bool(seen) and expected is not None and all(identity == expected for identity in seen)

    is_local = str(client.scheduler.address).startswith("inproc")  # the workers are threads of this process
    numbers = itertools.count()

    def share(argument: Any) -> Any:
        if not isinstance(argument, np.ndarray) or is_local or argument.dtype.hasobject:
            return argument
        if (mapped := _in_file(argument)) is not None and readable(mapped.path):
            return mapped
        if argument.nbytes < _SHARED_BYTES or not readable(folder):
            return argument
        path = os.path.join(folder, str(next(numbers)))
        argument.tofile(path)
        return _Mapped(path, argument.dtype, 0, argument.shape, True)

    return share


def _identity(path: str) -> tuple | None:
    """What tells a file from another machine's file at the same path; None without one."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return () if os.path.isdir(path) else (status.st_size, status.st_mtime_ns)


def _in_file(array: np.ndarray) -> _Mapped | None:
    """Where a contiguous part of a `numpy.memmap` lies in its file; None for other arrays."""
    if not isinstance(array, np.memmap) or array.filename is None or not array.flags.c_contiguous or not array.size:
        return None
    if array.mode == "c":  # its changes are not in the file
        return None
    whole = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    distance = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    return _Mapped(os.path.abspath(array.filename), array.dtype, whole.offset + distance, array.shape, False)


def _compute_all(program: Callable, load: Callable, *arguments: Any) -> list[tuple[np.ndarray, ...]]:
    """The results of a piece, one per batch: what runs on a worker."""
    return list(_compute(program, load, *arguments))


def _compute(program: Callable, load: Callable, *arguments: Any) -> Iterator[tuple[np.ndarray, ...]]:
    for batch in load(*[argument.open() if isinstance(argument, _Mapped) else argument for argument in arguments]):
        with no_grad():
            result = program(from_numpy(np.require(batch, requirements="CAW")))
        tensors = result if isinstance(result, (tuple, list)) else (result,)
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise TypeError(
                f"predict: the program returned {type(result).__name__}; expected a tensor or a tuple of them"
            )
        yield tuple(tensor.detach().cpu().numpy() for tensor in tensors)


# ---- sources: pieces are (function, arguments), where function(*arguments) yields batches, on the worker


def _pieces(source: Any, batch_size: int, tasks: int) -> Iterator[tuple]:
    """The pieces of a source, of an array at least `tasks` where there are as many batches.

    Raises TypeError for other sources and ValueError for folders without examples.
    """
    kind = type(source).__module__.partition(".")[0]
    if isinstance(source, Tensor):
        source = source.detach().cpu().numpy()
    if isinstance(source, (str, os.PathLike)) and os.path.isfile(source) and os.fspath(source).endswith(".npy"):
        source = np.load(source, mmap_mode="r")
    if isinstance(source, (str, os.PathLike)):
        yield from _files(os.fspath(source), batch_size)
    elif kind.startswith("dask"):
        yield from _blocks(source, batch_size)
    elif kind == "pandas" or isinstance(source, np.ndarray):
        is_frame = not isinstance(source, np.ndarray)
        batches = ceil(len(source) / batch_size)
        nbytes = 4 * source.size if is_frame else source.nbytes
        in_bytes = batches * _TASK_BYTES // max(nbytes, 1)
        count = batch_size * max(1, min(batches // tasks, in_bytes, _TASK_BATCHES))
        for start in range(0, len(source), count):
            stop = start + count
            yield _split, source.iloc[start:stop].to_numpy(np.float32) if is_frame else source[start:stop], batch_size
    else:
        raise TypeError(
            f"predict: expected an array, a tensor, a Dask array, a data frame or a path, got {type(source).__name__}"
        )


def _blocks(source: Any, batch_size: int) -> Iterator[tuple]:
    """A Dask array's blocks of rows, or a Dask data frame's partitions, which stay on the workers."""
    if not hasattr(source, "rechunk"):
        blocks = [source.partitions[k] for k in range(source.npartitions)]
    else:
        source = source.rechunk({dim: -1 for dim in range(1, source.ndim)})
        blocks = [source.blocks[k] for k in range(source.numblocks[0])]
    for block in blocks:
        yield _split, block, batch_size


def _split(values: Any, batch_size: int) -> Iterator[np.ndarray]:
    """Batches of an array; numbers of a data frame, on a worker, as float32."""
    values = values if isinstance(values, np.ndarray) else values.to_numpy(np.float32)
    for start in range(0, len(values), batch_size):
        yield values[start : start + batch_size]


def _files(path: str, batch_size: int) -> Iterator[tuple]:
    """The files of a folder, or a Parquet file's groups of rows."""
    names = sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]
    for parquet in (name for name in names if name.endswith(".parquet")):
        import pyarrow.parquet

        for group in range(pyarrow.parquet.ParquetFile(parquet).num_row_groups):
            yield _read_rows, parquet, group, batch_size
    examples = [name for name in names if name.lower().endswith((".npy", *_IMAGES))]
    if not examples and not any(name.endswith(".parquet") for name in names):
        raise ValueError(f"predict: {path} has no .npy, .parquet or image files ({', '.join(_IMAGES)})")
    for start in range(0, len(examples), batch_size):
        yield _read_examples, examples[start : start + batch_size]


def _read_rows(path: str, group: int, batch_size: int) -> Iterator[np.ndarray]:
    """The rows of one group of a Parquet file, by batches."""
    import pyarrow.parquet

    yield from _split(pyarrow.parquet.ParquetFile(path).read_row_group(group).to_pandas(), batch_size)


def _read_examples(paths: list[str]) -> Iterator[np.ndarray]:
    """One batch of files. Raises ValueError, with the file's name, if their shapes differ."""
    examples = [_read_example(path) for path in paths]
    for path, example in zip(paths, examples):
        if example.shape != examples[0].shape:
            raise ValueError(f"predict: {path} has the shape {example.shape}, {paths[0]} has {examples[0].shape}")
    yield np.stack(examples)


def _read_example(path: str) -> np.ndarray:
    if path.endswith(".npy"):
        return np.load(path, allow_pickle=False)
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"), np.float32).transpose(2, 0, 1) / 255
