"""The pages of a person's own data: profile, security, export, deletion."""
