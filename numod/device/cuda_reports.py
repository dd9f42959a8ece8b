"""Errors that GPU kernels find, such as an index out of range, reported through host memory.

Reading a result would wait for the kernel, so kernels write errors to memory of the host. The host reads it whenever it
has waited for the device for another reason, and before it starts the next check. Until then kernels continue with a
valid index, so nothing else is corrupted and the process can use the GPU afterwards.
"""

from __future__ import annotations

import numpy as np

WORD_COUNT = 1 << 12  # the first is the index of the word written last, the others are the values found
_LATE_NOTE = (
    " (found by a kernel on the GPU that was started earlier; set CUDA_LAUNCH_BLOCKING=1 to see the error where it "
    "is started)"
)


class Reports:
    """`words` on the host are `buffer` on the device. Each check has a word for the value that it found."""

    def __init__(self, words: np.ndarray, buffer: object) -> None:
        words[...] = 0
        self.words, self.buffer = words, buffer
        self._slots: dict[tuple, int] = {}
        self._errors: list[tuple[type, str]] = [(RuntimeError, "")]

    def slot(self, error: type, text: str) -> int:
        """The word for checks that fail with this error and text; `{}` in the text is the value found."""
        if (error, text) not in self._slots:
            if len(self._errors) == WORD_COUNT:  # older checks may be running; later ones share a word
                return WORD_COUNT - 1
            self._slots[error, text] = len(self._errors)
            self._errors.append((error, text))
        return self._slots[error, text]

    def raise_reported(self) -> None:
        """Raise the error reported so far, once."""
        slot = int(self.words[0])
        if slot:
            value, self.words[0] = int(self.words[slot]), 0
            error, text = self._errors[slot]
            raise error(text.format(value) + _LATE_NOTE)
