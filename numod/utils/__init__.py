"""Helpers around training that are not tensors or modules: so far `numod.utils.data`."""
