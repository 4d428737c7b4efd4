"""The page of the browsers that are signed in to the account."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.generic import TemplateView

from accounts import user_agents
from accounts.models import Session, User
from accounts.pages import AccountPageMixin
from accounts.sessions import digest

_LISTED = 100
_HAND_HELD = ("iPhone", "iPad", "Android")


class ListedBrowser(NamedTuple):
    """A browser, for the template."""

    mark: str
    name: str
    is_this: bool
    is_hand_held: bool
    since: datetime
    last_used: datetime


@method_decorator([login_required, never_cache], name="dispatch")
class BrowsersView(AccountPageMixin, TemplateView):
    template_name = "accounts/browsers.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        key = digest(self.request.session.session_key or "")
        found = [_described(row, row.session_key == key) for row in self._sessions()[:_LISTED]]
        return super().get_context_data(**kwargs) | {
            "browsers": sorted(found, key=lambda each: (each.is_this, each.last_used), reverse=True),
        }

    def post(self, request: HttpRequest) -> HttpResponse:
        """End one session of the person, or all, never that of this browser, for which there is "Sign out"."""
        others = self._sessions().exclude(session_key=digest(request.session.session_key or ""))
        if "others" in request.POST:
            others.delete()
            messages.success(request, _("All other browsers are signed out."))
        else:
            wanted = request.POST.get("browser", "")
            keys = [row.session_key for row in others if constant_time_compare(_mark(row), wanted)]
            if others.filter(session_key__in=keys).delete()[0]:
                messages.success(request, _("That browser is signed out."))
        return redirect("browsers")

    def _sessions(self) -> QuerySet[Session]:
        person = cast(User, self.request.user)
        rows = Session.objects.filter(user_id=person.pk, expire_date__gt=timezone.now())
        return rows.defer("session_data").order_by("-created_at")


def _mark(row: Session) -> str:
    """Stands for the session in forms: not the digest, which the database alone knows."""
    return salted_hmac("accounts.browsers", row.session_key, algorithm="sha256").hexdigest()[:32]


def _described(row: Session, is_this: bool) -> ListedBrowser:
    name = user_agents.shown(row.browser) if row.browser.strip("/") else _("Unknown browser")
    is_hand_held = row.browser.endswith(_HAND_HELD)
    return ListedBrowser(_mark(row), name, is_this, is_hand_held, row.created_at, row.last_used_at or row.created_at)
