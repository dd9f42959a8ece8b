"""ActivationStats: mean, spread and histogram of each layer's results during training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..core.shape.joining import stack
from ..core.tensor import Tensor
from ..nn import Module
from .events import Callback


class ActivationStats(Callback):
    """Keep statistics of what layers give, every `every` batches of training: mean, standard deviation, share near
    zero, and with `with_hist` a histogram.

    `modules` are the layers, by default all without submodules; `mod_filter` chooses among them. `stats[layer][batch]`
    is a dict; numbers stay on the device until they are asked for by `layer_stats`.
    """

    order, only_fit, run_valid = -20, True, False

    def __init__(
        self,
        with_hist: bool = False,
        every: int = 1,
        modules: Sequence[Module] | None = None,
        mod_filter: Callable[[Module], bool] | None = None,
        hist: tuple[int, float, float] = (40, -10.0, 10.0),
    ) -> None:
        self.with_hist = with_hist
        self.every = every
        self.modules = modules
        self.mod_filter = mod_filter
        self.hist_range = hist
        self.stats: list[list[dict[str, Tensor]]] = []
        self.layers: list[tuple[str, Module]] = []
        self._hooks: list = []

    def before_fit(self) -> None:
        """Hook the layers."""
        named_layers = [
            (name, module) for name, module in self.learn.model.named_modules() if not list(module.children())
        ]
        if self.modules is not None:
            named_layers = [
                (name, module)
                for name, module in self.learn.model.named_modules()
                if any(module is m for m in self.modules)
            ]
        self.layers = [
            (name, module) for name, module in named_layers if self.mod_filter is None or self.mod_filter(module)
        ]
        self.stats = [[] for _ in self.layers]
        self._hooks = [
            module.register_forward_hook(partial(self._keep, k)) for k, (_, module) in enumerate(self.layers)
        ]

    def after_pred(self) -> None:
        """Declared so that the step is not compiled: the hooks run inside it."""

    def _keep(self, number: int, module: Module, args: tuple, result: Any) -> None:
        learn = self.learn
        if not learn.training or learn.train_iter % self.every:
            return
        while isinstance(result, (tuple, list)):
            result = result[0]
        values = result.detach().float()
        statistics = {"mean": values.mean(), "std": values.std(), "near_zero": (values <= 0.05).float().mean()}
        if self.with_hist:
            bins, low, high = self.hist_range
            statistics["hist"] = values.histc(bins, low, high)
        self.stats[number].append(statistics)

    def cleanup_fit(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def layer_stats(self, layer: int) -> tuple[list[float], list[float], list[float]]:
        """(means, standard deviations, shares near zero) of a layer by batch."""
        rows = self.stats[layer]
        keys = "mean", "std", "near_zero"
        if not rows:
            return [], [], []
        return tuple([stack([row[key].reshape(()) for row in rows]).tolist() for key in keys])

    def hist(self, layer: int) -> Tensor:
        """The histograms of a layer, (bins, batches), as log(1 + count)."""
        if not self.with_hist:
            raise ValueError("ActivationStats: histograms are kept with with_hist=True")
        return stack([row["hist"] for row in self.stats[layer]]).t().log1p()

    def plot(self) -> Any:
        """Draw means and standard deviations of all layers, and histograms if there are any; needs matplotlib."""
        from .plots import plot_activation_stats

        return plot_activation_stats(self)

    def state_dict(self) -> dict[str, Any]:
        """The statistics."""
        return {"stats": self.stats}
