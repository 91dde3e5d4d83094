"""Vectors out of an index and back, in the formats of other tools."""

FORMATS = ("seismic", "anserini", "ciff")
"""Files of vectors that can be written."""
IMPORTS = ("seismic", "anserini")
"""Files of vectors that can be read. Here, so that ``--help`` imports nothing heavy."""
ENGINE_FORMATS = ("opensearch", "opensearch-sparse", "vespa")
"""Out only, in a folder with a schema and the pages."""
