"""Tables and plots of the figures of `ModelReport`."""

from __future__ import annotations

from collections import OrderedDict
from importlib import import_module
from typing import Any

from ...core import Tensor

__all__ = ["ModelReportVisualizer"]

_ABSENT = "Not Applicable"


class ModelReportVisualizer:
    """Tables and plots of the figures of layers, which `ModelReport.generate_visualizer` passes.

    There are figures of layers and of channels (tensors and lists). Filters are parts of names.
    """

    TABLE_TENSOR_KEY = "tensor_level_info"
    TABLE_CHANNEL_KEY = "channel_level_info"
    NUM_NON_FEATURE_TENSOR_HEADERS = 2
    NUM_NON_FEATURE_CHANNEL_HEADERS = 3
    CHANNEL_NUM_INDEX = 2

    def __init__(self, generated_reports: OrderedDict[str, Any]) -> None:
        self.generated_reports = generated_reports

    def get_all_unique_module_fqns(self) -> set[str]:
        """The paths of the layers."""
        return set(self.generated_reports)

    def get_all_unique_feature_names(self, plottable_features_only: bool = True) -> set[str]:
        """The names of the figures: of those that can be plotted, tensors, or of all."""
        return {
            name
            for features in self.generated_reports.values()
            for name, value in features.items()
            if not plottable_features_only or isinstance(value, Tensor)
        }

    def _filtered(self, feature_filter: str, module_fqn_filter: str) -> OrderedDict[str, dict[str, Any]]:
        return OrderedDict(
            (path, {name: value for name, value in features.items() if feature_filter in name})
            for path, features in self.generated_reports.items()
            if module_fqn_filter in path
        )

    def generate_filtered_tables(
        self, feature_filter: str = "", module_fqn_filter: str = ""
    ) -> dict[str, tuple[list, list]]:
        """The tables of layers and of channels, each as a list of headers and a list of rows.

        Example:

            >>> from numod.ao.quantization.fx._model_report.model_report_visualizer import ModelReportVisualizer
            >>> visualizer = ModelReportVisualizer({"fc": {"range": torch.tensor(2.0), "maxima": [1.0, 2.0]}})
            >>> visualizer.generate_filtered_tables("maxima")["channel_level_info"]
            (['idx', 'layer_fqn', 'channel', 'maxima'], [[0, 'fc', 0, 1.0], [1, 'fc', 1, 2.0]])
        """
        data = self._filtered(feature_filter, module_fqn_filter)
        values = [(name, value) for features in data.values() for name, value in features.items()]
        of_channels = sorted({name for name, value in values if _has_channels(value)})
        of_layers = sorted({name for name, value in values if not _has_channels(value)})
        rows = [[k, path, *_row(features, of_layers)] for k, (path, features) in enumerate(data.items())]
        channel_rows = [
            [path, k, *_row(features, of_channels, k)]
            for path, features in data.items()
            for k in range(max((len(features[name]) for name in of_channels if name in features), default=0))
        ]
        rows, channel_rows = rows if of_layers else [], [[k, *row] for k, row in enumerate(channel_rows)]
        return {
            self.TABLE_TENSOR_KEY: (["idx", "layer_fqn", *of_layers] if rows else [], rows),
            self.TABLE_CHANNEL_KEY: (
                ["idx", "layer_fqn", "channel", *of_channels] if channel_rows else [],
                channel_rows,
            ),
        }

    def generate_table_visualization(self, feature_filter: str = "", module_fqn_filter: str = "") -> None:
        """Print the tables."""
        tables = self.generate_filtered_tables(feature_filter, module_fqn_filter)
        texts = [
            f"{title} Level Information \n{_text(headers, rows)}"
            for title, (headers, rows) in zip(("Tensor", "Channel"), tables.values())
            if rows
        ]
        print("\n\n ".join(texts) or "No data points to generate table with.")

    def _get_plottable_data(self, feature_filter: str, module_fqn_filter: str) -> tuple[list, list, bool]:
        """The layers' numbers, the figure's values (a list for each channel), and whether it is one of channels."""
        tables = self.generate_filtered_tables(feature_filter, module_fqn_filter)
        headers, rows = tables[self.TABLE_TENSOR_KEY]
        channel_headers, channel_rows = tables[self.TABLE_CHANNEL_KEY]
        if len(headers) == self.NUM_NON_FEATURE_TENSOR_HEADERS + 1 and not channel_rows:
            points = [(k, row[-1]) for k, row in enumerate(rows) if not isinstance(row[-1], str)]
            return [k for k, _ in points], [value for _, value in points], False
        if len(channel_headers) != self.NUM_NON_FEATURE_CHANNEL_HEADERS + 1 or rows:
            raise ValueError(
                "Make sure to pick only a single feature with your filter to plot a graph. We recommend calling "
                "get_all_unique_feature_names() to find unique feature names. Pick one of those features to plot."
            )
        layers = list(dict.fromkeys(row[1] for row in channel_rows))
        points = [row for row in channel_rows if not isinstance(row[-1], str)]
        channels: list[list] = [[] for _ in range(max(row[self.CHANNEL_NUM_INDEX] for row in channel_rows) + 1)]
        for row in points:
            channels[row[self.CHANNEL_NUM_INDEX]].append(row[-1])
        return list(dict.fromkeys(layers.index(row[1]) for row in points)), channels, True

    def generate_plot_visualization(self, feature_filter: str, module_fqn_filter: str = "") -> None:
        """Plot one figure over the layers; of channels, the mean. Needs matplotlib."""
        pyplot, axes = _axes(feature_filter, "Plot")
        numbers, values, is_of_channels = self._get_plottable_data(feature_filter, module_fqn_filter)
        axes.set(ylabel=feature_filter, xlabel="First idx of module" if is_of_channels else "idx", xticks=numbers)
        if is_of_channels:
            by_layer = [[channel[k] for channel in values if k < len(channel)] for k in range(len(numbers))]
            values = [sum(layer) / len(layer) for layer in by_layer]
            axes.plot(numbers, values, label="Average Value Across Channels")
            axes.legend(loc="upper right")
        else:
            axes.plot(numbers, values)
        pyplot.show()

    def generate_histogram_visualization(
        self, feature_filter: str, module_fqn_filter: str = "", num_bins: int = 10
    ) -> None:
        """Plot the histogram of one figure, of all layers and channels. Needs matplotlib."""
        pyplot, axes = _axes(feature_filter, "Histogram")
        _, values, is_of_channels = self._get_plottable_data(feature_filter, module_fqn_filter)
        values = [value for channel in values for value in channel] if is_of_channels else values
        axes.set(xlabel=feature_filter, ylabel="Frequency", xticks=axes.hist(values, bins=num_bins, rwidth=0.8)[1])
        pyplot.show()


def _axes(feature: str, kind: str) -> tuple[Any, Any]:
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("plots are drawn by matplotlib, which is not installed: pip install 'numod[plot]'") from error
    axes = pyplot.subplot()
    axes.set_title(f"{feature} {kind}")
    return pyplot, axes


def _has_channels(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, Tensor) and value.ndim > 0)


def _row(features: dict[str, Any], names: list[str], channel: int | None = None) -> list[Any]:
    """The figures of a layer or channel, as Python numbers."""
    values = [features.get(name, _ABSENT) for name in names]
    if channel is not None:
        values = [
            value if isinstance(value, str) else value[channel] if channel < len(value) else _ABSENT for value in values
        ]
    return [value.item() if isinstance(value, Tensor) else value for value in values]


def _text(headers: list, rows: list) -> str:
    """A table with aligned columns."""
    cells = [[f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)
