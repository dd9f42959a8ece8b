"""Kernels: formulas and kernel functions become source text, and source text becomes native code.

`ops` decides which kernels an op needs.
"""
