"""Fonts cut down to the characters that pages are set in: a tenth of the bytes, the same pictures."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from vsplade.errors import InputError
from vsplade.train.options import FontsOptions
from vsplade.train.words import CHARSET

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
        worker = subset.Subsetter(settings)
        worker.populate(text=CHARSET)
        worker.subset(font)
        subset.save_font(font, str(target), settings)
    except (TTLibError, subset.Subsetter.SubsettingError, OSError, AssertionError, KeyError, ValueError):
        # fontTools checks broken tables with assertions and look-ups
        target.unlink(missing_ok=True)
        return False
    return True


def gather_fonts(options: FontsOptions) -> dict[str, Any]:
    """Numbered files in ``out``; the atlas later leaves out faces without Latin letters or digits."""
    missing = [source for source in options.sources if not source.is_dir()]
    if missing:
        raise InputError(f"There is no folder {missing[0]}.")
    found = (path for source in options.sources for path in source.rglob("*"))
    paths = sorted(p for p in found if p.suffix.lower() in {".ttf", ".otf"} and p.is_file())
    paths = [path for path in paths if path.stat().st_size <= options.largest]
    if options.most and len(paths) > options.most:
        paths = sorted(random.Random(options.seed).sample(paths, options.most))
    options.out.mkdir(parents=True, exist_ok=True)
    kept = sum(cut_down(path, options.out / f"{n:04d}_{path.name}") for n, path in enumerate(paths))
    if not kept:
        raise InputError("None of the folders holds a usable .ttf or .otf file.")
    return {"out": str(options.out), "fonts": kept, "unusable": len(paths) - kept}
