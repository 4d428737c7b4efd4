"""The applications that an administrator sees in Django admin, and the permissions for each application."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest

from accounts.admin_site import ModelAdmin
from oauth_bridge.applications import rights
from oauth_bridge.models import Application


class ApplicationPermissions(ModelAdmin):
    """All permissions are from `rights`. The response for an invisible application is the same as for a missing one."""

    def get_queryset(self, request: HttpRequest) -> QuerySet[Application]:
        return rights.applications(request, rights.VIEW, rights.CHANGE)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Application:
        """Raises PermissionDenied: no application is visible. Raises Http404: no visible application has this id."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        found: Application | None = super().get_object(request, object_id, from_field)
        if found is None:
            raise Http404
        return found

    def has_view_permission(self, request: HttpRequest, obj: Application | None = None) -> bool:
        return rights.may(request, rights.VIEW, obj) or rights.may(request, rights.CHANGE, obj)

    def has_change_permission(self, request: HttpRequest, obj: Application | None = None) -> bool:
        return rights.may(request, rights.CHANGE, obj)

    def has_switch_permission(self, request: HttpRequest) -> bool:
        return rights.may(request, rights.SWITCH)

    def has_trust_permission(self, request: HttpRequest) -> bool:
        return rights.may(request, rights.TRUST)

    def may_choose_groups(self, request: HttpRequest, obj: Application | None) -> bool:
        """Return whether the administrator may choose the application's groups. Ownership is not enough."""
        return request.user.has_perm(rights.CHANGE if obj else rights.ADD)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Remove the action that deletes several applications. A deletion needs the typed name of the application."""
        return {name: action for name, action in super().get_actions(request).items() if name != "delete_selected"}
