"""Convolutions and their gradients:

`convolution` has the ops and chooses the kernel, each other file has one method.
"""
