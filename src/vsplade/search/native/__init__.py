"""The compiled engine: numba, without the GIL."""
