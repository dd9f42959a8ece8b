"""The state of an exported training step as a safetensors file: what it says of modules and optimizers, and reading it.

The data of such a file is the state as the exported code has it in memory.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..core.tensor import Tensor
from ..serialization import load_file, load_metadata

STATE = "numod.state"  # in the file's metadata
_PLAIN = (bool, int, float, str, type(None))


def checked(text: Any) -> dict[str, Any]:
    """What a file says of modules and optimizers. Raises ValueError for anything else."""
    about = json.loads(text) if type(text) is str else None
    if type(about) is not dict or (about and about.keys() != {"modules", "optimizers"}):
        raise ValueError("its description of the state has another form")
    for name, prefix in about.get("modules", {}).items():
        if type(name) is not str or type(prefix) is not str:
            raise ValueError("its description of the modules has another form")
    for each in about.get("optimizers", {}).values():
        groups, counts = each["param_groups"], each["counts"]
        if type(groups) is not list or type(counts) is not dict or any("params" not in group for group in groups):
            raise ValueError("its description of the optimizers has another form")
    return about


def read_state(f: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """The state dicts in a file of an exported step's state, by the names that the step has for its modules and
    optimizers: `net.load_state_dict(read_state("net.safetensors")["net"])`.

    Raises ValueError for a file that is not of an exported step.
    """
    text = load_metadata(f).get(STATE)
    if text is None:
        raise ValueError(f"read_state: {os.fspath(f)} is not the state of an exported step")
    about, tensors = checked(text), load_file(f)
    found: dict[str, dict[str, Any]] = {}
    optimizers = tuple(f"{name}." for name in about["optimizers"])
    for name, prefix in about["modules"].items():
        found[name] = {
            key.removeprefix(prefix): each
            for key, each in tensors.items()
            if key.startswith(prefix) and not key.startswith(optimizers) and key != "generator"
        }
    for name, each in about["optimizers"].items():
        found[name] = _optimizer_state(name, each, tensors)
    return found


def _optimizer_state(name: str, about: dict[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
    state: dict[int, dict[str, Any]] = {}
    for key, each in tensors.items():
        if key.startswith(f"{name}.state."):
            number, _, entry = key.removeprefix(f"{name}.state.").partition(".")
            if each.ndim or entry not in about["names"]:
                state.setdefault(int(number), {})[entry] = each
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
    """Whether a setting can stand in the file."""
    return isinstance(value, _PLAIN) or (isinstance(value, (tuple, list)) and all(map(plain, value)))
