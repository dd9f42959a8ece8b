"""DTypeConfig: dtypes that a backend takes together, and those of PyTorch's backends by their names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ... import dtypes


@dataclass
class DTypeWithConstraints:
    """A dtype, with bounds for the integers and scales of a QConfig; a QConfig outside of them is ignored."""

    dtype: dtypes.dtype | None = None
    quant_min_lower_bound: float | None = None
    quant_max_upper_bound: float | None = None
    scale_min_lower_bound: float | None = None
    scale_max_upper_bound: float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None

    def admits(self, observer: Any) -> bool:
        """Whether an observer has this dtype, and numbers within the bounds."""
        if self.dtype is None:
            return True
        if getattr(observer, "dtype", None) is not self.dtype:
            return False
        inner = getattr(observer, "activation_post_process", observer)
        low, high = getattr(inner, "quant_min", None), getattr(inner, "quant_max", None)
        least = self.scale_min_lower_bound
        return (
            (self.quant_min_lower_bound is None or (low is not None and low >= self.quant_min_lower_bound))
            and (self.quant_max_upper_bound is None or (high is not None and high <= self.quant_max_upper_bound))
            and (least is None or float(getattr(inner, "eps", 0.0)) >= least)
            and self._is_exact(inner, "scale", self.scale_exact_match)
            and self._is_exact(inner, "zero_point", self.zero_point_exact_match)
        )

    @staticmethod
    def _is_exact(observer: Any, name: str, expected: float | None) -> bool:
        return expected is None or (hasattr(observer, name) and float(getattr(observer, name)) == expected)


_DTYPE_FIELDS = "input_dtype", "output_dtype", "weight_dtype"


class DTypeConfig:
    """Dtypes of input, output, weight and bias that a backend takes together."""

    def __init__(
        self,
        input_dtype: dtypes.dtype | DTypeWithConstraints | None = None,
        output_dtype: dtypes.dtype | DTypeWithConstraints | None = None,
        weight_dtype: dtypes.dtype | DTypeWithConstraints | None = None,
        bias_dtype: dtypes.dtype | None = None,
        is_dynamic: bool | None = None,
    ) -> None:
        for name, value in zip(_DTYPE_FIELDS, (input_dtype, output_dtype, weight_dtype)):
            constrained = value if isinstance(value, DTypeWithConstraints) else DTypeWithConstraints(value)
            setattr(self, f"{name}_with_constraints", constrained)
        self.bias_dtype, self.is_dynamic = bias_dtype, is_dynamic

    input_dtype, output_dtype, weight_dtype = (
        property(lambda self, name=name: getattr(self, f"{name}_with_constraints").dtype) for name in _DTYPE_FIELDS
    )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypeConfig) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        return f"DTypeConfig({', '.join(f'{name}={value}' for name, value in self.to_dict().items())})"

    @classmethod
    def from_dict(cls, dtype_config_dict: dict[str, Any]) -> DTypeConfig:
        """The config of a dict with these names."""
        for name in _DTYPE_FIELDS:
            value = dtype_config_dict.get(name)
            if value is not None and not isinstance(value, (dtypes.dtype, DTypeWithConstraints)):
                raise ValueError(f"Expected {name} to be a numod.dtype or DTypeWithConstraints, got {value!r}")
        return cls(**{name: dtype_config_dict.get(name) for name in (*_DTYPE_FIELDS, "bias_dtype", "is_dynamic")})

    def to_dict(self) -> dict[str, Any]:
        """What is set, by name."""
        values = {name: getattr(self, f"{name}_with_constraints") for name in _DTYPE_FIELDS}
        result = {name: value for name, value in values.items() if value.dtype is not None}
        others = {"bias_dtype": self.bias_dtype, "is_dynamic": self.is_dynamic}
        return result | {name: value for name, value in others.items() if value is not None}

    def admits(self, qconfig: Any) -> bool:
        """Whether a QConfig has these dtypes."""
        activation = qconfig.activation()
        weight = None if qconfig.weight is None else qconfig.weight()
        return (
            bool(self.is_dynamic) == bool(getattr(activation, "is_dynamic", False))
            and self.input_dtype_with_constraints.admits(activation)
            and (self.is_dynamic or self.output_dtype_with_constraints.admits(activation))
            and self.weight_dtype_with_constraints.admits(weight)
        )


_QUINT8, _QINT8, _FLOAT, _HALF = dtypes.quint8, dtypes.qint8, dtypes.float32, dtypes.float16
_ACTIVATION = DTypeWithConstraints(_QINT8, scale_min_lower_bound=2**-12)
_WEIGHT = DTypeWithConstraints(_QINT8, -127, 127, scale_min_lower_bound=2**-12)
_SYMMETRIC = DTypeConfig(_ACTIVATION, _ACTIVATION), DTypeConfig(_ACTIVATION, _ACTIVATION, _WEIGHT, _FLOAT)
_COMMON = {
    "default_op_quint8": DTypeConfig(_QUINT8, _QUINT8),
    "default_op_fp16": DTypeConfig(_HALF, _HALF, _HALF, _HALF),
    "default_dynamic_int8": DTypeConfig(_QUINT8, _FLOAT, _QINT8, _FLOAT, True),
    "default_dynamic_float16": DTypeConfig(_HALF, _FLOAT, _HALF, _FLOAT, True),
    "weight_only_quint8": DTypeConfig(_FLOAT, _FLOAT, dtypes.quint8),
    "weight_only_quint4x2": DTypeConfig(_FLOAT, _FLOAT, dtypes.quint4x2),
}
_WEIGHTED = DTypeConfig(_QUINT8, _QUINT8, _QINT8, _FLOAT)
_INPUT_OUTPUT = DTypeConfig(_QUINT8, _QUINT8, _FLOAT, _FLOAT)
_OTHERS = {
    "weighted_op_quint8": _WEIGHTED, "fbgemm_weighted_op_quint8": _WEIGHTED, "qnnpack_weighted_op_quint8": _WEIGHTED,
    "x86_weighted_op_int8": _WEIGHTED, "executorch_weighted_op_int8": _WEIGHTED, "onednn_weighted_op_int8": _WEIGHTED,
    "input_output_only_quint8": _INPUT_OUTPUT, "onednn_input_output_only_quint8": _INPUT_OUTPUT,
    "onednn_op_quint8": _COMMON["default_op_quint8"], "onednn_dynamic_int8": _COMMON["default_dynamic_int8"],
    "onednn_weight_only_qint8": DTypeConfig(_FLOAT, _FLOAT, _QINT8),
    "qnnpack_default_op_qint8_symmetric": _SYMMETRIC[0], "qnnpack_weighted_op_qint8_symmetric": _SYMMETRIC[1],
    "executorch_default_dynamic_quint8": _COMMON["default_dynamic_int8"],
    "executorch_default_dynamic_qint8": DTypeConfig(_ACTIVATION, _FLOAT, _WEIGHT, _FLOAT, True),
}  # fmt: skip
CONFIGS: dict[str, DTypeConfig | DTypeWithConstraints] = {  # PyTorch's names
    **{
        f"{backend}{name}_dtype_config": config
        for backend in ("", "fbgemm_", "qnnpack_", "x86_", "executorch_")
        for name, config in _COMMON.items()
    },
    **{f"{name}_dtype_config": config for name, config in _OTHERS.items()},
    **{f"{backend}_act_qint8_scale_min_2_neg_12": _ACTIVATION for backend in ("qnnpack", "executorch")},
    **{f"{backend}_weight_qint8_neg_127_to_127_scale_min_2_neg_12": _WEIGHT for backend in ("qnnpack", "executorch")},
}
