"""What `manage.py check-deployment` looks at, each part in a module, and how the running service answers it."""
