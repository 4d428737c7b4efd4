"""The page "Security": the password and the second factors."""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic import TemplateView

from accounts.account_page import AccountPageMixin
from accounts.factors.authenticators import overview
from accounts.models import User

FEW_RECOVERY_CODES = 3  # the page warns if at most FEW_RECOVERY_CODES codes are left


@method_decorator([login_required, never_cache], name="dispatch")
class SecurityView(AccountPageMixin, TemplateView):
    template_name = "accounts/security.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        person = cast(User, self.request.user)
        return super().get_context_data(**kwargs) | {
            "has_password": person.has_usable_password(),
            "factors": overview(person),
            "few_recovery_codes": FEW_RECOVERY_CODES,
            "changed_at": person.password_changed_at,
        }
