"""E-mails: their texts, and the outbox that sends them."""
