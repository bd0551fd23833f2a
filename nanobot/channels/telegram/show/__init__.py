"""What a chat sees of a turn while it runs."""
