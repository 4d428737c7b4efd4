"""The checks of `manage.py check-deployment`, one module for each part. `questions` also has the service's view."""
