"""Use allauth's `mfa` for second factors and passkeys."""
