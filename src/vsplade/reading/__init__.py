"""Pages as text: what the reader reads, in reading order, with places: text, JSON, hOCR, searchable PDF."""
