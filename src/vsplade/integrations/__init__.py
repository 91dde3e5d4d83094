"""I use another framework; how do its retrievers find my pages? One module a framework, each an extra."""
