"""The paper's model: ModernVBERT with a sparse head. ``encoder`` is the way in; torch loads only for
pages.
"""
