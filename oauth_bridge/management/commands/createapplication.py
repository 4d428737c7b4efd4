"""Replace the toolkit's command `manage.py createapplication`, which creates no client secret."""

from oauth_bridge.management.toolkit_commands import ReplacedCommand


class Command(ReplacedCommand):
    help = instead = "Use manage.py application create NAME --redirect-uri URI: it prints the client_id and the secret."
