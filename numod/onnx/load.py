"""`numod.onnx.load`: from a file to a module. What the file says is checked where it is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from .library import onnx
from .model import OnnxModule


def load(file: str | os.PathLike | bytes | BinaryIO | object) -> OnnxModule:
    """The model of an ONNX file (a path, its bytes, an open binary file, or an `onnx.ModelProto`) as an nn.Module.

    Weights are Parameters, named as in the file; statistics of normalization, scales and integers are buffers. The
    module is in evaluation mode. Tensors outside the file are read from the file's own folder only.

    Raises ImportError without the package `onnx`, NotImplementedError, which lists all operators and types that numod
    does not support, and ValueError for damaged files.

    Example:

        >>> model = torch.onnx.load("model.onnx")
        >>> output = model(torch.randn(1, 3, 224, 224))
    """
    model, folder = read_model(file)
    from .build import build_module  # here, so that importing this folder does not load all operators

    return build_module(model, folder)


def read_model(file: object) -> tuple[object, Path | None]:
    """The ModelProto in `file`, and the folder where its external data may lie (None if that is unknown)."""
    kind = onnx().ModelProto
    if isinstance(file, kind):
        return file, None
    if isinstance(file, (str, os.PathLike)):
        path = Path(file)
        return _parsed(path.read_bytes(), str(path)), path.resolve().parent
    if isinstance(file, (bytes, bytearray, memoryview)):
        return _parsed(bytes(file), "bytes"), None
    if hasattr(file, "read"):
        return _parsed(file.read(), getattr(file, "name", "file")), None
    raise TypeError(f"load() takes a path, bytes, a binary file or an onnx.ModelProto, not {type(file).__name__}")


def _parsed(data: object, name: str) -> object:
    if not isinstance(data, bytes):
        raise TypeError(f"'{name}' must be opened in binary mode")
    try:
        model = onnx().ModelProto.FromString(data)
    except Exception as error:  # the protobuf package's DecodeError
        raise ValueError(f"'{name}' is not an ONNX model, or is damaged: {error}") from error
    if not model.HasField("graph") or not model.opset_import:
        raise ValueError(f"'{name}' is not an ONNX model, or is damaged: it has no graph or no opset")
    return model
