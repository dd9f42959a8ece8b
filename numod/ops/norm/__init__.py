"""Normalization layers' kernels."""
