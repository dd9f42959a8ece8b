"""Named results: tuples whose items are also attributes, such as `numod.return_types.max`.

Not how they are computed.
"""

from __future__ import annotations


def _named(name: str, *fields: str) -> type:
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
    _named(name, "values", "indices")
    for name in ("sort", "topk", "kthvalue", "median", "nanmedian", "mode", "max", "min", "cummax", "cummin")
)
aminmax = _named("aminmax", "min", "max")
histogram = _named("histogram", "hist", "bin_edges")
histogramdd = _named("histogramdd", "hist", "bin_edges")
frexp = _named("frexp", "mantissa", "exponent")
slogdet, linalg_slogdet = _named("slogdet", "sign", "logabsdet"), _named("linalg_slogdet", "sign", "logabsdet")
linalg_cholesky_ex = _named("linalg_cholesky_ex", "L", "info")
linalg_inv_ex = _named("linalg_inv_ex", "inverse", "info")
linalg_solve_ex = _named("linalg_solve_ex", "result", "info")
qr, linalg_qr, geqrf = _named("qr", "Q", "R"), _named("linalg_qr", "Q", "R"), _named("geqrf", "a", "tau")
triangular_solve = _named("triangular_solve", "solution", "cloned_coefficient")
svd = _named("svd", "U", "S", "V")
linalg_svd = _named("linalg_svd", "U", "S", "Vh")
linalg_eigh = _named("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_eig = _named("linalg_eig", "eigenvalues", "eigenvectors")
linalg_lu_factor = _named("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _named("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_ldl_factor = _named("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = _named("linalg_ldl_factor_ex", "LD", "pivots", "info")
linalg_lu, lu_unpack = _named("linalg_lu", "P", "L", "U"), _named("lu_unpack", "P", "L", "U")
linalg_lstsq = _named("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
