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

_START_BYTES = 24  # enough to detect the format


def save(
    obj: object,
    f: str | os.PathLike | BinaryIO,
    pickle_module: object = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write tensors and plain data in nested dicts, lists and tuples to the path or binary file object `f`.

    A path that ends in .safetensors becomes a safetensors file. A dict of tensors becomes a plain one; for nested
    objects the metadata describes the structure. Any other path becomes a checkpoint that `torch.load` reads as well.
    Tensors that share memory do so after loading. Files are written atomically: after a crash, the old file is intact.
    `pickle_protocol` has no effect.

    A checkpoint may also contain whole modules and other objects. They are pickled by the names of their classes, so
    only `load` with `weights_only=False` reads them, and only where these classes are available. Prefer saving the
    `state_dict()`. Raises pickle's errors for objects that cannot be pickled, and TypeError if an object for a
    safetensors file is not data.

    Example:

        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2)}, file)
        >>> file.seek(0)
        0
        >>> torch.load(file)
        {'weight': tensor([1., 1.])}
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
    """Load an object from a path or binary file object that `save`, `torch.save` or the package safetensors wrote.

    The format is detected from the content. `map_location` chooses the device: None (the saved device), a device, a
    dict from saved to other devices, or a function of a flat tensor and the name of its device. `mmap=True` reads the
    bytes from the file when they are used.

    Only data is read: no code in a file is imported or run. With `weights_only=False`, a checkpoint may contain any
    objects and run any code, so use it only for files that you trust. PyTorch's classes become numod's. After reading
    from a file object, its position is the end of the checkpoint, so several checkpoints in one file load one after
    another.

    Raises FileNotFoundError, and CheckpointError (a RuntimeError and an UnpicklingError) if the file is damaged or
    incomplete, or contains other objects than data or an unsupported dtype. The message names the file and the reason.

    Example:

        >>> import io
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2)}, file)
        >>> file.seek(0)
        0
        >>> torch.load(file)
        {'weight': tensor([1., 1.])}
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
            "it is a pickle, but not a checkpoint of torch.save, and load never runs pickles; use pickle.load if you "
            "trust the file",
        )
    if start[8:9] != b"{" and start.isascii() and start.decode().replace("\n", " ").isprintable() and start:
        refuse(
            source.name,
            f"it is text that begins with {start.decode()!r}: an error page, an index of shards or a Git LFS pointer, "
            "instead of the file?",
        )
    if not start and source.start:
        refuse(source.name, "the file object is at its end; call seek(0) on it first")
    return read_object
