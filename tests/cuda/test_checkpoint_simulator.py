"""Checkpoints of tensors on a CUDA device, in Numba's simulator: saved from there, restored to there or elsewhere, ties
kept.
"""

from __future__ import annotations

import io

import pytest

import numod

pytestmark = [
    pytest.mark.cudasim,
    pytest.mark.cuda,
    pytest.mark.skipif(not numod.cuda.is_available(), reason="needs a GPU, or NUMBA_ENABLE_CUDASIM=1"),
]


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors"])
@pytest.mark.parametrize(
    ("location", "devices"),
    [
        (None, ("cuda", "cpu")),
        ("cpu", ("cpu", "cpu")),
        ("cuda", ("cuda", "cuda")),
        ({"cuda:0": "cpu"}, ("cpu", "cpu")),
        ({"cuda:0": "cpu", "cpu": "cuda:0"}, ("cpu", "cuda")),
        (lambda values, location: values, ("cpu", "cpu")),
        (lambda values, location: values.cuda() if location == "cpu" else None, ("cuda", "cuda")),
    ],
)
def test_map_location(name, location, devices):
    base = numod.arange(6).reshape(2, 3).to("cuda")
    file = io.BytesIO()
    file.name = name
    numod.save({"base": base, "turned": base.T, "host": numod.ones(1)}, file)
    file.seek(0)
    loaded = numod.load(file, map_location=location)
    assert tuple(loaded[key].device.type for key in ("base", "host")) == devices
    assert loaded["base"]._storage is loaded["turned"]._storage and loaded["turned"].cpu().tolist() == [
        [0, 3],
        [1, 4],
        [2, 5],
    ]
