"""From Telegram to the ledger: updates fetched or brought, accepted durably, and worked on in order."""
