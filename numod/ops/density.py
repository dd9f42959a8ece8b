"""Pointwise rows of logarithms of densities, accurate at large parameters where differences of log gammas cancel.

The mathematics is in `kernel.library.density`.
"""

from __future__ import annotations

from .pointwise import pointwise
from .special import trigamma
from .table import where

gamma_log_density = pointwise(  # of x with concentration y and rate z
    "gamma_log_density",
    "gamma_log_density(float64(x), float64(y), float64(z))",
    dx=lambda g, x, y, z: g * gamma_value_slope(x, y, z),
    dy=lambda g, x, y, z: g * gamma_shape_slope(x, y, z),
    dz=lambda g, x, y, z: g * gamma_rate_slope(x, y, z),
    result="float",
)
gamma_value_slope = pointwise(  # (y - 1) / x - z
    "gamma_value_slope",
    "-z if y == 1 else (float64(y) - 1.0 - float64(z) * float64(x)) / float64(x)",
    dx=lambda g, x, y: where(y == 1.0, 0.0, -g * (y - 1.0) / (x * x)),
    dy=lambda g, x: g / x,
    dz=lambda g: -g,
    result="float",
)
gamma_rate_slope = pointwise(  # y / z - x
    "gamma_rate_slope",
    "(float64(y) - float64(z) * float64(x)) / float64(z)",
    dx=lambda g: -g,
    dy=lambda g, z: g / z,
    dz=lambda g, y, z: -g * y / (z * z),
    result="float",
)
gamma_shape_slope = pointwise(  # log(z x) - digamma(y)
    "gamma_shape_slope",
    "gamma_shape_slope(float64(x), float64(y), float64(z))",
    dx=lambda g, x: g / x,
    dy=lambda g, y: -g * trigamma(y),
    dz=lambda g, z: g / z,
    result="float",
)
beta_log_density = pointwise(  # of x with concentrations y and z
    "beta_log_density",
    "beta_log_density(float64(x), float64(y), float64(z))",
    dx=lambda g, x, y, z: g * beta_value_slope(x, y, z),
    dy=lambda g, x, y, z: g * beta_shape_slope(x, y, z),
    dz=lambda g, x, y, z: g * beta_rest_slope(x, y, z),
    result="float",
)
beta_value_slope = pointwise(  # (y - 1) / x - (z - 1) / (1 - x)
    "beta_value_slope",
    "(0 if y == 1 else (float64(y) - 1.0) / float64(x)) - (0 if z == 1 else (float64(z) - 1.0) / (1.0 - float64(x)))",
    dx=lambda g, x, y, z: (
        -g * (where(y == 1.0, 0.0, (y - 1.0) / (x * x)) + where(z == 1.0, 0.0, (z - 1.0) / ((1.0 - x) * (1.0 - x))))
    ),
    dy=lambda g, x: g / x,
    dz=lambda g, x: -g / (1.0 - x),
    result="float",
)
beta_shape_slope = pointwise(  # log(x) - digamma(y) + digamma(y + z)
    "beta_shape_slope",
    "beta_shape_slope(float64(x), float64(y), float64(z))",
    dx=lambda g, x: g / x,
    dy=lambda g, y, z: g * (trigamma(y + z) - trigamma(y)),
    dz=lambda g, y, z: g * trigamma(y + z),
    result="float",
)
beta_rest_slope = pointwise(  # log(1 - x) - digamma(z) + digamma(y + z)
    "beta_rest_slope",
    "beta_rest_slope(float64(x), float64(y), float64(z))",
    dx=lambda g, x: -g / (1.0 - x),
    dy=lambda g, y, z: g * trigamma(y + z),
    dz=lambda g, y, z: g * (trigamma(y + z) - trigamma(z)),
    result="float",
)
student_log_density = pointwise(  # of x with y degrees of freedom, location 0 and scale 1
    "student_log_density",
    "student_log_density(float64(x), float64(y))",
    dx=lambda g, x, y: -g * (y + 1.0) / (y / x + x),
    dy=lambda g, x, y: g * student_df_slope(x, y),
    result="float",
)
student_df_slope = pointwise(  # the derivative of student_log_density by y
    "student_df_slope",
    "student_df_slope(float64(x), float64(y))",
    dx=lambda g, x, y: -g * x * (x * x - 1.0) / ((y + x * x) * (y + x * x)),
    dy=lambda g, x, y: (
        g
        * (
            0.25 * (trigamma(0.5 * y + 0.5) - trigamma(0.5 * y))
            + 0.5 / (y * y)
            + 0.5
            * x
            * x
            * (
                1.0 / (y * (y + x * x))
                + (y * y + y * x * x - (y + 1.0) * (2.0 * y + x * x)) / (y * y * (y + x * x) * (y + x * x))
            )
        )
    ),
    result="float",
)
