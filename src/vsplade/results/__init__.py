"""I have hits, make them useful: explain them, export what the index holds."""
