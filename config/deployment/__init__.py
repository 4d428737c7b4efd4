"""The checks of `manage.py check-deployment`, and the view with which the service answers their questions."""
