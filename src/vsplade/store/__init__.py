"""I have vectors, keep them: add, replace, delete, commit. The format: docs/index-format.md."""
