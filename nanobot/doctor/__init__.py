"""Is it well? Checks that look at one thing each and say what was found and what to do."""
