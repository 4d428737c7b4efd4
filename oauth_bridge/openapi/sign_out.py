"""The operation `logout` in the OpenAPI document. OpenID Connect RP-Initiated Logout 1.0."""

from __future__ import annotations

from django.conf import settings

from oauth_bridge.openapi import components
from oauth_bridge.openapi.components import Json
from oauth_bridge.openapi.error_responses import LOGOUT, LOGOUT_POSTED

PARAMETERS = {
    "id_token_hint": "An ID token of the person, however old: with it nobody is asked.",
    "client_id": "The application. Left out, it is that of the ID token.",
    "post_logout_redirect_uri": "Where the person continues: one of the application's registered addresses, equal in "
    "every character.",
    "state": "It comes back byte for byte.",
    "ui_locales": "Languages for the pages.",
}


def operations() -> Json:
    return {
        "servers": [{"url": settings.AUTH_URL, "description": "The pages, for browsers"}],
        "get": {
            "operationId": "logout",
            "summary": "Sign the person out: send the browser here.",
            "security": [],
            "parameters": [components.query(name, text, {"type": "string"}) for name, text in PARAMETERS.items()],
            "responses": {
                **components.failures(LOGOUT, at="logout", pages=True),
                "200": components.page("A page that asks the person, or says that nobody is signed in."),
                "302": components.redirect("To your `post_logout_redirect_uri` with `state`."),
                "303": components.redirect("To the page that says that the person is signed out."),
            },
        },
        "post": {
            "operationId": "logoutByPost",
            "summary": "The same, by a form: the browser is redirected to the link. Also what the page posts.",
            "security": [],
            "requestBody": components.form(
                {name: {"type": "string", "description": text} for name, text in PARAMETERS.items()}, required=[]
            ),
            "responses": {
                **components.failures(LOGOUT_POSTED, at="logoutByPost", pages=True),
                "200": components.page("A page that leads on to the application."),
                "303": components.redirect("To the link, to the application, or to a page of the service."),
            },
        },
    }
