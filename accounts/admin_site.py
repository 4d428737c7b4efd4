"""The administration pages' door: people sign in to them where they sign in to everything."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from accounts import returning


class AdminSite(admin.AdminSite):
    """Has no password form of its own, so no second place to guess at passwords."""

    site_header = site_title = settings.SERVICE_NAME

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """To our sign-in page and back. Raises PermissionDenied: for somebody signed in who is not an administrator."""
        way_back = returning.requested(request) or reverse("admin:index")
        if self.has_permission(request):
            return redirect(way_back)
        if request.user.is_authenticated:
            raise PermissionDenied
        return redirect(returning.sign_in_url(way_back))

    def logout(  # type: ignore[override]
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("account_logout")

    def password_change(  # type: ignore[override]
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """By mail, as everybody: the address is told, and every other browser is signed out."""
        return redirect("account_reset_password")
