"""What kernels on a GPU report: told once, each check in its own words."""

from __future__ import annotations

import numpy as np
import pytest

from numod.device.cuda_reports import WORDS, Reports


def test_the_same_check_has_one_place_and_too_many_share_the_last():
    words = np.ones(WORDS, np.int64)
    reports = Reports(words, None)
    assert reports.place(IndexError, "{}") == reports.place(IndexError, "{}") == 1 != reports.place(ValueError, "{}")
    for k in range(WORDS):
        place = reports.place(ValueError, f"{{}} of {k}")
    assert place == WORDS - 1
    reports.tell()
    words[place], words[0] = 5, place
    with pytest.raises(ValueError, match="5 of "):
        reports.tell()
    reports.tell()
