"""vsplade."""
