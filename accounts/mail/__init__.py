"""The texts of e-mails, and the outbox that sends the e-mails."""
