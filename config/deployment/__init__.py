"""The checks of `manage.py check-deployment`, one module for each part, and the answer of the running service."""
