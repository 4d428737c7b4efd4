"""`manage.py cleartokens` of the toolkit needs the toolkit's own tables, so it is replaced."""

from oauth_bridge.management.toolkit_commands import ReplacedCommand


class Command(ReplacedCommand):
    help = instead = "Use manage.py purge: it deletes all expired rows."
