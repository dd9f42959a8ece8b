"""Fourier transforms and spectrograms on tensors."""
