"""SummaryWriter: curves, images and histograms for TensorBoard, written by the package tensorboardX or tensorboard."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..core.tensor import Tensor
from ..nn import Module
from .model_graph import nodes_of

_INSTALL = "SummaryWriter needs tensorboardX or tensorboard; neither is installed: pip install 'numod[tensorboard]'"

_PROTOS = "tensorboard.compat.proto"  # the event formats in the package tensorboard


def _plain(value: Any) -> Any:
    """The value with arrays in the place of tensors."""
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return type(value)(map(_plain, value)) if type(value) in (list, tuple) else value


class SummaryWriter:
    """Writes to `log_dir` (`runs/` and the time) what TensorBoard shows.

    With tensorboardX all its methods are there (`add_scalar`, `add_scalars`, `add_histogram`, `add_image`, `add_text`,
    `add_figure`, `add_hparams`, …), and tensors may be passed. With tensorboard alone `add_scalar`, `add_scalars`,
    `add_text` and `add_graph` are. Raises ImportError with the line to install where there is neither.
    """

    def __init__(self, log_dir: str | os.PathLike | None = None, **options: Any) -> None:
        self.log_dir = (
            os.fspath(log_dir) if log_dir is not None else os.path.join("runs", time.strftime("%b%d_%H-%M-%S"))
        )
        try:
            self._writer = import_module("tensorboardX").SummaryWriter(self.log_dir, **options)
            self._protos = "tensorboardX.proto"
        except ImportError:
            self._writer = _Events(self.log_dir)
            self._protos = _PROTOS

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method = getattr(self._writer, name)
        if not name.startswith("add_"):
            return method
        return lambda *args, **kwargs: method(*_plain(list(args)), **_plain(kwargs))

    def add_graph(
        self, model: Module, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """The graph of `model(*input_to_model)` in evaluation mode: its ops by submodule, with shapes.

        `input_to_model` is a tensor, or a list or tuple of tensors. `verbose` prints the nodes; `use_strict_trace` is
        accepted and changes nothing.
        """
        if input_to_model is None:
            raise ValueError("add_graph() needs input_to_model, a tensor or a tuple of tensors as the module takes")
        nodes = nodes_of(model, input_to_model)
        if verbose:
            print(*nodes, sep="\n")
        graph, events = (import_module(f"{self._protos}.{name}_pb2") for name in ("graph", "event"))
        definition = graph.GraphDef()
        for node in nodes:
            entry = definition.node.add(name=node.name, op=node.op, input=node.inputs)
            for shape in node.shapes:
                sizes = entry.attr["_output_shapes"].list.shape.add()
                for size in shape:
                    sizes.dim.add(size=size)
        event = events.Event(wall_time=time.time(), graph_def=definition.SerializeToString())
        self._writer._get_file_writer().add_event(event)

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()


class _Events:
    """The least of a writer, by the package tensorboard."""

    def __init__(self, log_dir: str) -> None:
        try:
            self._protos = [import_module(f"{_PROTOS}.{name}_pb2") for name in ("event", "summary", "tensor")]
            kind = import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter
        except ImportError as error:
            raise ImportError(_INSTALL) from error
        os.makedirs(log_dir, exist_ok=True)
        self._file = kind(log_dir)

    def _get_file_writer(self) -> Any:
        return self._file

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A point of a curve."""
        self._add(global_step, walltime, tag=tag, simple_value=float(scalar_value))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Points of several curves."""
        for tag, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{tag}", value, global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text."""
        _, summaries, tensors = self._protos
        about = summaries.SummaryMetadata(plugin_data=summaries.SummaryMetadata.PluginData(plugin_name="text"))
        text = tensors.TensorProto(dtype="DT_STRING", string_val=[text_string.encode()])
        self._add(global_step, walltime, tag=tag, metadata=about, tensor=text)

    def _add(self, step: int | None, walltime: float | None, **value: Any) -> None:
        events, summaries, _ = self._protos
        summary = summaries.Summary(value=[summaries.Summary.Value(**value)])
        when = time.time() if walltime is None else walltime
        self._file.add_event(events.Event(wall_time=when, step=int(step or 0), summary=summary))

    def flush(self) -> None:
        """Write what waits."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
