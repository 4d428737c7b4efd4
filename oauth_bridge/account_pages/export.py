"""Add the data that this package stores about a person to the person's data export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accounts.profile import own_data
from oauth_bridge.storage.exported_data import stored_about

if TYPE_CHECKING:
    from accounts.models import User


class ExportView(own_data.ExportView):
    def data(self, person: User) -> dict[str, Any]:
        return super().data(person) | stored_about(person, own_data.ENTRIES)
