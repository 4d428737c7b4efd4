"""The service's settings with the cheapest password hashes: those of the tests and of the servers that they start.

Programs that tests start otherwise have config.settings.
"""

from config.settings import *  # noqa: F403

PASSWORD_HASHERS = ["tests.password_hashers.QuickPasswordHasher"]
