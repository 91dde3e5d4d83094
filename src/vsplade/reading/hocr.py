"""Readings as hOCR 1.2: HTML that tells where each word stands, as OCR programs write it.

<https://kba.github.io/hocr-spec/1.2/>
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from vsplade.reading.page_reading import PageReading, ReadBlock, ReadLine
from vsplade.types import Box

_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" \
"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
 <head>
  <title></title>
  <meta http-equiv="Content-Type" content="text/html;charset=utf-8"/>
  <meta name="ocr-system" content="vsplade"/>
  <meta name="ocr-capabilities" content="ocr_page ocr_carea ocr_line ocrx_word"/>
 </head>
 <body>
"""


def to_hocr(readings: Iterable[PageReading]) -> Iterator[str]:
    """The document, a part at a time. Boxes are in whole units of the page: points of a PDF, pixels."""
    yield _HEAD
    for number, reading in enumerate(readings, 1):
        yield from _page(reading, number)
    yield " </body>\n</html>\n"


def _page(reading: PageReading, page: int) -> Iterator[str]:
    whole = _box(Box(0, 0, 1, 1), reading)
    name = reading.path.replace("\\", "\\\\").replace('"', '\\"')
    title = _attribute(f'image "{name}"; {whole}; ppageno {page - 1}')
    yield f"  <div class='ocr_page' id='page_{page}' title='{title}'>\n"
    for number, block in enumerate(reading.blocks, 1):
        yield from _block(block, reading, f"{page}_{number}")
    yield "  </div>\n"


def _block(block: ReadBlock, reading: PageReading, name: str) -> Iterator[str]:
    yield f"   <div class='ocr_carea' id='block_{name}' title='{_box(block.box, reading)}'>\n"
    for number, line in enumerate(block.lines, 1):
        yield _line(line, reading, f"{name}_{number}")
    yield "   </div>\n"


def _line(line: ReadLine, reading: PageReading, name: str) -> str:
    angle = 0 if not reading.quarters else 360 - 90 * reading.quarters
    turned = f"; textangle {angle}" if angle else ""
    words = " ".join(
        f"<span class='ocrx_word' id='word_{name}_{number}' "
        f"title='{_box(word.box, reading)}; x_wconf {round(100 * word.certainty)}'>{_attribute(word.text)}"
        "</span>"
        for number, word in enumerate(line.words, 1)
    )
    title = _box(line.box, reading) + turned
    return f"    <span class='ocr_line' id='line_{name}' title='{title}'>{words}</span>\n"


def _box(box: Box, reading: PageReading) -> str:
    across, down = round(reading.width), round(reading.height)
    sides = (box.left * across, box.top * down, box.right * across, box.bottom * down)
    return "bbox " + " ".join(str(round(side)) for side in sides)


def _attribute(text: str) -> str:
    return escape(_NOT_IN_XML.sub("\ufffd", text), quote=True)
