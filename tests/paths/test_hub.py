"""Weights that are loaded from an address."""

from __future__ import annotations

import sys
import types

import pytest

import numod
from numod import nn


def test_weights_from_a_url(tmp_path) -> None:
    weights = nn.Linear(2, 3).state_dict()
    numod.save(weights, tmp_path / "there.pth")
    url = (tmp_path / "there.pth").as_uri()
    result = numod.hub.load_state_dict_from_url(url, str(tmp_path / "kept"))
    assert numod.equal(result["weight"], weights["weight"]) and (tmp_path / "kept" / "there.pth").exists()
    with pytest.raises(RuntimeError, match="invalid hash value"):
        numod.hub.download_url_to_file(url, str(tmp_path / "x"), "00000000")


def test_the_progress_bar_of_hub_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("tqdm")
    package.tqdm = list
    monkeypatch.setitem(sys.modules, "tqdm", package)
    from numod.hub import tqdm

    assert tqdm is list
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(NotImplementedError, match="install the package tqdm"):
        numod.hub.tqdm([])
