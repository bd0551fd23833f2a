"""The tools for commands: what a call means, one command as processes, and what runs in the background."""
