"""The page reader that ships: pixels to words and weights."""
