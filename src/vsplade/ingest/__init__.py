"""The job behind ``vsplade index``: files in, an index that is up to date with them out."""

from vsplade.ingest.job import index_paths
from vsplade.ingest.records import OWN_KEYS
from vsplade.ingest.report import IngestReport
from vsplade.types import Progress

__all__ = ["OWN_KEYS", "IngestReport", "Progress", "index_paths"]
