"""What LLVM is told about loops: those of some functions are not to be unrolled."""

from __future__ import annotations

_ROLLED = '"numod-rolled-loops"'  # an attribute of LLVM's function
_PROPERTY = "llvm.loop.unroll.runtime.disable"  # loops of a constant number of iterations may still be unrolled


def keep_rolled(function: object) -> None:
    """Do not unroll the loops of an LLVM function that are written from now on."""
    set.add(function.attributes, _ROLLED)  # llvmlite's own `add` takes no attribute with a value


def mark(jump: object, function: object, properties: object = None) -> object:
    """Attach its properties to a loop's jump back to its start, if the function's loops are not unrolled.

    All jumps of a loop must have one node of `properties`, which the first call returns.
    """
    if _ROLLED not in function.attributes:
        return None
    properties = properties or _properties(function.module)
    jump.set_metadata("llvm.loop", properties)
    return properties


def _properties(module: object) -> object:
    """LLVM's node of a loop's properties. It refers to itself, so that it differs from those of other loops."""
    from llvmlite import ir

    property_node = module.add_metadata([ir.MetaDataString(module, _PROPERTY)])
    node = ir.values.MDValue(module, [property_node], name=str(len(module.metadata)))
    node.operands = node, property_node
    return node
