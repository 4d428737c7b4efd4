"""The page of an application shows what the settings of a product ask for."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from oauth_bridge.models import Application
from tests.factories import ApplicationFactory
from tests.pages import admin_browser

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("is_public", [False, True])
def test_the_application_shows_what_a_product_asks_for(settings: Any, is_public: bool) -> None:
    settings.BASE_URL = "https://api.example"
    kind = {"client_type": Application.CLIENT_PUBLIC} if is_public else {}
    application = ApplicationFactory(id_token_alg="ES256", **kind)
    content = admin_browser().get(reverse("admin:application", args=[application.row.pk])).content.decode()
    filled = {
        "client-id": application.client_id,
        "setting-1-1": "https://api.example",
        "setting-1-2": "https://api.example/.well-known/openid-configuration",
        "setting-1-3": "openid profile email",
        "setting-2-1": f"{settings.AUTH_URL}/oauth/authorize",
        "setting-2-2": "https://api.example/oauth/token",
        "setting-2-3": "https://api.example/oauth/userinfo",
        "setting-2-4": "https://api.example/oauth/jwks",
        "setting-2-5": "ES256",
    }
    for name, value in filled.items():
        assert f'<code id="{name}">{value}</code> <button' in content
        assert f'data-copy="{name}"' in content
    assert ("None: it uses PKCE" in content) is is_public
