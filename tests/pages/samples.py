"""Real files for tests, made from nothing: PDFs by hand (also locked ones), pictures by Pillow."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
_FILE_ID = b"0123456789abcdef"


def pdf_bytes(
    texts: Sequence[str],
    *,
    size: tuple[float, float] = (300, 400),
    rotate: int = 0,
    password: str | None = None,
    broken_pages: Sequence[int] = (),
) -> bytes:
    """A PDF with one page a text (an empty text: an empty page); ``broken_pages`` are no page objects."""
    first_page = 4
    kids = " ".join(f"{first_page + 2 * place} 0 R" for place in range(len(texts)))
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>".encode(),
        3: b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    }
    key = _encryption_key(password) if password is not None else None
    for place, text in enumerate(texts):
        number = first_page + 2 * place
        objects[number] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {size[0]:g} {size[1]:g}] /Rotate {rotate} "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {number + 1} 0 R >>"
        ).encode()
        if place + 1 in broken_pages:
            objects[number] = b"[ 1 2 3 ]"
        stream = f"BT /F1 18 Tf 20 {size[1] - 40:g} Td ({text}) Tj ET".encode() if text else b""
        if key is not None:
            stream = _rc4(
                hashlib.md5(key + struct.pack("<I", number + 1)[:3] + b"\0\0").digest()[:10], stream
            )
        objects[number + 1] = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream)
    trailer = b"/Root 1 0 R"
    if key is not None:
        owner, user = _owner_entry(password or ""), _rc4(key, _PADDING)
        objects[len(objects) + 1] = b"<< /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -4 >>" % (
            owner.hex().encode(),
            user.hex().encode(),
        )
        identity = _FILE_ID.hex().encode()
        trailer += b" /Encrypt %d 0 R /ID [<%s> <%s>]" % (len(objects), identity, identity)
    return assemble(objects, trailer)


def assemble(objects: dict[int, bytes], trailer: bytes) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number in range(1, len(objects) + 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, objects[number])
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer << /Size %d %s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, start)
    return bytes(out)


def _pad(password: str) -> bytes:
    return (password.encode() + _PADDING)[:32]


def _owner_entry(password: str) -> bytes:
    return _rc4(hashlib.md5(_pad(password)).digest()[:5], _pad(password))


def _encryption_key(password: str) -> bytes:
    parts = _pad(password) + _owner_entry(password) + struct.pack("<i", -4) + _FILE_ID
    return hashlib.md5(parts).digest()[:5]


def _rc4(key: bytes, data: bytes) -> bytes:
    box = list(range(256))
    j = 0
    for i in range(256):
        j = (j + box[i] + key[i % len(key)]) % 256
        box[i], box[j] = box[j], box[i]
    i = j = 0
    out = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + box[i]) % 256
        box[i], box[j] = box[j], box[i]
        out.append(byte ^ box[(box[i] + box[j]) % 256])
    return bytes(out)


def write_pdf(path: Path, *texts: str, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pdf_bytes(texts, **options))  # type: ignore[arg-type]
    return path


def drawing(size: tuple[int, int] = (200, 100)) -> Image.Image:
    """White, with the left quarter red: tells turns, flips and colours apart."""
    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).rectangle([0, 0, size[0] // 4 - 1, size[1]], fill=(200, 0, 0))
    return image


def png_header_only(path: Path, width: int, height: int) -> Path:
    """A PNG that announces a size and ends in the middle of its pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000)))
    )
    return path
