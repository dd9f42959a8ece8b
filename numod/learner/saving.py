"""Files of a Learner. Reading a file never executes code from it."""

from __future__ import annotations

import io
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from ..errors import warn_caller
from .. import nn
from ..core.create.values import from_numpy
from ..core.tensor import Tensor
from ..export import export as export_program
from ..export import load as load_program
from ..export import save as save_program
from ..nn import functional as F
from ..serialization import load as load_file
from ..serialization import save as save_file
from .dataloaders import DataLoaders, mapped, moved_to
from .metrics import batch_size
from .preds import joined

_FORMAT = 1  # of `export`
_ENTRIES = {"program": Tensor, "weights": dict, "vocab": list, "loss": str, "n_inp": int}  # or None
_LOSSES = {
    "cross_entropy": (nn.CrossEntropyLoss, F.cross_entropy), "nll_loss": (nn.NLLLoss, F.nll_loss),
    "binary_cross_entropy_with_logits": (nn.BCEWithLogitsLoss, F.binary_cross_entropy_with_logits),
    "mse_loss": (nn.MSELoss, F.mse_loss), "l1_loss": (nn.L1Loss, F.l1_loss),
}  # fmt: skip


def path_of(learn: Any, file: str | Path) -> Path:
    """`path/model_dir/file.pth`, with its folder made; a suffix in `file` stays."""
    path = learn.path / learn.model_dir / file
    path = path if path.suffix else path.with_suffix(".pth")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def save(learn: Any, file: str | Path, with_opt: bool) -> Path:
    """Write the weights, and the optimizer's state. Of several ranks the first one writes, and all wait for it."""
    path = path_of(learn, file)
    state = learn.bare_model.state_dict()
    if not learn.rank:
        has_opt = with_opt and learn.opt is not None
        save_file({"model": state, "opt": learn.opt.state_dict()} if has_opt else state, path)
    return learn.same_on_all_ranks(path)


def load(learn: Any, file: str | Path, with_opt: bool, device: Any, strict: bool) -> None:
    """Read weights and optimizer state."""
    state = load_file(path_of(learn, file), map_location=device or learn._model_device())
    has_opt = set(state) == {"model", "opt"}
    learn.bare_model.load_state_dict(state["model"] if has_opt else state, strict=strict)
    if has_opt and with_opt:
        if learn.opt is None:
            learn.create_opt()
        learn.opt.load_state_dict(state["opt"])


def export(learn: Any, fname: str | Path) -> Path:
    """Write the model for use elsewhere: its program for one sample, its weights, the classes and the loss's name."""
    path = learn.path / fname
    loss = getattr(learn.loss_func, "func", learn.loss_func)
    name = next((name for name, (kind, f) in _LOSSES.items() if isinstance(loss, kind) or loss is f), None)
    vocab = None if learn.dls.vocab is None else [str(label) for label in learn.dls.vocab]
    content = {"numod.learner": _FORMAT, "weights": learn.model.state_dict(), "vocab": vocab, "loss": name}
    save_file(content | {"n_inp": learn.dls.n_inp, "program": _program(learn)}, path)
    return path


def _program(learn: Any) -> Any:
    """The bytes of an exported program of the model for one sample; None if it cannot be captured."""
    learn._find_device()
    learn.xb, learn.yb = learn._split(learn.dls.one_batch())
    sample = moved_to(_sample(learn.xb, 0), "cpu")
    learn._forget_batch()
    training, device = learn.model.training, learn._model_device()
    try:
        file = io.BytesIO()
        save_program(export_program(learn.model.cpu().eval(), sample), file)
    except (RuntimeError, ValueError, TypeError) as problem:
        warn_caller(
            f"export: the model cannot be captured as a program ({problem}); the file has its weights, and "
            "load_learner needs the argument model"
        )
        return None
    finally:
        learn.model.train(training)
        if device is not None:
            learn.model.to(device)
    return from_numpy(np.frombuffer(file.getvalue(), dtype=np.uint8).copy())


class SampleBySample(nn.Module):
    """A program of one sample, applied to each sample of a batch."""

    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.program = program

    def forward(self, *inputs: Any) -> Any:
        """The results of all samples."""
        return joined([self.program(*_sample(inputs, k)) for k in range(batch_size(inputs))])


def _sample(inputs: tuple, number: int) -> tuple:
    """The inputs of one sample, as a batch of one."""
    return mapped(inputs, lambda tensor: tensor[number : number + 1])


def load_learner(fname: str | Path, model: Any = None, cpu: bool = True) -> Any:
    """The Learner that `Learner.export` wrote, without data: for `predict`, and `get_preds(dl=...)`.

    The model is the program in the file, or `model`, of the class that was exported, with the weights of the file. Only
    data is read: nothing in the file is imported or executed. Raises ValueError for other files.
    """
    from .learner import Learner

    content = load_file(fname, map_location="cpu" if cpu else None)
    if not isinstance(content, dict) or content.get("numod.learner") != _FORMAT:
        raise ValueError(f"load_learner: {fname} was not written by Learner.export")
    for entry, kind in _ENTRIES.items():
        if not isinstance(content.get(entry), (kind, NoneType)):
            raise ValueError(f"load_learner: {fname} is damaged: {entry} is a {type(content[entry]).__name__}")
    program, vocab, n_inp, loss = [content.get(entry) for entry in ("program", "vocab", "n_inp", "loss")]
    if model is not None:
        model.load_state_dict(content["weights"])
    elif program is None:
        raise ValueError(f"load_learner: {fname} holds weights only; pass model=, of the class that was exported")
    else:
        model = SampleBySample(load_program(io.BytesIO(program.numpy().tobytes())).module())
    dls = DataLoaders((), n_inp=n_inp, vocab=vocab)
    loss_func = _LOSSES[loss][0]() if loss in _LOSSES else _no_loss
    return Learner(dls, model.eval(), loss_func, path=Path(fname).parent)


def _no_loss(pred: Any, *targets: Any) -> Any:
    raise RuntimeError("the exported Learner's loss function is not in its file; set learn.loss_func")
