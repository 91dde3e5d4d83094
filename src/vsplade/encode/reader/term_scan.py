"""The hot loops of naming a cell: every term's product with what is seen there, compiled.

A processor with AVX-512 VNNI multiplies 64 bytes with 64 bytes in one instruction. A tile is 8 cells by 32
terms: its 16 sums stay in registers, and so does what becomes of them. onnxruntime writes the products of
all terms to memory and goes over them again for the softmax and for the largest.

The chance of a term is ``exp(product) / sum of all``. For the sum, ``2 ** x`` is read off the bits of a float
whose exponent is x and whose fraction grows in a straight line: at most 3 % wrong, and right on average. The
terms that may be among the best, and with them nearly all of the sum on a cell that is read surely, are then
gone through again with exact powers.
"""

# mypy: disable-error-code="untyped-decorator,no-untyped-call,no-untyped-def"

from __future__ import annotations

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from vsplade.compiled import compiled

SEEN = 96
"""Bytes that a cell is named from."""
GROUP = 256
"""Terms of which only the largest product is kept at first."""
BEST = 4
LANES = 16
ONE = float(1 << 23)
"""Products are counted in powers of two, and these in steps of a float's fraction."""
LIFT = 126.942695 * ONE
"""Is added to them: the exponent of 1, and so much less that powers are right on average."""

_FOURS = SEEN // 4
_ROWS, _TILE = 8, 2 * LANES
_BLOCK = SEEN * LANES
"""Bytes of the weights of 16 terms."""
_TOGETHER = 8
"""Groups whose weights stay in the cache while all cells are compared with them."""
_LARGEST = 2139095039.0
_LIFT, _STEP = np.float32(LIFT / ONE), np.float32(1 / ONE)

_I32, _F32, _I64 = ir.IntType(32), ir.FloatType(), ir.IntType(64)
_INTS, _FLOATS = ir.VectorType(_I32, LANES), ir.VectorType(_F32, LANES)
_OPAQUE = not hasattr(_INTS.as_pointer(), "pointee")


def has_instruction() -> bool:
    """Whether loops are compiled for a processor that multiplies bytes so."""
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    return "+avx512vnni" in features


def _pointer(builder, address, kind, offset):
    there = builder.add(address, ir.Constant(_I64, offset)) if offset else address
    return builder.inttoptr(there, kind.as_pointer())


def _load(builder, address, kind, offset=0):
    pointer = _pointer(builder, address, kind, offset)
    value = builder.load(pointer, typ=kind) if _OPAQUE else builder.load(pointer)
    value.align = 4
    return value


def _store(builder, value, address, offset):
    builder.store(value, _pointer(builder, address, value.type, offset), align=4)


def _splat(builder, scalar):
    vector = ir.VectorType(scalar.type, LANES)
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_I32, 0))
    zeros = ir.Constant(_INTS, [0] * LANES)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros)


def _products(builder, seen, weights, rows, blocks):
    """Of so many cells with so many blocks of 16 terms; bytes lie in fours, as the instruction takes them."""
    kind = ir.FunctionType(_INTS, [_INTS, _INTS, _INTS])
    add_products = builder.module.declare_intrinsic("llvm.x86.avx512.vpdpbusd.512", (), kind)
    sums = [[ir.Constant(_INTS, [0] * LANES)] * blocks for _ in range(rows)]
    for four in range(_FOURS):
        columns = [_load(builder, weights, _INTS, block * _BLOCK + four * 64) for block in range(blocks)]
        for row in range(rows):
            cell = _splat(builder, _load(builder, seen, _I32, row * SEEN + four * 4))
            sums[row] = [
                builder.call(add_products, [sum_, cell, column])
                for sum_, column in zip(sums[row], columns, strict=True)
            ]
    return sums


def _scaled(builder, sums, scale, factors, biases):
    """Sums of bytes to products as floats."""
    fused = builder.module.declare_intrinsic(
        "llvm.fma.v16f32", (), ir.FunctionType(_FLOATS, [_FLOATS, _FLOATS, _FLOATS])
    )
    return [
        builder.call(fused, [builder.fmul(builder.sitofp(sum_, _FLOATS), factor), scale, bias])
        for sum_, factor, bias in zip(sums, factors, biases, strict=True)
    ]


def _limited(builder, value, sign, limit):
    other = ir.Constant(_FLOATS, [limit] * LANES)
    return builder.select(builder.fcmp_ordered(sign, value, other), value, other)


@intrinsic
def _add_tile(typingctx, seen, scales, weights, factors, biases, totals, tops):
    """8 cells by 32 terms: the powers are added to ``totals``, the largest products kept in ``tops``."""

    def codegen(context, builder, signature, args):
        seen, scales, weights, factors, biases, totals, tops = args
        sums = _products(builder, seen, weights, _ROWS, 2)
        factor, bias = ([_load(builder, side, _FLOATS, at) for at in (0, 64)] for side in (factors, biases))
        for row in range(_ROWS):
            scale = _splat(builder, _load(builder, scales, _F32, row * 4))
            total, top = (_load(builder, side, _FLOATS, row * 64) for side in (totals, tops))
            for product in _scaled(builder, sums[row], scale, factor, bias):
                top = builder.select(builder.fcmp_ordered(">", product, top), product, top)
                bits = _limited(builder, _limited(builder, product, ">", 0.0), "<", _LARGEST)
                total = builder.fadd(total, builder.bitcast(builder.fptosi(bits, _INTS), _FLOATS))
            _store(builder, total, totals, row * 64)
            _store(builder, top, tops, row * 64)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), codegen


@intrinsic
def _group_of_one(typingctx, seen, scale, weights, factors, biases, products):
    """The products of one cell with the 256 terms of a group."""

    def codegen(context, builder, signature, args):
        seen, scale, weights, factors, biases, products = args
        places = range(0, GROUP * 4, 64)
        factor, bias = ([_load(builder, side, _FLOATS, at) for at in places] for side in (factors, biases))
        (sums,) = _products(builder, seen, weights, 1, GROUP // LANES)
        scaled = _scaled(builder, sums, _splat(builder, scale), factor, bias)
        for at, product in zip(places, scaled, strict=True):
            _store(builder, product, products, at)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32, *[types.int64] * 4), codegen


@compiled(fastmath=True)
def scan(seen, scales, weights, factors, biases, totals, tops):
    """For each cell and group of terms the sum of the powers, and the largest product.

    ``seen`` has a multiple of 8 rows.
    """
    groups = len(weights)
    sums, largest = np.empty((_ROWS, LANES), np.float32), np.empty((_ROWS, LANES), np.float32)
    for first in range(0, groups, _TOGETHER):
        for row in range(0, len(seen), _ROWS):
            for group in range(first, min(first + _TOGETHER, groups)):
                sums[:], largest[:] = 0, -_LARGEST
                for term in range(group * GROUP, (group + 1) * GROUP, _TILE):
                    _add_tile(
                        seen.ctypes.data + row * SEEN, scales.ctypes.data + row * 4,
                        weights.ctypes.data + term * SEEN, factors.ctypes.data + term * 4,
                        biases.ctypes.data + term * 4, sums.ctypes.data, largest.ctypes.data,
                    )  # fmt: skip
                for each in range(_ROWS):
                    total, top = np.float32(0), np.float32(-_LARGEST)
                    for lane in range(LANES):
                        total += sums[each, lane]
                        top = max(top, largest[each, lane])
                    totals[row + each, group], tops[row + each, group] = total, top


@compiled(no_cpython_wrapper=True, inline="always")
def _insert(values, names, value, name):
    """A value that is larger than the least of them, into its place; of equal ones the first stays first."""
    place = BEST - 1
    while place > 0 and value > values[place - 1]:
        values[place], names[place] = values[place - 1], names[place - 1]
        place -= 1
    values[place], names[place] = value, name


@compiled(no_cpython_wrapper=True, inline="always")
def _sort(names):
    """A few numbers, least first; numba's own sort takes a second to compile."""
    for last in range(1, BEST):
        name, place = names[last], last
        while place > 0 and names[place - 1] > name:
            names[place] = names[place - 1]
            place -= 1
        names[place] = name


@compiled(fastmath=True, no_cpython_wrapper=True)
def _power(products, bits, powers):
    """2 to the power of each, exact to seven digits; and the sum of all."""
    fractions = bits.view(np.float32)
    for at in range(len(products)):
        power = max(products[at] * _STEP - _LIFT, np.float32(-126))
        whole = np.floor(power)
        rest = power - whole
        value = np.float32(1.8775767e-3)
        value = value * rest + np.float32(8.9893397e-3)
        value = value * rest + np.float32(5.5826318e-2)
        value = value * rest + np.float32(2.4015361e-1)
        value = value * rest + np.float32(6.9315308e-1)
        powers[at] = value * rest + np.float32(9.9999994e-1)
        bits[at] = (np.int32(whole) + 127) << 23
    total = np.float32(0)
    for at in range(len(products)):
        powers[at] *= fractions[at]
        total += powers[at]
    return total


@compiled()
def find_best(seen, scales, weights, factors, biases, totals, tops, chances, terms):
    """The best few terms of each cell and their chances, from what ``scan`` found."""
    products, powers = np.empty((BEST, GROUP), np.float32), np.empty((BEST, GROUP), np.float32)
    bits = np.empty((BEST, GROUP), np.int32)
    top, groups = np.empty(BEST, np.float32), np.empty(BEST, np.int64)
    best, names = np.empty(BEST, np.float32), np.empty(BEST, np.int64)
    for row in range(len(terms)):
        total = 0.0
        top[:], groups[:] = -_LARGEST, 0
        for group in range(len(weights)):
            total += totals[row, group]
            if tops[row, group] > top[BEST - 1]:
                _insert(top, groups, tops[row, group], group)
        _sort(groups)
        for n in range(BEST):
            term = groups[n] * GROUP
            total -= totals[row, groups[n]]
            _group_of_one(
                seen.ctypes.data + row * SEEN, scales[row], weights.ctypes.data + term * SEEN,
                factors.ctypes.data + term * 4, biases.ctypes.data + term * 4,
                products.ctypes.data + n * GROUP * 4,
            )  # fmt: skip
        total += _power(products.reshape(-1), bits.reshape(-1), powers.reshape(-1))
        best[:], names[:] = 0, 0
        least = top[BEST - 1]  # the largest of four groups: four terms are at least as likely
        for n in range(BEST):
            for at in range(GROUP):
                if products[n, at] >= least and powers[n, at] > best[BEST - 1]:
                    _insert(best, names, powers[n, at], groups[n] * GROUP + at)
        for n in range(BEST):
            chances[row, n], terms[row, n] = best[n] / total, names[n]


@compiled(fastmath=True, no_cpython_wrapper=True)
def _four_sums(features, row, weights, sums):
    """The products of four cells with all weights: these come from memory once for the four."""
    a, b, c, d = sums[0], sums[1], sums[2], sums[3]
    for n in range(0, features.shape[1] - 1, 2):
        one, two = weights[n], weights[n + 1]
        a1, b1, c1, d1 = features[row, n], features[row + 1, n], features[row + 2, n], features[row + 3, n]
        n += 1
        a2, b2, c2, d2 = features[row, n], features[row + 1, n], features[row + 2, n], features[row + 3, n]
        for at in range(SEEN):
            a[at] += a1 * one[at] + a2 * two[at]
            b[at] += b1 * one[at] + b2 * two[at]
            c[at] += c1 * one[at] + c2 * two[at]
            d[at] += d1 * one[at] + d2 * two[at]


@compiled(fastmath=True)
def look(features, weights, biases, size, size_bias, seen, scales, ems):
    """What the head sees of each cell, in bytes with a scale of their own, and the logarithm of its em.

    The rows are a multiple of 8, the features one of 2.
    """
    sums = np.empty((4, SEEN), np.float32)
    for first in range(0, len(features), 4):
        for each in range(4):
            for n in range(SEEN):  # an array at once would take seconds to compile
                sums[each, n] = biases[n]
        _four_sums(features, first, weights, sums)
        for each in range(4):
            row, largest, em = sums[each], np.float32(1e-9), size_bias
            for n in range(SEEN):
                row[n] = max(row[n], np.float32(0))
                largest = max(largest, row[n])
                em += row[n] * size[n]
            ems[first + each], scales[first + each] = em, largest / np.float32(255)
            for n in range(SEEN):
                seen[first + each, n] = np.uint8(row[n] * (np.float32(255) / largest) + np.float32(0.5))
