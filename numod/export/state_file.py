"""The state of an exported training step in a safetensors file: its description, and how to read it.

The data of the file is the memory block that the exported code uses as its state.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..core.tensor import Tensor
from ..serialization import load_file, load_metadata
from .interface import STREAM

STATE = "numod.state"  # in the file's metadata
_PLAIN = (bool, int, float, str, type(None))


def checked(text: Any) -> dict[str, Any]:
    """A file's description of modules and optimizers. Raises ValueError for an invalid one."""
    about = json.loads(text) if type(text) is str else None
    if type(about) is not dict or (about and about.keys() - {"non_persistent"} != {"modules", "optimizers"}):
        raise ValueError("its description of the state is invalid")
    for name, prefix in about.get("modules", {}).items():
        if type(name) is not str or type(prefix) is not str:
            raise ValueError("its description of the modules is invalid")
    non_persistent = about.get("non_persistent", [])
    if type(non_persistent) is not list or any(type(name) is not str for name in non_persistent):
        raise ValueError("its list of non-persistent buffers is invalid")
    for optimizer in about.get("optimizers", {}).values():
        groups, counts = optimizer["param_groups"], optimizer["counts"]
        if type(groups) is not list or type(counts) is not dict or any("params" not in group for group in groups):
            raise ValueError("its description of the optimizers is invalid")
    return about


def read_state(f: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """State dicts from the state file of an exported step, by the names of modules and optimizers in the step.

    Example: `net.load_state_dict(read_state("net.safetensors")["net"])`. Raises ValueError for any other file.
    """
    text = load_metadata(f).get(STATE)
    if text is None:
        raise ValueError(f"read_state: {os.fspath(f)} is not the state of an exported step")
    about, tensors = checked(text), load_file(f)
    state_dicts: dict[str, dict[str, Any]] = {}
    optimizers = tuple(f"{name}." for name in about["optimizers"])
    others = {STREAM, *about.get("non_persistent", [])}
    for name, prefix in about["modules"].items():
        state_dicts[name] = {
            key.removeprefix(prefix): tensor
            for key, tensor in tensors.items()
            if key.startswith(prefix) and not key.startswith(optimizers) and key not in others
        }
    for name, optimizer in about["optimizers"].items():
        state_dicts[name] = _optimizer_state(name, optimizer, tensors)
    return state_dicts


def _optimizer_state(name: str, about: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """An optimizer's state dict, from the tensors of a file."""
    state: dict[int, dict[str, Any]] = {}
    for key, tensor in tensors.items():
        if key.startswith(f"{name}.state."):
            number, _, entry = key.removeprefix(f"{name}.state.").partition(".")
            if tensor.ndim or entry not in about["names"]:
                state.setdefault(int(number), {})[entry] = tensor
    for number, first in about["counts"].items():
        for entry in about["names"]:
            count = tensors.get(f"{name}.state.{first}.{entry}")
            if count is not None:
                state.setdefault(int(number), {})[entry] = count
    groups = [
        group | ({"lr": lr.item()} if (lr := tensors.get(f"{name}.param_groups.{k}.lr")) is not None else {})
        for k, group in enumerate(about["param_groups"])
    ]
    return {"state": dict(sorted(state.items())), "param_groups": groups}


def plain(value: Any) -> bool:
    """Whether a setting can be saved in the file."""
    return isinstance(value, _PLAIN) or (isinstance(value, (tuple, list)) and all(map(plain, value)))
