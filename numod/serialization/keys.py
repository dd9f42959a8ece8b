"""Dict keys and set members in files: only values that hash and compare quickly, even if an attacker chose them."""

from __future__ import annotations

from typing import Any

_MAX_KEY_INTEGER = 1 << 60  # larger ints can be chosen to collide, and a dict of colliding keys takes quadratic time
_MAX_KEY_TUPLE = 16
_SCALARS = (str, int, float, complex, bytes, bool, type(None))


def checked_key(key: Any) -> Any:
    """`key` if it is allowed: text, a number, bytes, None or a short tuple of those. Raises ValueError otherwise."""
    members = key if type(key) is tuple and len(key) <= _MAX_KEY_TUPLE else (key,)
    for member in members:
        plain = type(member) in _SCALARS or (
            getattr(type(member), "__hash__", None) is object.__hash__ and not isinstance(member, tuple)
        )
        if not plain or (type(member) is int and abs(member) >= _MAX_KEY_INTEGER):
            raise ValueError(
                f"a {type(member).__name__} as a key, which must be plain text, a number or a short tuple of those"
            )
    return key
