"""More pages than one machine should take: encode in shards, on many machines, and plan how many."""
