"""Window functions and forms of stft."""

import numpy as np
import pytest

import numod


def test_windows_of_signals():
    from numod.signal import windows

    np.testing.assert_allclose(windows.hann(6, sym=False), numod.hann_window(6), atol=1e-7)
    np.testing.assert_allclose(windows.kaiser(7, beta=8.0), np.kaiser(7, 8.0), rtol=1e-6)
    np.testing.assert_allclose(windows.blackman(7, dtype=numod.float64), np.blackman(7), atol=1e-15)
    np.testing.assert_allclose(windows.gaussian(3, std=2.0), np.exp([-0.125, 0, -0.125]), rtol=1e-6)
    assert windows.cosine(0).shape == (0,) and windows.nuttall(1).tolist() == [1]
    with pytest.raises(ValueError, match="non-negative"):
        windows.hann(-1)


def test_stft_as_pairs_and_lists_of_factors():
    x = numod.randn(100)
    assert numod.equal(
        x.stft(16, window=numod.ones(16), return_complex=False),
        numod.view_as_real(x.stft(16, window=numod.ones(16), return_complex=True)),
    )
    one, two = numod._foreach_addcdiv(
        [numod.ones(1), numod.ones(1)], [numod.ones(1)] * 2, [numod.full((1,), 4.0)] * 2, [2.0, 8.0]
    )
    assert (one.item(), two.item()) == (1.5, 3.0) and numod._foreach_pow(2.0, [numod.tensor(3.0)])[0] == 8
