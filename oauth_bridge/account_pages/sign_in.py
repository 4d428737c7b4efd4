"""Begin a new attempt when somebody opens the sign-in page from an old link, such as a bookmark. D8, D24."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase

from accounts import return_path
from accounts.sign_in import views
from oauth_bridge.consent.pending_request import PendingRequest


class SignInView(views.SignInView):
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Redirect an old link to authorize, which begins a new attempt and redirects back to this page."""
        if request.method == "GET":
            onward = return_path.requested(request)
            pending = PendingRequest.of_path(onward)
            if pending and pending.is_old:
                return HttpResponseRedirect(onward)
        return cast(HttpResponse, super().dispatch(request, *args, **kwargs))
