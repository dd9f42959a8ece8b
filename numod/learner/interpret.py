"""Interpretation: which samples and classes a model gets wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from ..core.tensor import Tensor
from .dataloaders import in_order
from .preds import decoder_of


class Interpretation:
    """Predictions, targets and losses of all samples of a loader: `Interpretation.from_learner(learn)`.

    `inputs`, `preds`, `targs`, `decoded` (classes) and `losses` are tensors in the dataset's order.
    """

    def __init__(self, learn: Any, dl: Iterable) -> None:
        self.learn, self.dl = learn, dl
        self.inputs, self.preds, self.targs, self.losses = learn.get_preds(dl=dl, with_input=True, with_loss=True)
        self.decoded = decoder_of(learn.loss_func)(self.preds)

    @classmethod
    def from_learner(cls, learn: Any, ds_idx: int = 1, dl: Iterable | None = None) -> Self:
        """Of `dls[ds_idx]`, or of `dl`."""
        return cls(learn, in_order(learn.dls[ds_idx]) if dl is None else dl)

    def top_losses(self, k: int | None = None, largest: bool = True) -> tuple[Tensor, Tensor]:
        """(the `k` largest or smallest losses, the numbers of their samples); all without `k`."""
        count = len(self.losses)
        return tuple(self.losses.topk(count if k is None else min(k, count), largest=largest))

    def plot_top_losses(self, k: int = 9, largest: bool = True) -> Any:
        """Draw them with prediction, target, loss and probability; needs matplotlib. Gives the axes."""
        from .plots import show_images

        losses, numbers = self.top_losses(k, largest)
        inputs = self.inputs[0] if isinstance(self.inputs, tuple) else self.inputs
        titles = [self.title(number, loss) for number, loss in zip(numbers.tolist(), losses.tolist())]
        return show_images([inputs[number] for number in numbers.tolist()], titles)

    def title(self, number: int, loss: float) -> str:
        """Prediction / target / loss of a sample."""
        return f"{_short(self.decoded[number])} / {_short(self.targs[number])} / {loss:.2f}"


class ClassificationInterpretation(Interpretation):
    """Interpretation of a classifier, with its confusion matrix. `vocab` has the classes' names."""

    def __init__(self, learn: Any, dl: Iterable) -> None:
        super().__init__(learn, dl)
        count = self.preds.shape[1] if self.preds.dim() > 1 and self.preds.shape[1] > 1 else 2
        known = learn.dls.vocab
        self.vocab = [str(label) for label in (range(count) if known is None else known)]

    def confusion_matrix(self) -> Tensor:
        """Counts, int64 (classes, classes), rows by true class, columns by predicted class."""
        count = len(self.vocab)
        pairs = self.targs.reshape(-1).long() * count + self.decoded.reshape(-1).long()
        return pairs.cpu().bincount(minlength=count * count).reshape(count, count)

    def plot_confusion_matrix(self, normalize: bool = False, title: str = "Confusion matrix", ax: Any = None) -> Any:
        """Draw it; needs matplotlib. Gives the axes."""
        from .plots import plot_confusion_matrix

        return plot_confusion_matrix(self.confusion_matrix(), self.vocab, normalize, title, ax)

    def most_confused(self, min_val: int = 1) -> list[tuple[str, str, int]]:
        """(actual class, predicted class, count) of all mistakes made at least `min_val` times, most often first."""
        mistakes = [
            (self.vocab[row], self.vocab[column], count)
            for row, counts in enumerate(self.confusion_matrix().tolist())
            for column, count in enumerate(counts)
            if row != column and count >= min_val
        ]
        return sorted(mistakes, key=lambda mistake: -mistake[2])

    def print_classification_report(self) -> None:
        """Print precision, recall and F1 of each class."""
        matrix = self.confusion_matrix().double()
        hits, predicted, actual = matrix.diagonal(), matrix.sum(0), matrix.sum(1)
        print(f"{'':12} precision  recall      f1  samples")
        rows = zip(self.vocab, *[ratio.nan_to_num(0.0).tolist() for ratio in (hits / predicted, hits / actual,
                   2 * hits / (predicted + actual), actual)])  # fmt: skip
        for name, precision, recall, score, count in rows:
            print(f"{name:12} {precision:9.3f} {recall:7.3f} {score:7.3f} {count:8.0f}")

    def title(self, number: int, loss: float) -> str:
        """Prediction / target / loss / probability of the prediction."""
        decoded, target = int(self.decoded[number]), int(self.targs[number])
        preds = self.preds[number]
        probability = preds.reshape(-1)[decoded if preds.numel() > 1 else 0].item()
        return f"{self.vocab[decoded]} / {self.vocab[target]} / {loss:.2f} / {probability:.2f}"


def _short(value: Tensor) -> str:
    return f"{value.item():.3g}" if value.numel() == 1 else f"{tuple(value.shape)}"
