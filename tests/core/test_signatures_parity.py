"""Every overload in the table of signatures called once with all arguments by keyword, beside PyTorch.

About 5 minutes with two processes.
"""

from __future__ import annotations

import warnings
from itertools import chain
from typing import Any

import pytest

import numod
from calls import call, calls, is_random, is_wanted
from numod.core import signatures
from parity import same, torch
from samples import calls as samples, copied, ours

pytestmark = pytest.mark.parity
DIFFERENT = {  # whose results are addresses, names, dtypes or signs, which differ or cannot be compared
    "Tensor.data_ptr", "Tensor.type", "Tensor.to_sparse", "linalg.eig", "Tensor.new_empty_strided",
    "nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward", "typename", "from_file",
    "get_autocast_cpu_dtype", "get_autocast_gpu_dtype", "get_default_device", "get_default_dtype", "promote_types",
    "result_type", "Tensor.bfloat16", "hash_tensor", "Tensor.hash_tensor", "linalg.pinv",
}  # fmt: skip
OPTIONAL = (
    (),
    ("out",),
    ("out", "dtype", "layout", "out_dtype", "memory_format"),
    ("driver", "tol", "side", "pin_memory", "_stacklevel", "out", "size_average", "reduce"),
)


def accepted(path: str, overload: Any) -> tuple[dict, dict, Any] | None:
    """The first arguments that PyTorch takes, as its tensors and as numod's, and its result; None where none was
    found.
    """
    made = zip(calls(torch, path, overload), calls(numod, path, overload))
    for theirs, mine in chain(((sample, None) for sample in samples(path, overload)), made):
        for left_out in OPTIONAL if mine is not None else ((),):
            arguments = {name: copied(value) for name, value in theirs.items() if name not in left_out}
            try:
                converted = ours(arguments) if mine is None else {name: mine[name] for name in arguments}
                return arguments, converted, call(torch, path, arguments)
            except Exception:
                continue
    return None


@pytest.mark.parametrize("path", [path for path in signatures.names() if is_wanted(path) and path not in DIFFERENT])
def test_by_keyword(path: str) -> None:
    called = 0
    for overload in signatures.overloads(path):
        if any(
            parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            for parameter in overload.parameters.values()
        ):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = accepted(path, overload)
            if result is None:
                continue
            mine = call(numod, path, result[1])
        called += 1
        if not is_random(path):
            same(mine, result[2], 1e-3, 1e-4)
    if not called:
        pytest.skip("no arguments found")
