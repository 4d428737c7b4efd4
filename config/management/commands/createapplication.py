"""The command of django-oauth-toolkit is refused."""

from config.management import refused

Command = refused("Use manage.py application create NAME --redirect-uri URI: it prints client_id and secret.")
