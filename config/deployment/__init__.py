"""The checks of `manage.py check-deployment`, and the view that answers their question to the service."""
