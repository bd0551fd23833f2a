"""What models cost, and how much of it is allowed."""
