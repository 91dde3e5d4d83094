"""Vector instructions for accumulate.py and candidates.py, spelled out as LLVM vector code.

numba widens small integers to 64 bits, after which LLVM no longer finds 16-bit lanes: the same loops written
in Python ran eight to thirty times slower. This is target-independent vector code (nothing of one CPU), so it
also compiles for ARM, and for x86 without AVX.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

LANES = 64
"""Pages handled by one call: a cache line of levels, two of sums."""

_I1, _I8, _I16, _I32 = (ir.IntType(bits) for bits in (1, 8, 16, 32))


def _load(builder, address, element, count=LANES):
    pointer = builder.inttoptr(address, ir.VectorType(element, count).as_pointer())
    value = builder.load(pointer, typ=ir.VectorType(element, count)) if _OPAQUE else builder.load(pointer)
    value.align = 1  # arrays lie where they lie
    return value


def _store(builder, value, address):
    pointer = builder.inttoptr(address, value.type.as_pointer())
    builder.store(value, pointer, align=1)


def _splat(builder, scalar, count=LANES):
    single = builder.insert_element(
        ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined), scalar, ir.Constant(_I32, 0)
    )
    zeros = ir.Constant(ir.VectorType(_I32, count), [0] * count)
    return builder.shuffle_vector(single, ir.Constant(single.type, ir.Undefined), zeros)


_OPAQUE = not hasattr(ir.VectorType(_I8, 1).as_pointer(), "pointee")


def _products(builder, row, multiplier):
    """floor(level * multiplier / 256) in 16-bit lanes: the high half of (level << 8) * multiplier."""
    wide = ir.VectorType(_I16, LANES)
    double = ir.VectorType(_I32, LANES)
    levels = builder.zext(_load(builder, row, _I8), wide)
    shifted = builder.shl(levels, ir.Constant(wide, [8] * LANES))
    factor = _splat(builder, builder.trunc(multiplier, _I16))
    product = builder.mul(builder.zext(shifted, double), builder.zext(factor, double))
    return builder.trunc(builder.lshr(product, ir.Constant(double, [16] * LANES)), wide)


@intrinsic
def set_levels(typingctx, sums, row, multiplier):
    """64 16-bit sums at address ``sums`` become the products of the levels at address ``row``."""

    def codegen(context, builder, signature, args):
        _store(builder, _products(builder, args[1], args[2]), args[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.uint32), codegen


@intrinsic
def add_levels(typingctx, sums, row, multiplier):
    """Add the products of 64 levels at address ``row`` to the 16-bit sums at address ``sums``."""

    def codegen(context, builder, signature, args):
        products = _products(builder, args[1], args[2])
        _store(builder, builder.add(_load(builder, args[0], _I16), products), args[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.uint32), codegen


@intrinsic
def keep_masked(typingctx, sums, mask):
    """Zero those of 64 16-bit sums whose byte at address ``mask`` is 0 (it is 0 or 1)."""

    def codegen(context, builder, signature, args):
        kept = builder.zext(_load(builder, args[1], _I8), ir.VectorType(_I16, LANES))
        _store(builder, builder.mul(_load(builder, args[0], _I16), kept), args[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def top_of(typingctx, sums):
    """The largest of 64 16-bit sums at address ``sums``."""

    def codegen(context, builder, signature, args):
        vector = ir.VectorType(_I16, LANES)
        function_type = ir.FunctionType(_I16, [vector])
        largest = builder.module.declare_intrinsic(f"llvm.vector.reduce.umax.v{LANES}i16", (), function_type)
        return builder.zext(builder.call(largest, [_load(builder, args[0], _I16)]), ir.IntType(64))

    return types.int64(types.int64), codegen


def _fetching(locality):
    @intrinsic
    def fetch(typingctx, address):
        def codegen(context, builder, signature, args):
            pointer = builder.inttoptr(args[0], _I8.as_pointer())
            function_type = ir.FunctionType(ir.VoidType(), [_I8.as_pointer(), _I32, _I32, _I32])
            prefetch = builder.module.declare_intrinsic("llvm.prefetch", (_I8.as_pointer(),), function_type)
            builder.call(prefetch, [pointer, *(ir.Constant(_I32, value) for value in (0, locality, 1))])
            return context.get_dummy_value()

        return types.void(types.int64), codegen

    return fetch


fetch, fetch_once = _fetching(3), _fetching(0)
"""Ask for the cache line at an address, which will be read soon; never faults. What is fetched ``once`` does
not drive from the caches what the next search needs.
"""


def _byte_products(count):
    """A function that adds up ``count`` products of bytes.

    A processor multiplies unsigned with signed bytes. So 128 is added to each at ``rows`` by turning its
    first bit, and the sum is too large by 128 times the sum of the bytes at ``query``: it does not depend on
    the row. ``count`` is a power of two, or LLVM does not find the instruction.
    """

    @intrinsic
    def byte_products(typingctx, rows, query):
        def codegen(context, builder, signature, args):
            narrow, wide = ir.VectorType(_I8, count), ir.VectorType(_I32, count)
            row = builder.xor(_load(builder, args[0], _I8, count), ir.Constant(narrow, [128] * count))
            asked = builder.sext(_load(builder, args[1], _I8, count), wide)
            function_type = ir.FunctionType(_I32, [wide])
            added = builder.module.declare_intrinsic(f"llvm.vector.reduce.add.v{count}i32", (), function_type)
            sum_ = builder.call(added, [builder.mul(builder.zext(row, wide), asked)])
            # Wider at once: two such sums, added as they are, would be made one that LLVM does not know.
            return builder.sext(sum_, ir.IntType(64))

        return types.int64(types.int64, types.int64), codegen

    return byte_products


products_of_256, products_of_64 = _byte_products(256), _byte_products(64)


@intrinsic
def any_from(typingctx, sums, least):
    """Whether any of 64 16-bit sums is at least ``least``: the question that is nearly always answered no."""

    def codegen(context, builder, signature, args):
        floor = _splat(builder, builder.trunc(args[1], _I16))
        reached = builder.icmp_unsigned(">=", _load(builder, args[0], _I16), floor)
        bits = builder.bitcast(reached, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(ir.IntType(LANES), 0))

    return types.boolean(types.int64, types.int64), codegen


@intrinsic
def which_from(typingctx, sums, least):
    """A bit for each of 64 16-bit sums at address ``sums`` that is at least ``least`` (at most 65535)."""

    def codegen(context, builder, signature, args):
        floor = _splat(builder, builder.trunc(args[1], _I16))
        reached = builder.icmp_unsigned(">=", _load(builder, args[0], _I16), floor)
        return builder.bitcast(reached, ir.IntType(LANES))

    return types.uint64(types.int64, types.int64), codegen


@intrinsic
def lowest_bit(typingctx, bits):
    """Place of the lowest 1 in ``bits``, which is not 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(_I1, 1))

    return types.int64(types.uint64), codegen
