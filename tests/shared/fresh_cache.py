"""A kernel cache in a folder of its own, and a kernel to build there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from numod.device import cpu
from numod.kernel import build as builder
from numod.kernel import cache, trust

SOURCE = "def kernel(x, out):\n    for i in range(out.shape[0]):\n        out[i] = x[i] + 1\n"
SIGNATURE = "float32[], float32[]"
RIGHT = [1.0, 2.0, 3.0, 4.0, 5.0]


class Fresh:
    """A builder that has built nothing yet, with a folder of its own."""

    def __init__(self, monkeypatch, folder):
        self.folder = Path(folder)
        self.monkeypatch = monkeypatch
        monkeypatch.setenv("NUMOD_CACHE_DIR", str(folder))
        self.forget()

    def forget(self):
        """As in a new process."""
        self.monkeypatch.setattr(builder, "_built", {})
        self.monkeypatch.setattr(trust, "_open_folder", None)
        cache._warn_once.cache_clear()

    def build(self, source=SOURCE, signature=SIGNATURE, **options):
        return builder.build(cpu, "sample", source, signature, **options)

    def files(self):
        """The entries."""
        return sorted(self.folder.glob("*.kernel"))


def result(kernel, *numbers, dtype=np.float32):
    x = np.arange(5, dtype=dtype)
    out = np.empty(5, dtype=dtype)
    kernel.launch(x, out, *numbers)
    return out.tolist()
