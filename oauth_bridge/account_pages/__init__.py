"""What the pages of a person's account show of applications."""
