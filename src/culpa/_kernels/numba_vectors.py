"""`culpa._kernels.vectors` as LLVM vector instructions. Importing this file registers them with numba; it takes a second.

`culpa._kernels.kernel` imports it before it compiles. Every function here has the same meaning as the one of the same name
in `culpa._kernels.vectors`; tests compare the two.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc, call-arg, import-untyped"

import operator

import numpy as np
from llvmlite import ir
from numba import TypingError, types
from numba.extending import intrinsic, models, overload, register_model

from culpa._kernels.vectors import FAST_MATH, LANES, lanes_of_zero, load, store, width_of

_INDEX = ir.IntType(32)
_unsigned = np.uint64  # for an unsigned index numba does not generate code that handles negative indices


class _Lanes(types.Type):
    def __init__(self, width):
        super().__init__(f"lanes({width})")
        self.width = width

    @property
    def vector(self):
        """The LLVM type. LLVM makes several vectors of one that is wider than those of the processor."""
        return ir.VectorType(ir.DoubleType(), self.width)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, kind):
        super().__init__(manager, kind, kind.vector)


_lanes = _Lanes(LANES)


def _check(array):
    if array.layout != "C" or array.dtype != types.float64:
        raise TypingError("vectors are of float64 numbers that lie one after the other in an array")


def _pointer(context, builder, kind, array, index, lanes):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), lanes.vector.as_pointer())


def _zeros(lanes):
    @intrinsic
    def zeros(typing):
        return lanes(), lambda context, builder, signature, arguments: ir.Constant(lanes.vector, [0.0] * lanes.width)

    return zeros


_zero_lanes = _zeros(_lanes)


@intrinsic
def _load(typing, array, index, like):
    _check(array)

    def generate(context, builder, signature, arguments):
        vector = builder.load(_pointer(context, builder, signature.args[0], *arguments[:2], like))
        vector.align = 8  # the alignment of a double: arrays promise no more
        return vector

    return like(array, types.intp, like), generate


@intrinsic
def _store(typing, array, index, value):
    _check(array)

    def generate(context, builder, signature, arguments):
        *where, vector = arguments
        builder.store(vector, _pointer(context, builder, signature.args[0], *where, value)).align = 8
        return context.get_dummy_value()

    return types.none(array, types.intp, value), generate


def _broadcast(context, builder, kind, value, lanes):
    if isinstance(kind, _Lanes):
        return value
    number = context.cast(builder, value, kind, types.float64)
    nothing = ir.Constant(lanes.vector, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INDEX, lanes.width), [0] * lanes.width))


def _overload_operator(symbol, instruction):
    @intrinsic
    def each(typing, left, right):
        lanes = left if isinstance(left, _Lanes) else right

        def generate(context, builder, signature, arguments):
            sides = [_broadcast(context, builder, *side, lanes) for side in zip(signature.args, arguments, strict=True)]
            return getattr(builder, instruction)(*sides, flags=sorted(FAST_MATH))

        return lanes(left, right), generate

    @overload(symbol)
    def _(left, right):
        return (lambda left, right: each(left, right)) if _Lanes in (type(left), type(right)) else None


# not += and similar operators: in Python they would also change other names of the same vector
_overload_operator(operator.add, "fadd")
_overload_operator(operator.sub, "fsub")
_overload_operator(operator.mul, "fmul")
_overload_operator(operator.truediv, "fdiv")


@overload(lanes_of_zero)
def _():
    return lambda: _zero_lanes()


@overload(width_of)
def _(like):
    width = like.width if isinstance(like, _Lanes) else 1
    return lambda like: width


@overload(load)
def _(array, index, like):
    if isinstance(like, _Lanes):
        return lambda array, index, like: _load(array, index, like)
    return lambda array, index, like: array[_unsigned(index)]


@overload(store)
def _(array, index, value):
    def store_number(array, index, value):
        array[_unsigned(index)] = value

    return (lambda array, index, value: _store(array, index, value)) if isinstance(value, _Lanes) else store_number
