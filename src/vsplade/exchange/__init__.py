"""Vectors out of an index and back, in the formats of other tools."""
