"""`manage.py createapplication` of the toolkit, which makes an application without a secret."""

from oauth_bridge.management.replaced import ReplacedCommand


class Command(ReplacedCommand):
    help = instead = "Use manage.py application create NAME --redirect-uri URI: it prints the client_id and the secret."
