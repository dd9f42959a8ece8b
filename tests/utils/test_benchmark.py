"""`numod.utils.benchmark` with a clock that only counts: no test waits, none depends on the machine."""

from __future__ import annotations

import pytest

import numod
from numod.utils import benchmark
from numod.utils.benchmark import Compare, Language, Measurement, TaskSpec, Timer


def clock(step: float):
    """Every look at it is `step` seconds later."""
    now = [0.0]

    def look() -> float:
        now[0] += step
        return now[0]

    return look


def test_timeit_runs_the_requested_number_of_times():
    calls = []
    result = Timer("calls.append(1)", globals={"calls": calls}, timer=clock(3.0)).timeit(100)
    assert (
        len(calls) == 102
        and result.number_per_run == 100
        and result.times == [0.03]
        and result.mean == result.median == 0.03
        and result.iqr == 0.0
    )


def test_blocks_fill_the_time():
    result = Timer("pass", timer=clock(0.03)).blocked_autorange(min_run_time=0.2)
    assert result.number_per_run == 1 and len(result.raw_times) == 7 and sum(result.raw_times) >= 0.2


def test_adaptive_blocks_end_when_the_noise_is_small():
    result = Timer("pass", timer=clock(0.03)).adaptive_autorange(threshold=0.1)
    assert len(result.raw_times) == 4 and result.meets_confidence(0.1)


def test_threads_are_set_and_put_back():
    seen, before = [], numod.get_num_threads()
    Timer("seen.append(numod.get_num_threads())", globals={"seen": seen, "numod": numod}, num_threads=3).timeit(2)
    assert set(seen) == {3} and numod.get_num_threads() == before


def test_setup_and_errors():
    assert Timer("\n    y = x + 1\n", setup="\n    x = 1\n", timer=clock(1.0)).timeit(1).stmt == "    y = x + 1".strip()
    with pytest.raises(ZeroDivisionError):
        Timer("1 / 0").timeit(1)
    with pytest.raises(ValueError, match="Python statements"):
        Timer("x", language="c++")


def test_a_measurement_prints_what_matters():
    task = TaskSpec("x.exp()", "x = 1", label="exponential", sub_label="large", num_threads=2)
    text = str(Measurement(10, [1e-5, 2e-5, 3e-5, 4e-5], task))
    assert (
        "exponential: large" in text
        and "setup: x = 1" in text
        and "Median: 2.50 us" in text
        and "4 measurements, 10 runs per measurement, 2 threads" in text
    )
    assert "WARNING: Interquartile range" in text
    assert "1 measurement, 10 runs , 1 thread" in str(Measurement(10, [1e-3], TaskSpec("pass", "pass")))


def measured(seconds: list[float], sub_label: str, description: str, threads: int = 1) -> Measurement:
    return Measurement(
        1,
        seconds,
        TaskSpec("x", "pass", label="add", sub_label=sub_label, description=description, num_threads=threads),
    )


def test_compare_lays_out_rows_and_columns(capsys):
    table = Compare(
        [measured([1e-3], "small", "mine"), measured([2e-3], "small", "theirs"), measured([5e-3], "large", "mine", 2)]
    )
    table.extend_results([measured([3e-3], "small", "mine")])
    table.print()
    lines = capsys.readouterr().out.splitlines()
    assert " add " in lines[0] and [word.strip() for word in lines[1].split("|")] == ["", "mine", "theirs"]
    assert lines[2].startswith("1 threads: ---") and [word.strip() for word in lines[3].split("|")] == [
        "small",
        "2.0",
        "2.0",
    ]
    assert lines[4].startswith("2 threads: ---") and [word.strip() for word in lines[5].split("|")] == [
        "large",
        "5.0",
        "",
    ]
    assert lines[-1] == "" or "milliseconds (ms)" in lines[-2] + lines[-1]


def test_compare_colours_and_marks(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    table = Compare([measured([1e-3, 1e-3], "a", "mine"), measured([9e-3, 2e-3, 5e-3], "a", "theirs")])
    table.colorize(rowwise=True)
    table.highlight_warnings()
    table.trim_significant_figures()
    assert "\033[92m" in str(table) and "\033[91m" in str(table) and "5*" in str(table)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in str(table)


@pytest.mark.parity
def test_the_same_numbers_as_pytorch():
    torch = pytest.importorskip("torch")
    from torch.utils.benchmark import Measurement as Theirs
    from torch.utils.benchmark.utils.common import TaskSpec as TheirTask

    del torch
    times = [3.0, 1.0, 2.0, 7.0, 5.0]
    mine, theirs = Measurement(2, times, TaskSpec("x", "pass")), Theirs(2, times, TheirTask("x", "pass"))
    for name in ("mean", "median", "iqr", "times", "has_warnings", "significant_figures", "title", "as_row_name"):
        assert (
            getattr(mine, name) == pytest.approx(getattr(theirs, name))
            if name in ("mean", "median", "iqr", "times")
            else getattr(mine, name) == getattr(theirs, name)
        ), name
    assert set(benchmark.__all__) <= set(dir(__import__("torch.utils.benchmark", fromlist=["x"]))) | {"TaskSpec"}


def test_figures_that_the_noise_leaves() -> None:
    task = TaskSpec("x", "pass")
    assert Measurement(1, [1e-3] * 8, task).significant_figures == 4  # no noise but the clock's 25 ns
    assert Measurement(1, [1e-6] * 8, task).significant_figures == 1
    times = [1.0, 1.1, 0.9, 1.2, 0.8, 1.05, 0.95, 1.0]
    middle = sorted(times)[2:6]
    mean = sum(middle) / 4
    interval = 1.645 * (sum((number - mean) ** 2 for number in middle) / 4) ** 0.5 / 2
    assert 10 < 1 / interval < 100 and Measurement(1, times, task).significant_figures == 1
    table = Compare([Measurement(1, [1.234567e-3] * 8, TaskSpec("x", "pass", label="L", description="D"))])
    table.trim_significant_figures()
    assert "1.235" in str(table)


def test_task_spec() -> None:
    task = TaskSpec("x * 2", "x = 1\ny = 2", label="double", sub_label="small", description="plain")
    assert (
        task.summarize() == "double: small\nplain\nsetup:\n  x = 1\n  y = 2" and TaskSpec("x", "pass").setup_str == ""
    )
    assert repr(Measurement(1, [1.0], task)).splitlines()[1:3] == ["double: small", "plain"]


def test_invalid_statements() -> None:
    with pytest.raises(ValueError, match="only a `str` stmt"):
        Timer(lambda: 1)
    with pytest.raises(ValueError, match="Python statements"):
        Timer("x", language=Language.CPP)
    with pytest.raises(NotImplementedError, match="blocked_autorange"):
        Timer("1", language=Language.PYTHON).repeat()


# ---- small tools


def test_units_and_figures():
    assert [benchmark.select_unit(number) for number in (3e-9, 2e-6, 0.5, 7.0)] == [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
    ]
    assert benchmark.unit_to_english("us") == "microsecond" and benchmark.ordered_unique([3, 1, 3, 2]) == [3, 1, 2]
    assert [benchmark.trim_sigfig(number, 2) for number in (3.14159, 1234.0, 0.0123456, -987.0, 0.0)] == [
        3.1,
        1200.0,
        0.012,
        -990.0,
        0.0,
    ]


def test_instruction_counts_say_what_they_need():
    with pytest.raises(NotImplementedError, match="need Valgrind.*perf stat"):
        Timer("pass").collect_callgrind()


def test_colours_compare_columns_or_rows():
    times = {("a", "x"): 1.0, ("a", "y"): 5.0, ("b", "x"): 2.5, ("b", "y"): 2.0}
    results = [
        Measurement(1, [time], TaskSpec("s", "pass", sub_label=row, description=column))
        for (row, column), time in times.items()
    ]

    def colours(rowwise: bool) -> list[str]:
        table = Compare(results)
        table.colorize(rowwise=rowwise)
        return [
            cell.partition("m")[0]
            for line in str(table).splitlines()
            if line.startswith("      ")
            for cell in line.split("\033[")[1:]
            if cell[0] != "0"
        ]

    assert colours(True) == ["92", "91", "92"] and colours(False) == ["92", "91", "91", "92"]
    assert str(Compare(results)).count("\033") == 0


# ---- fuzzers


def fuzzer(seed: int = 0, **options: object) -> benchmark.Fuzzer:
    return benchmark.Fuzzer(
        parameters=[
            [benchmark.FuzzedParameter(f"k{i}", 1, 16, distribution="loguniform") for i in range(2)],
            benchmark.FuzzedParameter("dim", distribution={1: 0.5, 2: 0.5}, strict=True),
            benchmark.FuzzedParameter("n", distribution={1: 0.5, benchmark.ParameterAlias("k0"): 0.5}),
        ],
        tensors=[
            benchmark.FuzzedTensor("x", ("k0", "k1"), steps=(1, 2), min_elements=2, max_elements=64,
                probability_contiguous=0.25, dim_parameter="dim"),
            benchmark.FuzzedTensor("y", ("n",), dtype=numod.int64),
        ],
        seed=seed, **options,
    )  # fmt: skip


def test_fuzzers_make_tensors_by_their_parameters():
    seen = fuzzer(constraints=[lambda params: params["k1"] > 1])
    for tensors, properties, params in seen.take(40):
        x, y = tensors["x"], tensors["y"]
        assert (
            tuple(x.shape) == (params["k0"], params["k1"])[: params["dim"]]
            and 2 <= x.numel() <= 64
            and params["k1"] > 1
        )
        assert y.shape == (params["n"],) and params["n"] in (1, params["k0"]) and y.dtype is numod.int64
        assert (
            properties["x"]["numel"] == x.numel()
            and properties["x"]["is_contiguous"] == x.is_contiguous()
            and properties["x"]["steps"] == (1, 2)[: params["dim"]]
        )
    assert 0 < seen.rejection_rate < 1


def test_fuzzers_repeat_themselves():
    first, second = ([tensors["x"].tolist() for tensors, _, _ in fuzzer(seed=7).take(5)] for _ in range(2))
    assert first == second != [tensors["x"].tolist() for tensors, _, _ in fuzzer(seed=8).take(5)]


def test_fuzzers_refuse_what_cannot_be():
    parameter, alias = benchmark.FuzzedParameter, benchmark.ParameterAlias
    with pytest.raises(AssertionError, match="add up to one"):
        parameter("a", distribution={1: 0.5, 2: 0.1})
    with pytest.raises(AssertionError, match="Unknown distribution: normal"):
        parameter("a", 1, 2, distribution="normal")
    with pytest.raises(ValueError, match="Duplicate names"):
        benchmark.Fuzzer([parameter("a", 1, 2, "uniform")], [benchmark.FuzzedTensor("a", (1,))])
    with pytest.raises(ValueError, match="cycle"):
        next(
            benchmark.Fuzzer(
                [parameter("a", distribution={alias("b"): 1.0}), parameter("b", distribution={alias("a"): 1.0})], []
            ).take(1)
        )
    with pytest.raises(ValueError, match="Failed to generate"):
        next(benchmark.Fuzzer([parameter("a", 1, 2, "uniform")], [], constraints=[lambda params: False]).take(1))
