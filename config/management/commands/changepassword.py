"""The command of Django is refused."""

from config.management import refused

Command = refused("Use manage.py account set-password EMAIL --password-stdin: it ends sessions, codes and tokens too.")
