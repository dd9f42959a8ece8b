"""`numod.jit.annotations`: types that model files import from PyTorch's script compiler.

A list that may also be a single number is a List here.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  model files import these names

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList5 = (
    BroadcastingList6
) = List  # noqa: UP006
