"""Replace the toolkit's command `manage.py cleartokens`, which needs the toolkit's own tables."""

from oauth_bridge.management.toolkit_commands import ReplacedCommand


class Command(ReplacedCommand):
    help = instead = "Use manage.py purge: it deletes all expired rows."
