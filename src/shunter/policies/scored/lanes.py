"""Sums of a network for eight jobs at a time, each in a lane of its own, by vector instructions.

Lanes don't mix: each job's additions are those of ``evaluating.network``, in the same order, so its value is the same,
to the last bit. LLVM finds no such instructions by itself in a loop over lanes, because all numbers are in one array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shunter import numba_config  # noqa: F401 before numba

# isort: split
import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from shunter.world import F64

LANES = 8
TOGETHER = 4  # outputs whose sums are made side by side
_WORD = 8  # bytes


def _sums(outputs: int) -> Callable[[F64, int, int, int, int, int, float], None]:
    """A function for so many outputs of a layer.

    It gets the numbers; where the weights of the first input are, and how far it is to those of the next one, and from
    the last to the constants; where the inputs are, and how many; where the outputs go, and their least value.
    """

    def plainly(numbers: F64, weights: int, stride: int, begin: int, count: int, into: int, least: float) -> None:
        for output in range(outputs):
            for lane in range(LANES):
                total = numbers[weights + stride * count + output]
                for i in range(count):
                    total += numbers[begin + LANES * i + lane] * numbers[weights + stride * i + output]
                numbers[into + LANES * output + lane] = max(total, least)

    if numba.config.DISABLE_JIT:
        return plainly

    @intrinsic  # type: ignore[untyped-decorator]
    def in_lanes(
        context: Any, numbers: Any, weights: Any, stride: Any, begin: Any, count: Any, into: Any, least: Any
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            _build(builder, array.data, outputs, arguments[1:])
            return context.get_dummy_value()

        return types.void(numbers, *[types.int64] * 5, types.float64), build

    return in_lanes  # type: ignore[no-any-return]


def _build(builder: Any, data: Any, outputs: int, arguments: Any) -> None:
    """The instructions."""
    weights, stride, begin, count, into, least = arguments
    word, vector = ir.IntType(64), ir.VectorType(ir.DoubleType(), LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    first_lane = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)

    def place(at: Any, more: int = 0) -> Any:
        return builder.gep(data, [builder.add(at, word(more))])

    def lanes(at: Any, more: int = 0) -> Any:
        return builder.bitcast(place(at, more), vector.as_pointer())

    def spread(value: Any) -> Any:
        one = builder.insert_element(undefined, value, ir.IntType(32)(0))
        return builder.shuffle_vector(one, undefined, first_lane)

    totals = [cgutils.alloca_once(builder, vector) for _ in range(outputs)]
    constants = builder.add(weights, builder.mul(stride, count))
    for output, total in enumerate(totals):
        builder.store(spread(builder.load(place(constants, output))), total)
    with cgutils.for_range(builder, count) as loop:
        inputs = builder.load(lanes(builder.add(begin, builder.mul(loop.index, word(LANES)))), align=_WORD)
        first = builder.add(weights, builder.mul(loop.index, stride))
        for output, total in enumerate(totals):
            product = builder.fmul(inputs, spread(builder.load(place(first, output))))
            builder.store(builder.fadd(builder.load(total), product), total)
    bound = spread(least)
    for output, total in enumerate(totals):
        found = builder.load(total)
        above = builder.select(builder.fcmp_ordered(">", bound, found), bound, found)
        builder.store(above, lanes(into, LANES * output), align=_WORD)


some_sums, one_sum = _sums(TOGETHER), _sums(1)
