"""The ops. One module has an op's shape rule, kernels and gradient.

Ops work on layouts and buffers, not on tensors. `op` is the base class. Three kinds are tables of rows: pointwise ops
(`table` and `special`, planned by `pointwise`), reductions (`reduce.reduction`) and optimizer steps (`update`). Other
ops have their own kernels, in one folder per family; the first file of a folder defines the op and chooses the kernel:

- `matmul`: `matmul`, then `tiled`, `gemv`, `int8`, `linear_backward`, `split_k`; `epilogue` fuses pointwise work into
  a product or a convolution.
- `convolution`, `image` (pooling, unfold, interpolate, grid_sample, cdist), `attention`, `sequence` (recurrent cells
  and layers, CTC).
- `norm`, `reduce` (reductions, scans, argmax, softmax, nll), `sort`, `index` (gather, scatter, concat, pad, flip,
  transpose copies).
- `linalg` (factorizations, triangular solves) and `fft`.

`view` has the ops that change only the layout, `complexes` ops of complex numbers, `sampling` random samples by
rejection, `contract` the check of a call's inputs and attributes, `cost` the floating-point operations and bytes of a
call.
"""

from ..errors import name_only as _name_only

aten = _name_only(
    "ops.aten",
    "numod has no registry of operators; call them as functions or methods, for example numod.add",
)


def load_library(path: str) -> None:
    """Raise OSError: numod cannot load C++ operators. Libraries such as torchvision continue without them."""
    raise OSError(
        f"numod loads no operators written in C++, as those in {path}; write the operator in Python with "
        "numod.library.custom_op"
    )
