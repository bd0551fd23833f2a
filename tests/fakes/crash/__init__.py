"""nanobot as a process that dies where a test says."""
