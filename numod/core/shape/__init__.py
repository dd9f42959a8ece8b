"""Functions that change a tensor's shape or the order of its elements."""
