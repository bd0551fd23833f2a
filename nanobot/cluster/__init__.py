"""Many processes that answer together: who takes what, who lives, who polls. Loaded only where it is configured."""
