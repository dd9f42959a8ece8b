"""Loops: formulas and kernel functions become source text, and source text becomes native code.

Not which op needs which: see `ops`.
"""
