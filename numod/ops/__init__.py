"""The ops: one file for each, with its shape rule, kernels and gradient. Ops know no tensors: they plan with layouts and run on buffers."""
