"""From Markdown to messages that Telegram takes."""
