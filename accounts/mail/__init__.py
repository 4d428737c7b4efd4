"""Compose e-mails, store them in the outbox and send them by SMTP."""
