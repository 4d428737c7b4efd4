"""Use allauth for sign-in, sign-up, sign-out, confirmed addresses, new passwords and proofs of identity."""
