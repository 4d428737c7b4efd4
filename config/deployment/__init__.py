"""The checks of `manage.py check-deployment`, and the view by which the running service answers them."""
