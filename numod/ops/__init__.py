"""Mathematics: a home for every op, with its shape rule, kernels and gradient. Not tensors: ops plan in layouts and run on buffers."""
