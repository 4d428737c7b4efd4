"""How passwords are hashed, and which ones are refused."""
