"""The administration pages' door: people sign in to them where they sign in to everything."""

from __future__ import annotations

from functools import wraps
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from accounts import returning

QUERY_MAX_LENGTH = 500


class ModelAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A page of rows that is filtered by what it offers and by nothing else."""

    list_per_page = list_max_show_all = 30  # DATA_UPLOAD_MAX_NUMBER_FIELDS bounds the rows of one action

    # Fields that another function writes, and fields that a form writes without naming them.
    written_apart: ClassVar[frozenset[str]] = frozenset()
    written_along: ClassVar[frozenset[str]] = frozenset()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write only what the form changed: the rest of the row, a password say, may have changed since it was read."""
        if not change:
            super().save_model(request, obj, form, change)
            return
        columns = {field.name for field in obj._meta.concrete_fields} - self.written_apart
        obj.save(update_fields=columns & {*form.changed_data, *self.written_along})

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Any other lookup would read out, letter by letter, what no page shows: a digest, say (D15)."""
        return lookup.removesuffix("__exact") in self.list_filter


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

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Every view behind the door.

        Raises BadRequest: a search or filter is long, which takes seconds, or a filter holds a NUL, which no database
        takes.
        """
        inner = super().admin_view(view, cacheable)

        @wraps(inner)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            for name, values in request.GET.lists():
                for text in (name, *values):
                    if len(text) > QUERY_MAX_LENGTH or ("\x00" in text and name != SEARCH_VAR):
                        raise BadRequest
            return inner(request, *args, **kwargs)

        return checked

    def logout(  # type: ignore[override]
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("account_logout")

    def password_change(  # type: ignore[override]
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """By mail, as everybody: the address is told, and every other browser is signed out."""
        return redirect("account_reset_password")
