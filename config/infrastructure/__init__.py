"""Modules that accounts and oauth_bridge share, such as errors and SQL. No module here imports these packages."""
