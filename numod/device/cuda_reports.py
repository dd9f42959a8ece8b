"""What kernels on a GPU find wrong, such as an index outside.

To ask them would be to wait for them: they write it into memory of the host instead.

The host looks there whenever it has waited for the device anyway, and before it starts the next check. Until then
kernels go on with a place that exists, so that nothing else is harmed, and the process can use the GPU afterwards.
"""

from __future__ import annotations

import numpy as np

WORDS = 1 << 12  # the first is the word that was written last, the others have what was found
_LATE = (
    " (a kernel on the GPU found this, started by now or earlier; with CUDA_LAUNCH_BLOCKING=1 it is told where it "
    "was started)"
)


class Reports:
    """`words` on the host are `buffer` on the device. A check has a word of its own for what it found."""

    def __init__(self, words: np.ndarray, buffer: object) -> None:
        words[...] = 0
        self.words, self.buffer = words, buffer
        self._places: dict[tuple, int] = {}
        self._errors: list[tuple[type, str]] = [(RuntimeError, "")]

    def place(self, error: type, text: str) -> int:
        """The word for checks that fail with this error and text, in which `{}` is what was found."""
        if (error, text) not in self._places:
            if len(self._errors) == WORDS:  # older checks may be under way; their words are told apart no longer
                return WORDS - 1
            self._places[error, text] = len(self._errors)
            self._errors.append((error, text))
        return self._places[error, text]

    def tell(self) -> None:
        """Raise what was reported by now, once."""
        place = int(self.words[0])
        if place:
            found, self.words[0] = int(self.words[place]), 0
            error, text = self._errors[place]
            raise error(text.format(found) + _LATE)
