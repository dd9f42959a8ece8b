"""Timed wrappers of kernels, also while other threads compile."""

import numod as torch
from numod.kernel import build
from numod.profiler.launches import Launches, wire


def test_a_wrapper_that_is_made_meanwhile_does_not_call_itself():
    assert torch.ones(3).sin().shape == (3,)
    kernel = build.kernels()[-1]
    notes: list[tuple] = []
    launches = Launches(lambda *note: notes.append(note), lambda: 0)
    wrapper = launches._time(kernel)
    assert wrapper is not kernel.launch
    assert wire(wrapper, launches._timed, set()) is wrapper  # not among the wrappers that were known at the start
    assert kernel.launch in [cell.cell_contents for cell in wrapper.__closure__]
    assert wire(wrapper, launches._plain, set()) is kernel.launch
