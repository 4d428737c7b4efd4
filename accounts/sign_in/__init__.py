"""Sign-in, sign-up, sign-out, confirmation of addresses, new passwords and proofs of identity, with allauth."""
