"""What a Learner offers: ways to train, the search for a learning rate, predictions, files, reports."""

from __future__ import annotations

import io
import json
import pickle
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import numod
from numod import nn, optim
from numod.learner import (
    ClassificationInterpretation,
    Callback,
    DataLoaders,
    EarlyStoppingCallback,
    Learner,
    ShowGraphCallback,
    Recorder,
    SaveModelCallback,
    accuracy,
    combined_cos,
    load_learner,
    minimum,
    slide,
    steep,
    valley,
)
from numod.learner.progress import sparkline
from numod.learner.schedule import per_group
from numod.nn import functional as F
from numod.utils.data import DataLoader, TensorDataset
from small_training import X, Y, batches, learner, network, same

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def two_groups(model: nn.Module) -> list:
    return [list(model[0].parameters()), list(model[2].parameters())]


def digits_like(**options: object) -> Learner:
    dls = DataLoaders.from_dsets(TensorDataset(X, Y), TensorDataset(X, Y), bs=4, vocab=["a", "b", "c"])
    learn = Learner(dls, network(), nn.CrossEntropyLoss(), optim.SGD, lr=0.1, **options)
    return learn


def test_one_cycle_is_fastais() -> None:
    learn = learner(cbs=Recorder, splitter=two_groups, opt_func=optim.Adam)
    learn.fit_one_cycle(2, slice(1e-3, 1e-2))
    assert learn.recorder.hps["lr"] == pytest.approx(
        [combined_cos(0.25, 1e-2 / 25, 1e-2, 1e-7)(k / 6) for k in range(6)]
    )
    assert learn.recorder.hps["mom"] == pytest.approx([combined_cos(0.25, 0.95, 0.85, 0.95)(k / 6) for k in range(6)])
    first, last = [group["lr"] for group in learn.opt.param_groups]
    assert first == pytest.approx(last / 10)


def test_further_schedules() -> None:
    learn = learner(cbs=Recorder)
    learn.fit_flat_cos(2, 0.1)
    assert learn.recorder.lrs[:5] == pytest.approx([0.1] * 5) and learn.recorder.lrs[5] < 0.1
    learn.fit_sgdr(2, 1, 0.1)
    assert learn.recorder.lrs[0] == learn.recorder.lrs[3] == 0.1 and len(learn.recorder.lrs) == 9


def test_learning_rates_of_groups() -> None:
    assert per_group(slice(1e-5, 1e-3), 3) == pytest.approx([1e-5, 1e-4, 1e-3])
    assert per_group(slice(1e-3), 3) == pytest.approx([1e-4, 1e-4, 1e-3]) and per_group(0.1, 2) == [0.1, 0.1]
    with pytest.raises(ValueError, match="expected one lr or 1, one for each parameter group, got 2"):
        learner().fit(1, [0.1, 0.2])


def test_fine_tune_trains_the_last_group_first() -> None:
    learn = learner(cbs=Recorder, splitter=two_groups)
    learn.freeze()
    before = learn.model[0].weight.detach().clone()
    learn.fit(1)
    assert numod.equal(learn.model[0].weight, before) and not same(learn.model, network())
    learn.fine_tune(1, 0.1)
    assert not numod.equal(learn.model[0].weight, before)
    assert [group["lr"] for group in learn.opt.param_groups][1] == pytest.approx(100 * learn.opt.param_groups[0]["lr"])


def test_a_compiled_step_follows_what_is_frozen() -> None:
    learn = learner(splitter=two_groups, compile=True)
    learn.fit(1)
    before = learn.model[0].weight.detach().clone()
    learn.freeze()
    learn.fit(1)
    assert numod.equal(learn.model[0].weight, before)
    learn.unfreeze()
    learn.fit(1)
    assert not numod.equal(learn.model[0].weight, before)


def test_lr_find_leaves_everything_as_it_was(tmp_path: Path) -> None:
    generator = numod.Generator().manual_seed(2)
    dls = DataLoaders(DataLoader(TensorDataset(X, Y), 4, shuffle=True, generator=generator))
    learn = Learner(dls, network(), F.cross_entropy, optim.Adam, path=tmp_path, default_cbs=False, cbs=Recorder)
    learn.logger = lambda row: None
    learn.fit(1)
    weights, losses = pickle.dumps([p.tolist() for p in learn.model.parameters()]), learn.recorder.losses
    state, position = numod.get_rng_state(), generator.get_state()
    opt, model = learn.opt, learn.model
    rates = learn.lr_find(num_it=30, suggest_funcs=(valley, slide, steep, minimum))
    assert rates._fields == ("valley", "slide", "steep", "minimum") and min(rates) > 0
    assert weights == pickle.dumps([p.tolist() for p in learn.model.parameters()]) and learn.model is model
    assert numod.equal(state, numod.get_rng_state()) and numod.equal(position, generator.get_state())
    assert learn.opt is opt and learn.recorder.losses == losses and len(learn.lr_finder.losses) <= 31


def test_lr_find_runs_no_trackers(tmp_path: Path) -> None:
    learn = digits_like(path=tmp_path, cbs=[SaveModelCallback(), EarlyStoppingCallback()])
    assert learn.lr_find(num_it=20).valley and not (tmp_path / "models").exists()


def test_suggestions_of_a_known_curve() -> None:
    lrs = [10.0 ** (k / 10 - 5) for k in range(50)]
    losses = [2.0] * 10 + [2.0 - 0.05 * k for k in range(30)] + [0.6 + k for k in range(10)]
    assert minimum(lrs, losses, 100)[0] == pytest.approx(lrs[39] / 10)
    assert lrs[9] < valley(lrs, losses, 100)[0] < lrs[39] and lrs[9] <= steep(lrs, losses, 100)[0] < lrs[40]


def test_a_curve_that_only_falls_has_the_index_of_fastais_valley() -> None:
    losses = [3.0 - 0.1 * k for k in range(30)]
    assert valley(list(range(30)), losses, 30)[0] == -1 + 10 + 5


def test_defaults_that_are_found_elsewhere(tmp_path: Path) -> None:
    dls = DataLoaders(batches(), path=tmp_path)
    learn = Learner(dls, network(), F.cross_entropy, partial(optim.SGD, lr=0.5), default_cbs=False)
    learn.fit(1)
    assert learn.path == tmp_path and learn.lr == 0.5 and learn.opt.param_groups[0]["lr"] == 0.5
    assert Learner((batches(),), network(), F.cross_entropy, path="elsewhere").path == Path("elsewhere")


def test_losses_of_samples(capsys: pytest.CaptureFixture) -> None:
    for loss_func in (F.cross_entropy, nn.CrossEntropyLoss()):
        learn = learner(loss_func=loss_func)
        with learn.loss_not_reduced():
            losses = learn.loss_func(learn.model(X), Y)
        assert losses.shape == (12,) and learn.loss_func(learn.model(X), Y).allclose(losses.mean())
    with learn.no_mbar():
        learn.fit(1)
    assert capsys.readouterr().out == ""


def test_validate_keeps_what_the_recorder_has(capsys: pytest.CaptureFixture) -> None:
    learn = digits_like(metrics=accuracy)
    learn.fit(1)
    values, losses = learn.recorder.values, list(learn.recorder.losses)
    capsys.readouterr()
    assert learn.validate() == pytest.approx(values[0][1:]) and learn.recorder.values is values
    assert learn.recorder.losses == losses and capsys.readouterr().out == "" and learn.model.training is False


def test_predictions() -> None:
    learn = digits_like()
    inputs, preds, targets, decoded, losses = learn.get_preds(
        ds_idx=0, with_input=True, with_decoded=True, with_loss=True
    )
    scores = learn.model(X)
    assert numod.equal(inputs, X) and numod.equal(targets, Y) and numod.allclose(preds, scores.softmax(1))
    assert numod.equal(decoded, scores.argmax(1)) and numod.allclose(
        losses, F.cross_entropy(scores, Y, reduction="none")
    )
    assert learn.loss_func.reduction == "mean"
    name, number, probabilities = learn.predict(X[3])
    assert name == "abc"[number.item()] and numod.allclose(probabilities, preds[3], rtol=1e-5)
    assert numod.equal(learn.predict((X[3], Y[3]))[2], probabilities)


def test_regression_and_logits_are_decoded_as_their_loss_says() -> None:
    learn = Learner(DataLoaders(batches()), network(), nn.MSELoss(), default_cbs=False)
    value, number, raw = learn.predict(X[0])
    assert numod.equal(value, raw) and numod.equal(raw, learn.model(X[:1])[0])
    learn.loss_func = nn.BCEWithLogitsLoss()
    value, _, probabilities = learn.predict(X[0])
    assert numod.allclose(probabilities, learn.model(X[:1])[0].sigmoid()) and numod.equal(value, probabilities > 0.5)


def test_the_loss_fits_the_targets() -> None:
    assert isinstance(Learner(DataLoaders.from_dsets(TensorDataset(X, Y)), network()).loss_func, nn.CrossEntropyLoss)
    assert isinstance(Learner(DataLoaders.from_dsets(TensorDataset(X, X)), network()).loss_func, nn.MSELoss)
    with pytest.raises(ValueError, match="could not infer a loss function"):
        Learner(DataLoaders([(X, Y)]), network())


def test_save_and_load(tmp_path: Path) -> None:
    learn = digits_like(path=tmp_path)
    with learn.no_bar():
        learn.fit(1)
        path = learn.save("first")
        weights = pickle.dumps(learn.model.state_dict()["0.weight"].tolist())
        learn.fit(1)
    assert path == tmp_path / "models" / "first.pth"
    other = digits_like(path=tmp_path).load("first")
    assert pickle.dumps(other.model.state_dict()["0.weight"].tolist()) == weights and other.opt is not None


def test_export_needs_no_code_and_runs_none(tmp_path: Path) -> None:
    learn = digits_like(path=tmp_path)
    learn.export()
    loaded = load_learner(tmp_path / "export.pt")
    assert loaded.predict(X[0])[0] == learn.predict(X[0])[0]
    assert numod.allclose(loaded.get_preds(dl=batches())[0], learn.get_preds(dl=batches())[0])
    again = load_learner(tmp_path / "export.pt", model=network())
    assert same(again.model, learn.model)

    class Harm:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "harm",))

    for content in (pickle.dumps(Harm()), b"", b"nonsense"):
        (tmp_path / "bad.pt").write_bytes(content)
        with pytest.raises(RuntimeError):
            load_learner(tmp_path / "bad.pt")
    numod.save({"weights": {}}, tmp_path / "bad.pt")
    with pytest.raises(ValueError, match="was not written by Learner.export"):
        load_learner(tmp_path / "bad.pt")
    assert not (tmp_path / "harm").exists()


def test_a_model_that_is_no_program_is_exported_as_weights(tmp_path: Path) -> None:
    class Steered(nn.Sequential):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return super().forward(x if x.sum() > 0 else -x)

    learn = digits_like(path=tmp_path)
    learn.model = Steered(*network())
    with pytest.warns(UserWarning, match="the file has its weights"):
        learn.export("steered.pt")
    with pytest.raises(ValueError, match="holds weights only; pass model="):
        load_learner(tmp_path / "steered.pt")
    assert same(load_learner(tmp_path / "steered.pt", model=Steered(*network())).model, learn.model)


def test_the_terminal_shows_a_row_per_epoch(capsys: pytest.CaptureFixture) -> None:
    learn = digits_like(metrics=accuracy)
    learn.fit(2)
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].split() == ["epoch", "train_loss", "valid_loss", "accuracy", "time"] and len(lines) == 3
    assert lines[2].split()[:2] == ["1", f"{learn.recorder.values[1][0]:.6f}"] and shown.err == ""
    assert learn.progress._repr_html_().count("<tr>") == 3
    with learn.no_logging():
        learn.fit(1)
    assert capsys.readouterr().out == ""


def test_a_small_curve_of_blocks() -> None:
    assert sparkline([1.0, 2.0, 3.0]) == "▁▅█" and sparkline([]) == "" and sparkline([2.0, float("nan"), 2.0]) == "▁▁"
    assert len(sparkline(list(range(1000)), 16)) == 16


def notebook(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a notebook's output is, update by update."""
    shown: list[str] = []
    monkeypatch.setattr(
        "numod.learner.progress.live_display", lambda: lambda callback: shown.append(callback._repr_html_())
    )
    return shown


def test_the_notebook_updates_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = notebook(monkeypatch)
    learn = digits_like()
    assert learn.progress._repr_html_() == ""  # before a fit
    learn.fit(2)
    assert "<progress" in shown[0] and "epoch 1/2 train" in shown[0] and "<progress" not in shown[-1]
    assert [html.count("<tr>") for html in shown] == sorted(html.count("<tr>") for html in shown)
    assert shown[-1].count("<tr>") == 3 and shown[-1] == learn.progress._repr_html_()
    del shown[:]
    with learn.no_logging():
        learn.fit(1)
    assert "<progress" in shown[0] and shown[-1] == ""


def test_a_graph_of_the_losses(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    learn = digits_like(cbs=ShowGraphCallback)
    learn.fit(1)
    assert re.search("^training [▁-█]{3}  validation [▁-█]$", capsys.readouterr().out, re.MULTILINE)
    with learn.no_logging():
        learn.fit(1)
        with learn.no_bar():
            learn.fit(1)
    assert capsys.readouterr().out == ""
    shown = notebook(monkeypatch)
    learn.fit(2)
    assert "<svg" not in shown[0] and shown[-1].count("<polyline") == 2 and "6 batches" in shown[-1]
    assert capsys.readouterr().out == ""


def test_summary_and_loop(capsys: pytest.CaptureFixture) -> None:
    learn = digits_like(cbs=Callback(after_step=lambda self: None))
    text = learn.summary()
    assert "Linear" in text and "Optimizer: SGD" in text and "- Recorder" in text
    learn.show_training_loop()
    assert re.search(r"after_step +Callback\n", capsys.readouterr().out)


def test_interpretation() -> None:
    learn = digits_like()
    interpretation = ClassificationInterpretation.from_learner(learn)
    matrix = interpretation.confusion_matrix()
    expected = np.zeros((3, 3), dtype=int)
    for target, guess in zip(Y.tolist(), learn.model(X).argmax(1).tolist()):
        expected[target, guess] += 1
    assert matrix.tolist() == expected.tolist() and interpretation.vocab == ["a", "b", "c"]
    mistakes = interpretation.most_confused()
    assert sum(count for *_, count in mistakes) == 12 - expected.trace() and mistakes == sorted(
        mistakes, key=lambda m: -m[2]
    )
    losses, numbers = interpretation.top_losses(3)
    assert numod.equal(losses, F.cross_entropy(learn.model(X), Y, reduction="none")[numbers])
    assert losses.tolist() == sorted(losses.tolist(), reverse=True)


def reported(tmp_path: Path) -> tuple[Path, dict]:
    images = X.reshape(12, 1, 2, 2)
    dls = DataLoaders.from_dsets(*[TensorDataset(images, Y)] * 2, bs=4, vocab=["<a>", "b", "c"])
    learn = Learner(dls, nn.Sequential(nn.Flatten(), *network()), nn.CrossEntropyLoss(), optim.SGD, metrics=accuracy)
    learn.fit_one_cycle(2, 0.1)
    path = tmp_path / "run.html"
    learn.report(path, "a <run>")
    text = path.read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1]
    return path, json.loads(data.replace("<\\/", "</"))


def test_the_report_is_one_file_with_the_runs_numbers(tmp_path: Path) -> None:
    path, data = reported(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=[\"']?https?:|@import|url\(|fetch\(|XMLHttpRequest", text)
    assert "<title>a &lt;run></title>" in text and "function curves(" in text
    assert (
        len(data["train"]) == 6
        and len(data["valid"]) == 2
        and [curve["name"] for curve in data["schedule"]] == ["lr", "mom"]
    )
    assert sum(map(sum, data["confusion"]["counts"])) == 12 and len(data["worst"]) == 12
    assert data["worst"][0]["height"] == 2 and len(data["epochs"]) == 2 and data["layers"][0][0] == "Sequential"


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_browser_draws_the_report(tmp_path: Path) -> None:
    path, data = reported(tmp_path)
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        "--virtual-time-budget=5000",
    ]
    finished = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in finished.stderr and 'data-ready="yes"' in finished.stdout
    assert finished.stdout.count("<canvas") == 12 and finished.stdout.count("<svg") == 4
    assert "&lt;a&gt;" in finished.stdout


def test_plots_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    learn = learner(cbs=Recorder)
    learn.fit(1)
    with pytest.raises(ImportError, match=r"pip install 'numod\[plot\]'"):
        learn.recorder.plot_loss()


def test_plots_draw(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    from numod.learner import ActivationStats

    learn = digits_like(cbs=ActivationStats(with_hist=True))
    learn.lr_find(num_it=20, show_plot=True)
    learn.fit_one_cycle(1, 0.1)
    assert len(learn.recorder.plot_loss().lines) == 2 and len(learn.recorder.plot_sched()) == 2
    assert len(learn.activation_stats.plot()) == 6
    assert len(learn.show_results()) == 4 and len(learn.show_results(max_n=2)) == 2  # of a batch of 4
    interpretation = ClassificationInterpretation.from_learner(learn)
    assert (
        interpretation.plot_confusion_matrix(normalize=True).get_xlabel() == "predicted"
        and len(interpretation.plot_top_losses(4)) == 4
    )
    pyplot.savefig(io.BytesIO())
    pyplot.close("all")
