"""Replace the toolkit's command `manage.py clearcimdapplications`, which needs the toolkit's own tables."""

from oauth_bridge.management.toolkit_commands import ReplacedCommand


class Command(ReplacedCommand):
    help = instead = "Applications are registered by an administrator only. Use manage.py application delete CLIENT_ID."
