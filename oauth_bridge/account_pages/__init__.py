"""The parts of the account pages that concern applications."""
