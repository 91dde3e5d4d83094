"""I have words, give me pages: parse, filter, search, join, explain and show."""
