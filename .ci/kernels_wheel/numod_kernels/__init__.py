"""Compiled kernels of numod (`kernels.pack`). Nothing here is imported: numod finds the folder."""
