"""The command of django-oauth-toolkit is refused."""

from config.management import refused

Command = refused("Use manage.py application delete: no application registers itself here.")
