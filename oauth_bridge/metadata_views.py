"""The views of the metadata and the published keys, which scripts of every origin may read (D22).

OpenID Connect Discovery 1.0 §4; RFC 8414 §3; RFC 7517 §5.
"""

from __future__ import annotations

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import cache_control

from oauth_bridge.decorators import View, operation
from oauth_bridge.protocol import metadata
from oauth_bridge.storage import signing_keys

_kept = cache_control(public=True, max_age=int(signing_keys.PUBLISHED_FOR.total_seconds()))


def _published(view: View) -> View:
    return operation(_kept(view), "GET", "HEAD")


@_published
def configuration(request: HttpRequest) -> JsonResponse:
    return JsonResponse(metadata.document())


@_published
def jwks(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"keys": signing_keys.published()})
