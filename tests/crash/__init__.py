"""What is promised when nanobot dies, judged from outside of it."""
