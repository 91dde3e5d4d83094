"""Fonts cut down to the characters that pages are set in: a tenth of the bytes, the same pictures."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from string import ascii_letters, digits
from typing import Any

from tqdm import tqdm

from research.command import main
from research.reader.options import FontsOptions
from research.reader.words import CHARSET
from vsplade.errors import InputError

_DROPPED = ["GPOS", "GSUB", "GDEF", "kern", "DSIG", "FFTM", "PfEd", "TeX ", "BDF "]


def cut_down(source: Path, target: Path) -> bool:
    """Write ``source`` with CHARSET's glyphs only; False for a file that is no usable font."""
    from fontTools import subset
    from fontTools.ttLib import TTLibError

    settings = subset.Options()
    settings.hinting, settings.notdef_outline = True, True
    settings.layout_features, settings.name_IDs = [], []
    settings.drop_tables += _DROPPED
    try:
        font = subset.load_font(str(source), settings)
        font.flavor = None  # a web font is unpacked: what draws glyphs may not read it
        worker = subset.Subsetter(settings)
        worker.populate(text=CHARSET)
        worker.subset(font)
        subset.save_font(font, str(target), settings)
    except (TTLibError, subset.Subsetter.SubsettingError, OSError, AssertionError, KeyError, ValueError):
        # fontTools checks broken tables with assertions and look-ups
        target.unlink(missing_ok=True)
        return False
    return True


def likeness(path: Path) -> str | None:
    """The same for faces that look the same; None where Latin letters or digits are missing."""
    from PIL import ImageFont

    try:
        face = ImageFont.truetype(str(path), 60)
        missing = bytes(face.getmask("\U0010ffff"))
        drawn = [bytes(face.getmask(character)) for character in ascii_letters + digits]
    except OSError:
        return None
    if not all(drawn) or missing in drawn or drawn[0] == drawn[1]:
        return None
    return hashlib.blake2b(b"|".join(drawn), digest_size=16).hexdigest()


def gather_fonts(options: FontsOptions) -> dict[str, Any]:
    """Numbered OpenType files in ``out``, every face once: packages share some."""
    missing = [source for source in options.sources if not source.is_dir()]
    if missing:
        raise InputError(f"There is no folder {missing[0]}.")
    found = (path for source in options.sources for path in source.rglob("*"))
    paths = sorted(p for p in found if p.suffix.lower() in {".ttf", ".otf", ".woff"} and p.is_file())
    paths = [path for path in paths if path.stat().st_size <= options.largest]
    if options.most and len(paths) > options.most:
        paths = sorted(random.Random(options.seed).sample(paths, options.most))
    options.out.mkdir(parents=True, exist_ok=True)
    faces: set[str] = set()
    for n, path in enumerate(tqdm(paths, desc="fonts", unit="face", disable=None)):
        target = options.out / f"{n:04d}_{path.stem}.otf"
        face = likeness(target) if cut_down(path, target) else None
        if face is None or face in faces:
            target.unlink(missing_ok=True)
        else:
            faces.add(face)
    if not faces:
        raise InputError("None of the folders holds a usable .ttf, .otf or .woff file.")
    return {"out": str(options.out), "fonts": len(faces), "left_out": len(paths) - len(faces)}


if __name__ == "__main__":
    main(gather_fonts, FontsOptions)
