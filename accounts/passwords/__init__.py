"""Hash passwords, and refuse weak passwords."""
