"""Errors reported by GPU kernels: raised once, each check with its text."""

from __future__ import annotations

import numpy as np
import pytest

from numod.device.cuda_reports import WORD_COUNT, Reports


def test_the_same_check_has_one_slot_and_too_many_share_the_last():
    words = np.ones(WORD_COUNT, np.int64)
    reports = Reports(words, None)
    assert reports.slot(IndexError, "{}") == reports.slot(IndexError, "{}") == 1 != reports.slot(ValueError, "{}")
    for k in range(WORD_COUNT):
        slot = reports.slot(ValueError, f"{{}} of {k}")
    assert slot == WORD_COUNT - 1
    reports.raise_reported()
    words[slot], words[0] = 5, slot
    with pytest.raises(ValueError, match="5 of "):
        reports.raise_reported()
    reports.raise_reported()
