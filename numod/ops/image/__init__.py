"""Images: interpolation, grid sampling, pairwise distances."""
