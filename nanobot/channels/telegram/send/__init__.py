"""What must arrive: the outbox, the calls to the Bot API, and the pace of every chat."""
