"""nanobot: a personal AI agent that finds pages, reads them and says where it read what."""

__version__ = "0.1.0"
