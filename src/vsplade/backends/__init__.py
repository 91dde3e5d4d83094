"""Pages on an outside engine: what a collection there must do, and the engines that can."""
