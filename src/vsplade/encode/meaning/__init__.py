"""What a page is about, beyond its words."""
