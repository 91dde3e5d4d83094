"""I have an index; how do people and programs reach it over a network? REST, the search page, jobs."""
