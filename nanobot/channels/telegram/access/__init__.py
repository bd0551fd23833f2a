"""Who may talk to the bot, judged in one place, and what the others hear."""
