"""What an administrator may do with which applications: with all of them by permission, with their own as an owner.

The one place of this rule: lists, pages, forms, the activity, the search and the overview ask here. An owner needs no
permission. The rights of OF_OWNERS are all that an owner has, for the applications that name them as owner, as long as
they may open the administration.
"""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpRequest

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

OF_OWNERS = frozenset({VIEW, CHANGE, ROTATE, ACTIVITY})
# Whoever names owners gives these away, and sees the names and addresses of administrators.
NAME_OWNERS = OF_OWNERS | {PEOPLE}


def applications(request: HttpRequest, *permissions: str) -> QuerySet[Application]:
    """Those with which the signed-in administrator may do what one of the permissions says."""
    if any(map(request.user.has_perm, permissions)):
        return Application.objects.all()
    if OF_OWNERS.isdisjoint(permissions):
        return Application.objects.none()
    return Application.objects.filter(owners=request.user.pk)


def may(request: HttpRequest, permission: str, application: Application | None = None) -> bool:
    """Whether the signed-in administrator may do it with this application; without one, with any or in general."""
    if request.user.has_perm(permission):
        return True
    found = applications(request, permission)
    return (found.filter(pk=application.pk) if application else found).exists()


def client_ids(request: HttpRequest) -> list[str] | None:
    """Of the applications whose activity may be seen; None: of all, also what belongs to no application."""
    if request.user.has_perm(ACTIVITY):
        return None
    return list(applications(request, ACTIVITY).values_list("client_id", flat=True))


def may_name_owners(request: HttpRequest) -> bool:
    return all(map(request.user.has_perm, NAME_OWNERS))
