"""Named results: tuples whose items are also attributes, such as `numod.return_types.max`.

Not how they are computed.
"""

from __future__ import annotations


def _return_type(name: str, *fields: str) -> type:
    """A tuple type with a property per field, made from a sequence of that many values."""

    def make(cls: type, values: object) -> tuple:
        values = tuple(values)
        if len(values) != len(fields):
            raise TypeError(
                f"numod.return_types.{name}() takes a {len(fields)}-sequence ({len(values)}-sequence given)"
            )
        return tuple.__new__(cls, values)

    def show(self: tuple) -> str:
        return (
            f"numod.return_types.{name}(\n"
            + ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
            + ")"
        )

    parts = {field: property(lambda self, k=k: self[k]) for k, field in enumerate(fields)}
    doc = f"The results of `numod.{name}`: {', '.join(fields)}."
    return type(
        name,
        (tuple,),
        {
            "__slots__": (),
            "__new__": make,
            "__repr__": show,
            "__module__": __name__,
            "__doc__": doc,
            "__match_args__": fields,
            **parts,
        },
    )


sort, topk, kthvalue, median, nanmedian, mode, max, min, cummax, cummin = (
    _return_type(name, "values", "indices")
    for name in ("sort", "topk", "kthvalue", "median", "nanmedian", "mode", "max", "min", "cummax", "cummin")
)
aminmax = _return_type("aminmax", "min", "max")
histogram = _return_type("histogram", "hist", "bin_edges")
histogramdd = _return_type("histogramdd", "hist", "bin_edges")
frexp = _return_type("frexp", "mantissa", "exponent")
slogdet = _return_type("slogdet", "sign", "logabsdet")
linalg_slogdet = _return_type("linalg_slogdet", "sign", "logabsdet")
linalg_cholesky_ex = _return_type("linalg_cholesky_ex", "L", "info")
linalg_inv_ex = _return_type("linalg_inv_ex", "inverse", "info")
linalg_solve_ex = _return_type("linalg_solve_ex", "result", "info")
qr = _return_type("qr", "Q", "R")
linalg_qr = _return_type("linalg_qr", "Q", "R")
geqrf = _return_type("geqrf", "a", "tau")
triangular_solve = _return_type("triangular_solve", "solution", "cloned_coefficient")
svd = _return_type("svd", "U", "S", "V")
linalg_svd = _return_type("linalg_svd", "U", "S", "Vh")
linalg_eigh = _return_type("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_eig = _return_type("linalg_eig", "eigenvalues", "eigenvectors")
linalg_lu_factor = _return_type("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _return_type("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_ldl_factor = _return_type("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = _return_type("linalg_ldl_factor_ex", "LD", "pivots", "info")
linalg_lu, lu_unpack = _return_type("linalg_lu", "P", "L", "U"), _return_type("lu_unpack", "P", "L", "U")
linalg_lstsq = _return_type("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
