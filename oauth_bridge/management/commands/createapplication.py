"""`manage.py createapplication` of the toolkit creates no client secret, so it is replaced."""

from oauth_bridge.management.toolkit_commands import ReplacedCommand


class Command(ReplacedCommand):
    help = instead = "Use manage.py application create NAME --redirect-uri URI: it prints the client_id and the secret."
