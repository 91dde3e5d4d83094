"""Put glyphs and boxes on pictures: one Triton program a glyph on a GPU, a plain loop elsewhere (for tests).

A picture is three planes: how dark the paper is, how dark the ink is, and how much ink covers a pixel.
Coverage is joined by maximum, so the order of glyphs does not matter and every program may write at once.
Paper and ink are painted over: a later box hides an earlier one. There a program only claims its pixels, the
highest box number wins, and the tones are filled in afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from research.reader.scenes import COVER, INK, PAPER, SIZE
from research.reader.typeset import Glyphs

try:
    import triton
    import triton.language as tl
except ImportError:  # a machine without a GPU: the plain loop below is used
    triton = None

if triton is not None:

    @triton.jit
    def _glyph_kernel(cover, ink, window, offset, size, inverse, bounds, SIZE, BLOCK: tl.constexpr):
        n = tl.program_id(0)
        x0, y0 = tl.load(bounds + n * 4), tl.load(bounds + n * 4 + 1)
        x1, y1 = tl.load(bounds + n * 4 + 2), tl.load(bounds + n * 4 + 3)
        height, width = tl.load(size + n * 2), tl.load(size + n * 2 + 1)
        a, b, c = tl.load(inverse + n * 6), tl.load(inverse + n * 6 + 1), tl.load(inverse + n * 6 + 2)
        d, e, f = tl.load(inverse + n * 6 + 3), tl.load(inverse + n * 6 + 4), tl.load(inverse + n * 6 + 5)
        source = ink + tl.load(offset + n)
        target = cover + tl.load(window + n) * SIZE * SIZE
        across = x1 - x0
        area = across * (y1 - y0)
        for first in range(0, area, BLOCK):
            at = first + tl.arange(0, BLOCK)
            live = at < area
            px, py = x0 + at % across, y0 + at // across
            fx, fy = px.to(tl.float32) + 0.5, py.to(tl.float32) + 0.5
            u, v = a * fx + b * fy + c - 0.5, d * fx + e * fy + f - 0.5
            left, top = tl.floor(u), tl.floor(v)
            du, dv = u - left, v - top
            iu, iv = left.to(tl.int32), top.to(tl.int32)
            in_left, in_right = (iu >= 0) & (iu < width), (iu + 1 >= 0) & (iu + 1 < width)
            in_top, in_bottom = (iv >= 0) & (iv < height), (iv + 1 >= 0) & (iv + 1 < height)
            row = source + iv * width + iu
            p00 = tl.load(row, mask=live & in_left & in_top, other=0).to(tl.float32)
            p01 = tl.load(row + 1, mask=live & in_right & in_top, other=0).to(tl.float32)
            p10 = tl.load(row + width, mask=live & in_left & in_bottom, other=0).to(tl.float32)
            p11 = tl.load(row + width + 1, mask=live & in_right & in_bottom, other=0).to(tl.float32)
            value = ((p00 * (1 - du) + p01 * du) * (1 - dv) + (p10 * (1 - du) + p11 * du) * dv) / 255.0
            tl.atomic_max(target + py * SIZE + px, value, mask=live & (value > 0.004))

    @triton.jit
    def _box_kernel(
        cover, owner, plane, window, value, inverse, extent, bounds, windows, SIZE, BLOCK: tl.constexpr
    ):
        n = tl.program_id(0)
        x0, y0 = tl.load(bounds + n * 4), tl.load(bounds + n * 4 + 1)
        x1, y1 = tl.load(bounds + n * 4 + 2), tl.load(bounds + n * 4 + 3)
        left, top = tl.load(extent + n * 4), tl.load(extent + n * 4 + 1)
        right, bottom = tl.load(extent + n * 4 + 2), tl.load(extent + n * 4 + 3)
        a, b, c = tl.load(inverse + n * 6), tl.load(inverse + n * 6 + 1), tl.load(inverse + n * 6 + 2)
        d, e, f = tl.load(inverse + n * 6 + 3), tl.load(inverse + n * 6 + 4), tl.load(inverse + n * 6 + 5)
        tone, which = tl.load(value + n), tl.load(plane + n)
        target = cover + tl.load(window + n) * SIZE * SIZE
        claim = owner + (which * windows + tl.load(window + n)) * SIZE * SIZE
        across = x1 - x0
        area = across * (y1 - y0)
        for first in range(0, area, BLOCK):
            at = first + tl.arange(0, BLOCK)
            px, py = x0 + at % across, y0 + at // across
            fx, fy = px.to(tl.float32) + 0.5, py.to(tl.float32) + 0.5
            x, y = a * fx + b * fy + c, d * fx + e * fy + f
            # a pixel on a thin rule gets the share of it that the rule covers
            share_x = tl.minimum(tl.minimum(x - left + 0.5, right - x + 0.5), tl.minimum(right - left, 1.0))
            share_y = tl.minimum(tl.minimum(y - top + 0.5, bottom - y + 0.5), tl.minimum(bottom - top, 1.0))
            share = tl.maximum(share_x, 0.0) * tl.maximum(share_y, 0.0)
            live = at < area
            if which == 2:
                tl.atomic_max(target + py * SIZE + px, share * tone, mask=live & (share > 0.004))
            else:
                tl.atomic_max(claim + py * SIZE + px, n + 1, mask=live & (share >= 0.5))

    @triton.jit
    def _page_kernel(out, pixels, offset, shape, inverse, SIZE, BLOCK: tl.constexpr):
        window = tl.program_id(0)
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        live = at < SIZE * SIZE
        height, width = tl.load(shape + window * 2), tl.load(shape + window * 2 + 1)
        a, b, c = (
            tl.load(inverse + window * 6),
            tl.load(inverse + window * 6 + 1),
            tl.load(inverse + window * 6 + 2),
        )
        d, e, f = (
            tl.load(inverse + window * 6 + 3),
            tl.load(inverse + window * 6 + 4),
            tl.load(inverse + window * 6 + 5),
        )
        fx, fy = (at % SIZE).to(tl.float32) + 0.5, (at // SIZE).to(tl.float32) + 0.5
        u, v = a * fx + b * fy + c - 0.5, d * fx + e * fy + f - 0.5
        left, top = tl.floor(u), tl.floor(v)
        du, dv = u - left, v - top
        iu, iv = left.to(tl.int64), top.to(tl.int64)
        in_left, in_right = (iu >= 0) & (iu < width), (iu + 1 >= 0) & (iu + 1 < width)
        in_top, in_bottom = (iv >= 0) & (iv < height), (iv + 1 >= 0) & (iv + 1 < height)
        row = pixels + tl.load(offset + window) + iv * width + iu
        p00 = tl.load(row, mask=live & in_left & in_top, other=255).to(tl.float32)
        p01 = tl.load(row + 1, mask=live & in_right & in_top, other=255).to(tl.float32)
        p10 = tl.load(row + width, mask=live & in_left & in_bottom, other=255).to(tl.float32)
        p11 = tl.load(row + width + 1, mask=live & in_right & in_bottom, other=255).to(tl.float32)
        light = ((p00 * (1 - du) + p01 * du) * (1 - dv) + (p10 * (1 - du) + p11 * du) * dv) / 255.0
        tl.store(out + window * SIZE * SIZE + at, 1 - light, mask=live)


def cut_pages(pixels: Tensor, offset: Tensor, shape: Tensor, inverse: Tensor) -> Tensor:
    """Windows (n, SIZE, SIZE) of darkness out of grey pages that lie one after the other in ``pixels``.

    Window n is cut from the page at ``offset[n]`` of ``shape[n]``; ``inverse`` (n, 6) brings its pixels to
    the page's. Beyond the page is white.
    """
    return (launch_cut if pixels.is_cuda else plain_cut)(pixels, offset, shape, inverse)


def launch_cut(pixels: Tensor, offset: Tensor, shape: Tensor, inverse: Tensor) -> Tensor:
    out = torch.empty(len(offset), SIZE, SIZE, device=pixels.device)
    block = 1024
    _page_kernel[(len(offset), SIZE * SIZE // block)](
        out, pixels, offset.contiguous(), shape.contiguous(), inverse.contiguous(), SIZE, BLOCK=block
    )
    return out


def plain_cut(pixels: Tensor, offset: Tensor, shape: Tensor, inverse: Tensor) -> Tensor:
    axis = torch.arange(SIZE, device=pixels.device) + 0.5
    x, y = axis[None, None, :], axis[None, :, None]
    a, b, c, d, e, f = (column[:, None, None] for column in inverse.unbind(1))
    u, v = a * x + b * y + c - 0.5, d * x + e * y + f - 0.5
    height, width = shape[:, 0, None, None], shape[:, 1, None, None]
    left, top = u.floor(), v.floor()
    out = torch.zeros_like(u)
    for dx in (0, 1):
        for dy in (0, 1):
            cx, cy = left + dx, top + dy
            share = (1 - (u - cx).abs()) * (1 - (v - cy).abs())
            inside = (cx >= 0) & (cx < width) & (cy >= 0) & (cy < height)
            address = offset[:, None, None] + cy.long().clamp(min=0) * width + cx.long()
            value = pixels[torch.where(inside, address, 0)]
            out += share * torch.where(inside, 1 - value.float() / 255, 0.0)
    return out


def draw_glyphs(cover: Tensor, glyphs: Glyphs, ink: Tensor) -> None:
    """Raise ``cover`` (windows, SIZE, SIZE) to each glyph's coverage, in place."""
    if len(glyphs.window):
        (launch_glyphs if cover.is_cuda else loop_glyphs)(cover, glyphs, ink)


def launch_glyphs(cover: Tensor, glyphs: Glyphs, ink: Tensor) -> None:
    _glyph_kernel[(len(glyphs.window),)](
        cover, ink, glyphs.window, glyphs.offset, glyphs.size.contiguous(), glyphs.inverse.contiguous(),
        glyphs.bounds.contiguous(), SIZE, BLOCK=256, num_warps=2,
    )  # fmt: skip


def loop_glyphs(cover: Tensor, glyphs: Glyphs, ink: Tensor) -> None:
    for n in range(len(glyphs.window)):
        x0, y0, x1, y1 = glyphs.bounds[n].tolist()
        height, width = glyphs.size[n].tolist()
        start = int(glyphs.offset[n])
        bitmap = ink[start : start + height * width].view(height, width).float() / 255
        ys, xs = torch.meshgrid(torch.arange(y0, y1) + 0.5, torch.arange(x0, x1) + 0.5, indexing="ij")
        a, b, c, d, e, f = glyphs.inverse[n].tolist()
        u, v = (a * xs + b * ys + c) / width * 2 - 1, (d * xs + e * ys + f) / height * 2 - 1
        grid = torch.stack([u, v], -1)[None].float()
        value = functional.grid_sample(bitmap[None, None], grid, align_corners=False)[0, 0]
        area = cover[int(glyphs.window[n]), y0:y1, x0:x1]
        area.copy_(torch.maximum(area, value))


@dataclass(frozen=True)
class Boxes:
    """Boxes that show, in the order of painting; ``inverse`` brings a picture's pixel back to the scene."""

    plane: Tensor
    window: Tensor
    tone: Tensor
    inverse: Tensor  # (n, 6)
    extent: Tensor  # (n, 4) left, top, right, bottom in scene px
    bounds: Tensor  # (n, 4) x0, y0, x1, y1 in picture px


def place_boxes(boxes: Tensor, window: Tensor, forward: Tensor) -> Boxes:
    affine = forward[window]
    x, y = boxes[:, [0, 2, 0, 2]], boxes[:, [1, 1, 3, 3]]
    px = affine[:, 0, 0:1] * x + affine[:, 0, 1:2] * y + affine[:, 0, 2:3]
    py = affine[:, 1, 0:1] * x + affine[:, 1, 1:2] * y + affine[:, 1, 2:3]
    low = (torch.stack([px.amin(1), py.amin(1)], 1).floor() - 1).clamp(0, SIZE)
    high = (torch.stack([px.amax(1), py.amax(1)], 1).ceil() + 1).clamp(0, SIZE)
    shown = ((high - low) > 0).all(1)
    back = torch.linalg.inv(affine[:, :, :2])
    inverse = torch.cat([back, -(back @ affine[:, :, 2:3])], 2).reshape(-1, 6)
    bounds = torch.cat([low, high], 1).int()
    columns = (boxes[:, 5].int(), window, boxes[:, 4], inverse, boxes[:, :4], bounds)
    return Boxes(*(column[shown].contiguous() for column in columns))


def draw_boxes(planes: Tensor, boxes: Tensor, window: Tensor, forward: Tensor) -> None:
    """Paint ``boxes`` (n, len(BOX)) on ``planes`` (3, windows, SIZE, SIZE), in place, one over the other."""
    placed = place_boxes(boxes, window, forward)
    if len(placed.tone):
        (launch_boxes if planes.is_cuda else loop_boxes)(planes, placed)


def launch_boxes(planes: Tensor, boxes: Boxes) -> None:
    owner = torch.zeros(2, *planes.shape[1:], dtype=torch.int32, device=planes.device)
    _box_kernel[(len(boxes.tone),)](
        planes[int(COVER)], owner, boxes.plane, boxes.window, boxes.tone, boxes.inverse, boxes.extent,
        boxes.bounds, planes.shape[1], SIZE, BLOCK=512, num_warps=4,
    )  # fmt: skip
    planes[:2] = torch.where(owner > 0, boxes.tone[(owner - 1).clamp(min=0)], planes[:2])


def loop_boxes(planes: Tensor, boxes: Boxes) -> None:
    for n in range(len(boxes.tone)):
        x0, y0, x1, y1 = boxes.bounds[n].tolist()
        ys, xs = torch.meshgrid(torch.arange(y0, y1) + 0.5, torch.arange(x0, x1) + 0.5, indexing="ij")
        a, b, c, d, e, f = boxes.inverse[n].tolist()
        left, top, right, bottom = boxes.extent[n].tolist()
        x, y = a * xs + b * ys + c, d * xs + e * ys + f
        share_x = torch.minimum(x - left + 0.5, right - x + 0.5).clamp(0, min(1.0, right - left))
        share = share_x * torch.minimum(y - top + 0.5, bottom - y + 0.5).clamp(0, min(1.0, bottom - top))
        area = planes[int(boxes.plane[n]), int(boxes.window[n]), y0:y1, x0:x1]
        if int(boxes.plane[n]) == int(COVER):
            area.copy_(torch.maximum(area, share * boxes.tone[n]))
        else:
            area.copy_(torch.where(share >= 0.5, boxes.tone[n], area))


def compose(planes: Tensor) -> Tensor:
    """Paper, ink and cover to darkness: white 0, black 1."""
    paper, ink, cover = planes[int(PAPER)], planes[int(INK)], planes[int(COVER)]
    return paper + (ink - paper) * cover
