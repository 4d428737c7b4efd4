"""The rights of administrators to applications and activity.

A Django permission is for all applications. Owners have the rights in OF_OWNERS for the applications that they own.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from oauth_bridge.models import Application

VIEW = "oauth_bridge.view_application"
ADD = "oauth_bridge.add_application"
CHANGE = "oauth_bridge.change_application"
DELETE = "oauth_bridge.delete_application"
SWITCH = "oauth_bridge.switch_application"
TRUST = "oauth_bridge.trust_application"
ROTATE = "oauth_bridge.rotate_applicationsecret"
ACTIVITY = "oauth_bridge.view_activityrecord"
PEOPLE = "accounts.view_user"
INVITE_PEOPLE = "accounts.add_user"
CHANGE_PEOPLE = "accounts.change_user"
CORRECT_ADDRESSES = "accounts.change_email_address"

OF_OWNERS = frozenset({VIEW, CHANGE, ROTATE, ACTIVITY})
# To appoint owners, an administrator needs the rights that owners get, and the permission to see people.
NAME_OWNERS = OF_OWNERS | {PEOPLE}


def applications(request: HttpRequest, *permissions: str) -> QuerySet[Application]:
    """The applications for which the administrator has at least one of the rights in `permissions`."""
    if any(map(request.user.has_perm, permissions)):
        return Application.objects.all()
    if OF_OWNERS.isdisjoint(permissions):
        return Application.objects.none()
    return Application.objects.filter(owners=request.user.pk)


def may(request: HttpRequest, permission: str, application: Application | None = None) -> bool:
    """Whether the administrator has the right for `application`; if this is None, for at least one application."""
    if request.user.has_perm(permission):
        return True
    found = applications(request, permission)
    return (found.filter(pk=application.pk) if application else found).exists()


def find_application(request: HttpRequest, pk: int, permission: str = VIEW) -> Application:
    """Return the application. The administrator needs the right VIEW and the right `permission` for it.

    Raises Http404: the application does not exist, or one of the rights is missing for it. Raises PermissionDenied: one
    of the rights is missing for all other applications, too.
    """
    if not (may(request, VIEW) and may(request, permission)):
        raise PermissionDenied
    return get_object_or_404(applications(request, VIEW) & applications(request, permission), pk=pk)


def client_ids(request: HttpRequest) -> list[str] | None:
    """The client_ids whose activity may be seen. None: all activity, including records without an application."""
    if request.user.has_perm(ACTIVITY):
        return None
    return list(applications(request, ACTIVITY).values_list("client_id", flat=True))


def hidden_details(request: HttpRequest) -> set[str]:
    """The keys of a record's `detail` that the administrator may not see. All are about a deleted application."""
    has = request.user.has_perm
    if not (has(VIEW) or has(ACTIVITY)):
        return {"deleted_name", "deleted_at", "deleted_by"}
    return set() if has(PEOPLE) else {"deleted_by"}
