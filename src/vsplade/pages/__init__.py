"""Files in, pictures of pages out: the only place that decodes, renders and resizes."""

from vsplade.pages.discover import Discovery, FileProblem, discover, usable
from vsplade.pages.limits import Limits
from vsplade.pages.naming import SourceFile, is_pdf, name_files, page_id
from vsplade.pages.page_counts import PageCounter
from vsplade.pages.picture import to_grey_or_rgb
from vsplade.pages.pixels import grey_levels
from vsplade.pages.render import NO_PIXELS, default_workers, render, render_for
from vsplade.pages.render_queue import Rendered, RenderedPage
from vsplade.pages.resize import fit

__all__ = [
    "NO_PIXELS",
    "Discovery",
    "FileProblem",
    "Limits",
    "PageCounter",
    "Rendered",
    "RenderedPage",
    "SourceFile",
    "default_workers",
    "discover",
    "fit",
    "grey_levels",
    "is_pdf",
    "name_files",
    "page_id",
    "render",
    "render_for",
    "to_grey_or_rgb",
    "usable",
]
