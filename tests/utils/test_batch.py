"""Batch inference in one process, on Dask's workers (marker `mpi`, since it starts processes) and in Python's pools."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod import nn
from numod.utils import batch
from numod.utils.batch import predict, stream


def network() -> nn.Module:
    """A network with known weights. It sets no seed, which threads share."""
    model, generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval(), np.random.default_rng(0)
    model.load_state_dict(
        {name: numod.from_numpy(generator.normal(size=x.shape)).float() for name, x in model.state_dict().items()}
    )
    return model


def examples(count: int = 150) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)


def test_arrays_and_folders(tmp_path) -> None:
    model, x = network(), examples()
    expected = model(numod.from_numpy(x)).detach()
    assert numod.allclose(predict(model, x, batch_size=40), expected)
    assert numod.allclose(predict(model, numod.from_numpy(x)), expected)
    assert [len(batch) for batch in stream(model, x, batch_size=64)] == [64, 64, 22]
    first, second = predict(lambda batch: (batch + 1, batch.sum(1)), x)
    assert first.shape == (150, 4) and numod.allclose(second, numod.from_numpy(x).sum(1))
    for k in range(5):
        np.save(tmp_path / f"{k}.npy", x[k])
    assert numod.allclose(predict(model, tmp_path, batch_size=2), expected[:5])
    np.save(tmp_path / "9.npy", x[:2])
    with pytest.raises(ValueError, match=r"9.npy has the shape \(2, 4\)"):
        predict(model, str(tmp_path))


def test_a_file_of_an_array_is_mapped(tmp_path) -> None:
    model, x = network(), examples()
    np.save(tmp_path / "examples.npy", x)
    for source in (tmp_path / "examples.npy", str(tmp_path / "examples.npy")):
        assert numod.equal(predict(model, source, batch_size=40), predict(model, x, batch_size=40))
    predict(lambda batch: batch.zero_(), tmp_path / "examples.npy")
    assert np.array_equal(np.load(tmp_path / "examples.npy"), x)  # its own copy was written


def test_parts_of_mapped_files(tmp_path) -> None:
    x = examples()
    np.save(tmp_path / "examples.npy", x)
    mapped = np.load(tmp_path / "examples.npy", mmap_mode="r")
    for part in (mapped, mapped[20:], mapped[20:90][10:15], mapped[-1:], mapped.reshape(75, 8)[3:]):
        array = batch._in_file(part)
        assert array.path == str(tmp_path / "examples.npy") and not array.temporary
        assert np.array_equal(array.open(), part) and type(array.open()) is np.ndarray
    copied = np.load(tmp_path / "examples.npy", mmap_mode="c")
    for other in (mapped[:, 1:], mapped[:0], mapped + 0, mapped[::2], copied, x):
        assert batch._in_file(other) is None


def test_arguments(tmp_path) -> None:
    for use, error, message in (
        (lambda: predict(3, examples()), TypeError, "expected a module or a function"),
        (lambda: predict(network(), [1]), TypeError, "expected an array, a tensor"),
        (lambda: predict(network(), examples(), batch_size=0), ValueError, "batch_size is at least 1"),
        (lambda: predict(network(), examples(0)), ValueError, "no examples"),
        (lambda: predict(lambda x: 1, examples()), TypeError, "the program returned int"),
        (lambda: predict(network(), tmp_path), ValueError, "has no .npy, .parquet or image files"),
    ):
        with pytest.raises(error, match=message):
            use()


def test_programs_pickle() -> None:
    model, x = network(), numod.from_numpy(examples(6))
    exported = numod.export.export(model, (x,))
    for program in (model, numod.compile(model), exported.module(), pickle.loads(pickle.dumps(exported)).module()):
        again = pickle.loads(pickle.dumps(program))
        assert numod.allclose(again(x), model(x)), type(program)


def test_the_guides_program_on_ray() -> None:
    ray = pytest.importorskip("ray", reason="needs Ray: pip install ray")
    model, rows = network(), examples()
    ray.init(num_cpus=2)
    try:
        sent = ray.put(model)
        results = ray.get([ray.remote(predict).remote(sent, part) for part in np.split(rows, 10)])
        assert numod.allclose(numod.cat(results), predict(model, rows))
    finally:
        ray.shutdown()


def _mean_of(rows: np.ndarray) -> float:
    return predict(network(), rows).mean().item()


@pytest.mark.mpi
def test_pools() -> None:
    parts = np.split(examples(), 3)
    expected = [_mean_of(part) for part in parts]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(_mean_of, parts)) == pytest.approx(expected)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(_mean_of, parts)) == pytest.approx(expected)
    joblib = pytest.importorskip("joblib", reason="needs joblib: pip install joblib")
    model = network()
    results = joblib.Parallel(2)(joblib.delayed(predict)(model, part) for part in parts)
    assert [result.mean().item() for result in results] == pytest.approx(expected)


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason='needs Dask: pip install -e ".[dask]"')
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster) as made:
        yield made


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.mpi
def test_sources_on_dask(client, tmp_path) -> None:
    import dask.array
    import dask.dataframe
    import pandas

    model, x = network(), examples()
    expected = predict(model, x)
    frame = pandas.DataFrame(x, columns=list("abcd"))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    assert numod.equal(predict(model, x, client), expected)
    assert numod.allclose(predict(numod.compile(model), x, client), expected)
    for source in (
        frame,
        dask.array.from_array(x, chunks=(40, 2)),
        dask.dataframe.from_pandas(frame, npartitions=3),
        tmp_path / "rows.parquet",
        tmp_path,
    ):
        assert numod.allclose(predict(model, source, client, batch_size=20), expected), type(source)
        assert numod.allclose(predict(model, source, batch_size=20), expected), type(source)
    exported = numod.export.export(model, (numod.ones(50, 4),)).module()
    assert numod.allclose(predict(exported, x, client, batch_size=50), expected)


@pytest.mark.mpi
def test_arrays_do_not_travel_to_workers_that_can_read_them(client, tmp_path, monkeypatch) -> None:
    x, opened = np.random.default_rng(0).normal(size=(400, 1000)).astype(np.float32), []
    monkeypatch.setattr(batch.tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    np.save(tmp_path / "examples.npy", x)
    mapped = np.load(tmp_path / "examples.npy", mmap_mode="r")
    submit = client.submit

    def submitted(function, *arguments, **options):
        opened.append([argument for argument in arguments if isinstance(argument, (np.ndarray, batch._Mapped))])
        return submit(function, *arguments, **options)

    monkeypatch.setattr(client, "submit", submitted)
    for source, temporary in (
        (x, True),
        (x[::2], True),
        (x.reshape(1000, 400).T, True),
        (numod.from_numpy(x), True),
        (mapped, False),
        (mapped[100:], False),
        (tmp_path / "examples.npy", False),
    ):
        opened.clear()
        result = predict(nn.Identity(), source, client, batch_size=20)
        assert np.array_equal(result.numpy(), x if isinstance(source, os.PathLike) else np.asarray(source))
        assert len(opened) >= 8, "two workers have too few tasks"
        assert all(isinstance(a, batch._Mapped) and a.temporary is temporary for (a,) in opened), source
        assert not os.listdir(tmp_path / "temporary")
    # workers that do not see the file or see another one, and an array that is not worth one, get it from Dask
    other = tmp_path / "other machine's.npy"
    np.save(other, x * 2)
    os.utime(other, (0, 0))
    for seen in (tmp_path / "missing.npy", other):
        opened.clear()
        monkeypatch.setattr(client, "run", lambda function, path, seen=seen: {"a": function(path), "b": function(seen)})
        assert np.array_equal(predict(nn.Identity(), mapped, client, batch_size=20).numpy(), x)
        assert opened and all(isinstance(a, np.ndarray) for (a,) in opened)
    monkeypatch.undo()
    assert np.array_equal(predict(nn.Identity(), x[:4, :4], client).numpy(), x[:4, :4])


@pytest.mark.mpi
def test_images_on_dask(client, tmp_path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(1).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
    for k in range(6):
        image.fromarray(pixels[k]).save(tmp_path / f"{k}.png")
    result = predict(nn.Flatten(), tmp_path, client, batch_size=4)
    assert numod.allclose(result, numod.from_numpy(pixels).permute(0, 3, 1, 2).reshape(6, -1) / 255)


class _Counted:
    """A program that writes a line to a file where it is unpickled."""

    def __init__(self, path: str, program: Callable) -> None:
        self.path, self.program = path, program

    def __call__(self, x: numod.Tensor) -> numod.Tensor:
        return self.program(x)

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")


@pytest.mark.mpi
def test_a_program_travels_once_whatever_the_number_of_tasks(client, tmp_path) -> None:
    model = network()
    quantized = numod.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=numod.qint8)
    exported = numod.export.export(model, (numod.ones(5, 4),)).module()
    for name, program in (("module", model), ("quantized", quantized), ("exported", exported)):
        counts = []
        for count in (10, 200):
            x, path = examples(count), tmp_path / f"{name} {count}"
            result = predict(_Counted(str(path), program), x, client, batch_size=5)
            assert numod.equal(result, predict(program, x, batch_size=5))
            counts.append(len(path.read_text().split()))
        assert max(counts) <= 6, (name, counts)  # of 40 tasks on two workers


def test_results_come_as_soon_as_they_are_computed() -> None:
    sizes = []
    results = stream(lambda x: sizes.append(len(x)) or x, examples(), batch_size=20)
    for number, _ in enumerate(results, 1):
        assert len(sizes) == number
    assert sizes == [20] * 7 + [10]


def test_tasks_are_bounded_in_batches() -> None:
    pieces = list(batch._pieces(examples(10_000), 10, 8))  # 160 kB, whose results may be of any size
    assert [len(rows) for _, rows, _ in pieces] == [160] * 62 + [80]


@pytest.mark.mpi
def test_memory_is_bounded(client) -> None:
    import dask.array

    block = 1 << 20  # bytes
    rows = dask.array.ones((32 * 64, block // 64 // 4), chunks=(64, -1), dtype=np.float32)
    for use in (client, None):
        tracemalloc.start()
        count = sum(len(batch) for batch in stream(nn.Identity(), rows, use, batch_size=64))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == len(rows) and peak < 16 * block, peak


class _EndsItsWorkerOnce:
    """A program that ends the process of the first worker that calls it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, x: numod.Tensor) -> numod.Tensor:
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return x * 2
        os._exit(1)


@pytest.mark.mpi
def test_a_lost_worker_is_replaced(client, tmp_path) -> None:
    x = examples(40)
    result = predict(_EndsItsWorkerOnce(str(tmp_path / "ended")), x, client, batch_size=5)
    assert (tmp_path / "ended").exists() and np.allclose(result.numpy(), x * 2)
