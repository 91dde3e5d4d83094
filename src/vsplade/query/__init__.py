"""I have words, give me weights and pages: filters, engines, two-stage search."""
