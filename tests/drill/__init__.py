"""Failures of whole machines of docs/high-availability.md, under load: `make drill`.

The modules that import the service's models need a configured Django. The drill itself uses no database.
"""

import os

import django

from tests.server import OURS

for name in [name for name in os.environ if name in OURS or name.startswith("RATE_")]:
    del os.environ[name]
os.environ |= {"DATABASE_URL": "sqlite:///:memory:", "DJANGO_SETTINGS_MODULE": "config.settings"}
django.setup()
