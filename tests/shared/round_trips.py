"""Values saved to a file and loaded again."""

from __future__ import annotations

import io

import numod


def saved(value, name):
    """What `value` is after a round trip through a file object of this name."""
    file = io.BytesIO()
    file.name = name
    numod.save(value, file)
    file.seek(0)
    return numod.load(file)
