"""What may be a key of a dict or a member of a set in a file: only what is hashed and compared in a short time, whoever chose it."""

from __future__ import annotations

from typing import Any

_MAX_KEY_INTEGER = 1 << 60  # larger ones can be chosen to share a hash value, and a dict of those takes quadratic time
_MAX_KEY_TUPLE = 16
_SCALARS = (str, int, float, complex, bytes, bool, type(None))


def checked_key(key: Any) -> Any:
    """A key of a dict or member of a set: text, number, bytes, None or a short tuple of those, whose hash takes no long time."""
    members = key if type(key) is tuple and len(key) <= _MAX_KEY_TUPLE else (key,)
    for member in members:
        plain = type(member) in _SCALARS or (getattr(type(member), "__hash__", None) is object.__hash__ and not isinstance(member, tuple))
        if not plain or (type(member) is int and abs(member) >= _MAX_KEY_INTEGER):
            raise ValueError(f"a {type(member).__name__} that is no plain text, number or short tuple of them, as a key")
    return key
