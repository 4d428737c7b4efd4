"""The page that lists the browsers that are signed in to the account."""

from __future__ import annotations

import hashlib
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Case, QuerySet, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.generic import TemplateView

from accounts.account_page import AccountPageMixin
from accounts.models import Session, User
from accounts.sessions import user_agents
from accounts.sessions.store import digest

_LISTED = 10
_HAND_HELD = ("iPhone", "iPad", "Android")


@method_decorator([login_required, never_cache], name="dispatch")
class BrowsersView(AccountPageMixin, TemplateView):
    template_name = "accounts/browsers.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        key = digest(self.request.session.session_key)
        order = (Case(When(session_key=key, then=0), default=1), Coalesce("last_used_at", "created_at").desc())
        page = Paginator(self._sessions().order_by(*order, "session_key"), _LISTED).get_page(
            self.request.GET.get("page")
        )
        browsers = [_described(row, is_this=row.session_key == key) for row in page]
        return super().get_context_data(**kwargs) | {"browsers": browsers, "page": page}

    def post(self, request: HttpRequest) -> HttpResponse:
        """End one or all of the person's other sessions. The button "Sign out" ends the session of this browser."""
        others = self._sessions().exclude(session_key=digest(request.session.session_key))
        if "others" in request.POST:
            others.delete()
            messages.success(request, _("All other browsers are signed out."))
        else:
            wanted = request.POST.get("browser", "")
            keys = [row.session_key for row in others if constant_time_compare(_mark(row), wanted)]
            if others.filter(session_key__in=keys).delete()[0]:
                messages.success(request, _("That browser is signed out."))
        return redirect(request.get_full_path())  # the URL has the page number of the list

    def _sessions(self) -> QuerySet[Session]:
        person = cast(User, self.request.user)
        rows = Session.objects.filter(user_id=person.pk, expire_date__gt=timezone.now())
        return rows.defer("session_data")


def _mark(row: Session) -> str:
    """Return an identifier of the session for forms. A form must not show the digest that the database stores."""
    return hashlib.sha256(f"accounts.browsers {row.session_key}".encode()).hexdigest()[:32]


def _described(row: Session, *, is_this: bool) -> dict[str, Any]:
    return {
        "mark": _mark(row),
        "name": user_agents.shown(row.browser) if row.browser.strip("/") else _("Unknown browser"),
        "is_this": is_this,
        "is_hand_held": row.browser.endswith(_HAND_HELD),
        "since": row.created_at,
        "last_used": row.last_used_at or row.created_at,
    }
