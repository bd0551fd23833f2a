"""From an update to what a person said: words, quotes, files, speech."""
