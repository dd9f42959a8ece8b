"""Ops on windows of images: pooling, and unfold and fold (im2col and col2im)."""
