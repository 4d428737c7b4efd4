"""The page on which a person downloads their stored data. `oauth_bridge` adds the data that it stores."""

from __future__ import annotations

import base64
from typing import Any, cast

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic import TemplateView

from accounts.account_page import AccountPageMixin
from accounts.factors import authenticators as factors
from accounts.models import User
from accounts.pictures import current_picture
from accounts.sign_in.reauthentication import fresh_sign_in_required

_COLUMNS = (
    "email",
    "email_verified_at",
    "nickname",
    "language",
    "created_at",
    "last_login",
    "password_changed_at",
    "profile_changed_at",
    "is_staff",
)
# The export contains only the newest ENTRIES entries of each list: an application can cause thousands of codes and
# tokens for a person.
ENTRIES = 100
_SESSION_COLUMNS = ("browser", "created_at", "last_used_at", "expire_date")


@method_decorator([fresh_sign_in_required, never_cache], name="dispatch")
class ExportView(AccountPageMixin, TemplateView):
    """GET describes the content of the file. POST downloads the file."""

    template_name = "accounts/export.html"
    section = "profile"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"entries": ENTRIES}

    def post(self, request: HttpRequest) -> HttpResponse:
        data = self.data(User.objects.get(pk=cast(User, request.user).pk))
        response = JsonResponse(data, json_dumps_params={"indent": 2, "ensure_ascii": False})
        response["Content-Disposition"] = 'attachment; filename="account.json"'
        return response

    def data(self, person: User) -> dict[str, Any]:
        """Return all stored data except credentials. The digests of credentials would help only a thief."""
        picture = current_picture.png(person) if person.avatar else None
        return {
            "sub": person.pk,
            **{name: getattr(person, name) for name in _COLUMNS},
            "groups": sorted(person.groups.values_list("name", flat=True)),
            "picture_png_base64": base64.b64encode(picture).decode() if picture else None,
            "factors": factors.described(person),
            "entries_of_each_list_at_most": ENTRIES,
            "browsers": list(person.sessions.order_by("-created_at").values(*_SESSION_COLUMNS)[:ENTRIES]),
        }
