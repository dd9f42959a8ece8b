"""The functions of this folder in plain Python, for kernels to import; the compiled forms compute equal results.

A compiled kernel calls the vector instructions of that name instead. A vector has as many lanes as a register of this
processor holds elements of the array's type. An array and the index of its first element are two arguments.
"""

from __future__ import annotations

from ..vectors import host


def lanes_of(array):
    return host().lanes(array.itemsize)


def put(out, at, total, keep):
    out[at] = out[at] + total if keep else total
