"""Second factors and passkeys. Uses allauth's mfa."""
