"""`manage.py signing-key`: list, rotate and revoke the keys that sign ID tokens."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from accounts import audit_trail
from oauth_bridge.models import SigningKey
from oauth_bridge.openid import signing_keys


class Command(BaseCommand):
    help = "Manage the keys that sign ID tokens. The service makes the first ones itself."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="all keys, the newest first")
        rotate = actions.add_parser("rotate", help="make a new key; it signs after ten minutes, the old one until then")
        rotate.add_argument("--algorithm", choices=signing_keys.ALGORITHMS, help="all, unless given")
        revoke = actions.add_parser("revoke", help="end a key at once, after a leak; its ID tokens become invalid")
        revoke.add_argument("kid")
        for parser_of_action in actions.choices.values():
            parser_of_action.add_argument("--json", action="store_true", dest="as_json", help="print JSON")

    def handle(self, *args: Any, action: str, as_json: bool, **options: Any) -> None:
        with audit_trail.by_command():
            rows = self._rows(action, options)
        described = [_described(row) for row in rows]
        if as_json:
            self.stdout.write(json.dumps(described))
            return
        lines = ["  ".join(str(value) for value in row.values() if value is not None) for row in described]
        self.stdout.write("\n".join(lines) or "There is no key yet. The first use makes one.")

    def _rows(self, action: str, options: dict[str, Any]) -> list[SigningKey]:
        if action == "rotate":
            chosen = options["algorithm"]
            return [signing_keys.rotate(name) for name in signing_keys.ALGORITHMS if chosen in (None, name)]
        if action == "revoke":
            try:
                return [signing_keys.revoke(options["kid"])]
            except SigningKey.DoesNotExist:
                raise CommandError(f"There is no key {options['kid']}. See `signing-key list`.") from None
        return list(SigningKey.objects.all())


def _described(row: SigningKey) -> dict[str, str | None]:
    now = timezone.now()
    state = "signs" if row.signs_until is None or row.signs_until > now else "verifies"
    if row.revoked_at or row.signs_from > now:
        state = "revoked" if row.revoked_at else "published"
    times = {"signs_from": row.signs_from, "signs_until": row.signs_until, "revoked_at": row.revoked_at}
    shown = {name: time.isoformat(timespec="seconds") if time else None for name, time in times.items()}
    return {"kid": row.kid, "algorithm": row.algorithm, "state": state, **shown}
