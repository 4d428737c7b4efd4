"""Sign-in, sign-up, sign-out, confirmed addresses, new passwords, proofs before sensitive changes. Uses allauth."""
