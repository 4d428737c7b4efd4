"""`manage.py cleartokens` of the toolkit, which expects the toolkit's own tables."""

from oauth_bridge.management.replaced import ReplacedCommand


class Command(ReplacedCommand):
    help = instead = "Use manage.py purge: it deletes all that is past use."
