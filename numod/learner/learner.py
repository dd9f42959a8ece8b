"""The Learner: a model, its data, a loss and an optimizer, and the usual ways to train and to use them.

The loop is in `loop`; everything else that happens during a fit is in callbacks.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ..nn import Module
from ..nn.normalization import _BatchNorm
from ..optim import Adam
from . import saving, schedule
from .dataloaders import as_dataloaders, default_loss, in_order
from .events import Callback, TrainEvalCallback
from .callbacks import as_list, no_logger
from .loop import Loop
from .metrics import Metric, as_metric
from .preds import GatherPredsCallback, activation_of, decoder_of, predict, sample_losses
from .progress import ProgressCallback
from .recorder import Recorder


class Learner(Loop):
    """Train `model` on `dls` with `loss_func` and `opt_func(parameters, lr=lr)`.

    - `loss_func`: `loss(pred, *targets)`. None takes the dataset's `loss_func`, or cross entropy for whole targets and
      the squared error for others.
    - `splitter`: a function of the model that gives lists of parameters, one for each parameter group, for
      discriminative learning rates: `fit(3, slice(1e-5, 1e-3))`. Without it there is one group.
    - `cbs`: callbacks; `metrics`: functions of `(pred, *targets)` or Metrics, shown after each epoch.
    - `path`, `model_dir`: folders of `save`, `export` and what callbacks write; by default `dls.path`.
    - `compile`: a step (forward, loss, backward, optimizer) is one compiled function.
    - `wd`: weight decay; None leaves it to the optimizer. `moms`: momenta of `fit_one_cycle`.
    - `train_bn`: frozen groups keep training their batch norms. `default_cbs`: False adds no recorder and no progress.
    """

    def __init__(
        self,
        dls: Any,
        model: Module,
        loss_func: Callable | None = None,
        opt_func: Callable = Adam,
        lr: float | slice = 1e-3,
        splitter: Callable | None = None,
        cbs: Iterable[Callback] | Callback = (),
        metrics: Iterable[Callable] | Callable = (),
        path: str | Path | None = None,
        compile: bool = False,
        *,
        model_dir: str | Path = "models",
        wd: float | None = None,
        moms: tuple[float, float, float] = (0.95, 0.85, 0.95),
        train_bn: bool = True,
        default_cbs: bool = True,
    ) -> None:
        super().__init__()
        self.dls = as_dataloaders(dls)
        self.model, self.opt_func, self.lr, self.splitter = model, opt_func, lr, splitter
        self.loss_func = default_loss(self.dls) if loss_func is None else loss_func
        self.path, self.model_dir, self.compile = Path(self.dls.path if path is None else path), model_dir, compile
        self.wd, self.moms, self.train_bn, self.logger = wd, moms, train_bn, print
        self.metrics = metrics
        self.add_cbs([TrainEvalCallback, *([Recorder, ProgressCallback] if default_cbs else [])]).add_cbs(cbs)
        self._prepare_events()
        self("after_create")

    @property
    def metrics(self) -> list[Metric]:
        """The metrics; functions become averages over the samples."""
        return self._metrics

    @metrics.setter
    def metrics(self, metrics: Any) -> None:
        self._metrics = [as_metric(metric) for metric in as_list(metrics)]

    # ---- the optimizer

    def create_opt(self) -> None:
        """Make the optimizer, with a parameter group for each list of the splitter. An `lr` in a partial function
        `opt_func` becomes the Learner's.
        """
        self.lr = getattr(self.opt_func, "keywords", {}).get("lr", self.lr)
        split = (
            [list(self.model.parameters())]
            if self.splitter is None
            else [list(group) for group in self.splitter(self.model)]
        )
        rates = schedule.per_group(self.lr, len(split))
        groups = [{"params": parameters, "lr": rate} for parameters, rate in zip(split, rates)]
        self.opt = self.opt_func(groups if len(groups) > 1 else split[0], lr=rates[-1])

    def _set_lr(self, lr: Any) -> list[float]:
        """Set the learning rates of the groups, and return them."""
        if self.opt is None:
            self.create_opt()
        rates = schedule.per_group(self.lr if lr is None else lr, len(self.opt.param_groups))
        schedule.set_hyper(self.opt, "lr", rates)
        return rates

    def freeze_to(self, n: int) -> None:
        """Train only the parameter groups from `n` on."""
        if self.opt is None:
            self.create_opt()
        groups = self.opt.param_groups
        first = n if n >= 0 else len(groups) + n
        norms = {
            id(p) for module in self.model.modules() if isinstance(module, _BatchNorm) for p in module.parameters()
        }
        for number, group in enumerate(groups):
            for parameter in group["params"]:
                parameter.requires_grad_(number >= first or (self.train_bn and id(parameter) in norms))
                parameter.grad = None

    def freeze(self) -> None:
        """Train only the last parameter group."""
        self.freeze_to(-1)

    def unfreeze(self) -> None:
        """Train all parameters."""
        self.freeze_to(0)

    # ---- training

    def fit(
        self, n_epoch: int, lr: Any = None, wd: float | None = None, cbs: Any = None, reset_opt: bool = False,
        start_epoch: int = 0, resume: bool = False,
    ) -> None:  # fmt: skip
        """Train for `n_epoch` epochs, with further callbacks `cbs`.

        `lr` is a number, a list with one for each parameter group, or a slice (see `schedule.per_group`). With `resume`
        training goes on from what the callback `Checkpoint` last wrote, if there is such a file, with the same result
        as if it had not been interrupted.
        """
        with self.added_cbs(cbs):
            if resume and not hasattr(self, "checkpoint"):
                raise ValueError(
                    "fit(resume=True) needs the callback Checkpoint: Learner(..., cbs=[Checkpoint(every=100)])"
                )
            if reset_opt or self.opt is None:
                self.create_opt()
            wd = self.wd if wd is None else wd
            if wd is not None:
                schedule.set_hyper(self.opt, "wd", wd)
            self._set_lr(lr)
            self.n_epoch, self.start_epoch, self.resume = n_epoch, start_epoch, resume
            self._run_fit(self._fit)

    def fit_one_cycle(
        self, n_epoch: int, lr_max: Any = None, div: float = 25.0, div_final: float = 1e5, pct_start: float = 0.25,
        moms: tuple[float, float, float] | None = None, cbs: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        """Train with one cycle: the learning rate rises from `lr_max / div` in the first `pct_start` and falls to
        `lr_max / div_final`, momentum the other way (Smith, 2018). `options` are those of `fit`.
        """
        top = self._set_lr(lr_max)
        scheds = {"lr": schedule.combined_cos(pct_start, [lr / div for lr in top], top, [lr / div_final for lr in top])}
        if schedule.has_hyper(self.opt, "mom"):
            scheds["mom"] = schedule.combined_cos(pct_start, *(self.moms if moms is None else moms))
        self.fit(n_epoch, lr_max, cbs=[schedule.ParamScheduler(scheds), *as_list(cbs)], **options)

    def fit_flat_cos(
        self,
        n_epoch: int,
        lr: Any = None,
        div_final: float = 1e5,
        pct_start: float = 0.75,
        cbs: Any = None,
        **options: Any,
    ) -> None:
        """Train at a constant learning rate until `pct_start`, then let it fall along a cosine."""
        top = self._set_lr(lr)
        scheds = {"lr": schedule.combined_cos(pct_start, top, top, [lr / div_final for lr in top])}
        self.fit(n_epoch, lr, cbs=[schedule.ParamScheduler(scheds), *as_list(cbs)], **options)

    def fit_sgdr(
        self, n_cycles: int, cycle_len: int, lr_max: Any = None, cycle_mult: int = 2, cbs: Any = None, **options: Any
    ) -> None:
        """Train for `n_cycles` cosine cycles, the first of `cycle_len` epochs, each `cycle_mult` times as long as the
        last (Loshchilov and Hutter, 2016).
        """
        top = self._set_lr(lr_max)
        lengths = [cycle_len * cycle_mult**k for k in range(n_cycles)]
        down = schedule.SchedCos(top, [0.0] * len(top))
        scheds = {"lr": schedule.combine_scheds([length / sum(lengths) for length in lengths], [down] * n_cycles)}
        self.fit(sum(lengths), lr_max, cbs=[schedule.ParamScheduler(scheds), *as_list(cbs)], **options)

    def fine_tune(
        self, epochs: int, base_lr: float = 2e-3, freeze_epochs: int = 1, lr_mult: float = 100,
        pct_start: float = 0.3, div: float = 5.0, **options: Any,
    ) -> None:  # fmt: skip
        """Train the last parameter group for `freeze_epochs`, then all for `epochs`, the first groups with learning
        rates up to `lr_mult` times smaller.
        """
        self.freeze()
        self.fit_one_cycle(freeze_epochs, slice(base_lr), pct_start=0.99, **options)
        self.unfreeze()
        half = base_lr / 2
        self.fit_one_cycle(epochs, slice(half / lr_mult, half), pct_start=pct_start, div=div, **options)

    def lr_find(
        self,
        start_lr: float = 1e-7,
        end_lr: float = 10,
        num_it: int = 100,
        stop_div: bool = True,
        show_plot: bool = False,
        suggest_funcs: Any = (schedule.valley,),
    ) -> Any:
        """Train a copy of the model with a growing learning rate, and suggest some: a named tuple with a field for each
        of `suggest_funcs` (`valley`, `slide`, `steep`, `minimum`).

        The model, the optimizer and the random state stay as they are. The losses are in `lr_finder`, a
        Recorder; `show_plot` draws them with matplotlib.
        """
        with self._probing([recorder := Recorder()]):
            finder = schedule.LRFinder(start_lr, end_lr, num_it, stop_div)
            rates = schedule.find_rates(self, recorder, finder, suggest_funcs)
        self.lr_finder = recorder
        rates = self.same_on_all_ranks(rates)
        if show_plot:
            self.plot_lr_find(rates)
        return namedtuple("SuggestedLRs", rates)(*(rate for rate, _ in rates.values()))

    def plot_lr_find(self, suggestions: dict[str, tuple] | None = None, ax: Any = None) -> Any:
        """Draw the last `lr_find`; needs matplotlib. Gives the axes."""
        from .plots import plot_lr_find

        return plot_lr_find(self.lr_finder, suggestions or {}, ax)

    def distrib_ctx(self, sync_bn: bool = False, **options: Any) -> AbstractContextManager[Learner]:
        """Context in which `fit` trains on several ranks (see `DistributedTrainer`, which takes `options`)."""
        from .distributed import in_process_group

        return in_process_group(self, sync_bn, options)

    # ---- using the model

    @contextmanager
    def _probing(self, cbs: Sequence[Callback]) -> Iterator[None]:
        """Context in which only callbacks run that are not for `fit` alone, and these; nothing is logged."""
        recorder, logger = getattr(self, "recorder", None), self.logger
        for callback in cbs:
            callback.only_fit = False
        try:
            with self._kept_state():
                self.probing, self.logger = True, no_logger
                with self.added_cbs(list(cbs)):
                    yield
        finally:
            self.probing, self.logger = False, logger
            if recorder is not None:
                self.recorder = recorder

    def _validate_only(self, dl: Iterable) -> None:
        self.n_epoch = 1
        was = [(module, module.training) for module in self.model.modules()]
        try:
            self._run_fit(lambda: self._with_epoch_events(lambda: self._validate_epoch(dl)))
        finally:
            for module, training in was:
                module.training = training

    def loss_not_reduced(self) -> AbstractContextManager[None]:
        """Context in which `loss_func` gives a loss for each sample."""
        return sample_losses(self)

    def validate(self, ds_idx: int = 1, dl: Iterable | None = None, cbs: Any = None) -> list[float | None]:
        """[loss, *metrics] of a loader: `dls[ds_idx]` or `dl`. The recorder keeps what it has."""
        recorder = Recorder()
        with self._probing([recorder, *as_list(cbs)]):
            self._validate_only(self.dls[ds_idx] if dl is None else dl)
        return recorder.values[-1][1:]

    def get_preds(
        self, ds_idx: int = 1, dl: Iterable | None = None, with_input: bool = False, with_decoded: bool = False,
        with_loss: bool = False, act: Callable | None = None, cbs: Any = None,
    ) -> tuple:  # fmt: skip
        """(inputs, predictions, targets, decoded, losses) of a loader in the dataset's order; only what is asked for.

        `act` is applied to what the model gives; by default softmax for a loss of class scores, sigmoid for one of
        logits. Decoded are the classes. Targets are None where batches have none.
        """
        gather = GatherPredsCallback(with_input, with_loss)
        with self._probing([gather, *as_list(cbs)]):
            loss_func = self.loss_func  # in a fit, a callback may have replaced it
            with self.loss_not_reduced() if with_loss else nullcontext():
                self.compile = False
                self._validate_only(in_order(self.dls[ds_idx]) if dl is None else dl)
        inputs, preds, targets, losses = gather.all_tensors()
        preds = (activation_of(loss_func) if act is None else act)(preds)
        results = (inputs,) * with_input + (preds, targets)
        return results + (decoder_of(loss_func)(preds),) * with_decoded + (losses,) * with_loss

    def predict(self, item: Any, with_input: bool = False) -> tuple:
        """(class or value, its number as a tensor, the prediction) of one input, or of a sample of the dataset."""
        return predict(self, item, with_input)

    def show_results(self, ds_idx: int = 1, max_n: int = 9) -> Any:
        """Draw some inputs with their targets and predictions; needs matplotlib. Gives the axes."""
        from .plots import show_results

        return show_results(self, ds_idx, max_n)

    def summary(self) -> str:
        """The layers, the optimizer, the loss and the callbacks, as text."""
        from .report import summary_text

        return summary_text(self)

    def report(self, path: str | Path, title: str = "Training run", worst: int = 12) -> None:
        """Write the run as one HTML page: curves, schedule, confusion matrix, worst samples, model, environment."""
        from .report import write_report

        write_report(self, path, title, worst)

    # ---- files

    def save(self, file: str | Path, with_opt: bool = True) -> Path:
        """Write the weights, and the optimizer's state, to `path/model_dir/file.pth`. Gives the path."""
        return saving.save(self, file, with_opt)

    def load(self, file: str | Path, with_opt: bool = True, device: Any = None, strict: bool = True) -> Learner:
        """Read what `save` wrote. Nothing in the file is executed."""
        saving.load(self, file, with_opt, device, strict)
        return self

    def export(self, fname: str | Path = "export.pt") -> Path:
        """Write the model as a program that needs none of your code, for `load_learner`. Gives the path."""
        return saving.export(self, fname)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({type(self.model).__name__}, callbacks: {', '.join(map(repr, self.ordered_cbs()))})"
        )
