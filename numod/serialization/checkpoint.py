"""`numod.save` and `numod.load`: the choice of the file format. The formats are in other files."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, BinaryIO

from .atomic import written
from .placement import placement
from .refusal import refuse
from .safetensors import read_object, save_object
from .saveable import refuse_pickle_module
from .source import Source, opened
from .torch_file import LEGACY_MARK, ZIP_START, read_archive, read_legacy
from .torch_save import write_archive

_START_BYTES = 24  # tell the formats apart


def save(
    obj: object,
    f: str | os.PathLike | BinaryIO,
    pickle_module: object = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write tensors and plain data in nested dicts, lists and tuples to the path or binary file object `f`; `load`
    reads it back.

    A path that ends in .safetensors becomes a safetensors file, whose metadata describes what is nested (a dict of
    tensors alone is a plain one); anything else a checkpoint that `torch.load` reads as well. Tensors that share memory
    do so after loading. A path appears whole or not at all: a crash on the way leaves what was there before.
    `pickle_protocol` has no effect.

    A checkpoint may also hold whole modules and other objects, as Python pickles them: by the names of their classes,
    so that only `load` with `weights_only=False` reads them, and only where these classes are found. Better save the
    `state_dict()`. Raises what `pickle` raises for objects that it cannot pickle, and TypeError for a safetensors file
    of what is no data.
    """
    refuse_pickle_module(pickle_module)
    name = getattr(f, "name", "") if hasattr(f, "write") else f
    if isinstance(name, (str, bytes, os.PathLike)) and os.fsdecode(name).lower().endswith(".safetensors"):
        save_object(obj, f)
    else:
        with written(f) as file:
            write_archive(obj, file)


def load(
    f: str | os.PathLike | BinaryIO,
    map_location: object = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
) -> Any:
    """Load what `save`, `torch.save` or the package safetensors wrote to the path or binary file object `f`; the format
    is detected from the content.

    `map_location` says on which device: None where it was saved, or a device, a dict from saved devices to others, or a
    function of a flat tensor and the name of its device. `mmap=True` leaves the bytes in the file until they are used.
    Only data is read: no code in a file is imported or run. With `weights_only=False` whatever objects a checkpoint
    holds are read, with the code that it names: only for files that you trust with all that you may do. PyTorch's
    classes become numod's. Raises FileNotFoundError, and CheckpointError (a RuntimeError and an UnpicklingError) naming
    file and reason where the file is damaged, cut short, or holds what is no data or no dtype of numod. A file object
    is left behind the checkpoint that was read: several that were saved into one file load one after another.
    """
    refuse_pickle_module(pickle_module)
    with opened(f, bool(mmap)) as source:
        return _reader_of(source, weights_only is False)(source, placement(map_location, source.name))


def _reader_of(source: Source, trusted: bool) -> Any:
    """The function that reads this content."""
    start = source.bytes_at(source.start, min(_START_BYTES, source.end - source.start)).tobytes()
    if start.startswith(ZIP_START):
        return partial(read_archive, trusted=trusted)
    if LEGACY_MARK in start:
        return read_legacy
    # a safetensors header could start with the same bytes
    if start[:1] == b"\x80" and start[1:2] in (b"\2", b"\3", b"\4", b"\5") and start[8:9] != b"{":
        refuse(
            source.name,
            "it is a pickle, but no checkpoint of torch.save, and load never runs pickles; use pickle.load if you "
            "trust the file",
        )
    if start[8:9] != b"{" and start.isascii() and start.decode().replace("\n", " ").isprintable() and start:
        refuse(
            source.name,
            f"it is text that begins with {start.decode()!r}: an error page, an index of shards or a Git LFS pointer, "
            "instead of the file?",
        )
    if not start and source.start:
        refuse(source.name, "the file object stands at its end; call seek(0) on it first")
    return read_object
