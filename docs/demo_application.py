"""A web application that people sign in to through the service: the reference integration, on Flask and Authlib.

    CLIENT_ID=… CLIENT_SECRET=… python docs/demo_application.py

Register http://127.0.0.1:8001/callback as its callback address. `manage.py quickstart` does all of this.
"""

import logging
import os

from authlib.integrations.flask_client import OAuth, OAuthError
from flask import Flask, redirect, render_template_string, session, url_for

BASE_URL = os.environ.get("BASE_URL", "http://localhost:8000")  # what this program calls
AUTH_URL = os.environ.get("AUTH_URL", BASE_URL)  # what the person's browser opens
PORT = int(os.environ.get("PORT", "8001"))

app = Flask(__name__)
# Lax, not Strict: the browser returns from another site and must send this cookie, which holds the state.
app.config.update(SECRET_KEY=os.urandom(32), SESSION_COOKIE_NAME="demo", SESSION_COOKIE_SAMESITE="Lax")
service = OAuth(app).register(
    "service",
    client_id=os.environ["CLIENT_ID"],
    client_secret=os.environ["CLIENT_SECRET"],
    authorize_url=f"{AUTH_URL}/oauth/authorize",
    access_token_url=f"{BASE_URL}/oauth/token",
    client_kwargs={"token_endpoint_auth_method": "client_secret_post", "code_challenge_method": "S256"},
)
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Demo application</title>
<meta name="viewport" content="width=device-width"><style>
  :root { color-scheme: light dark } body { font: 1.1rem/1.5 sans-serif; max-width: 32rem; margin: auto; padding: 1rem }
  img { float: right; border-radius: 50% } dt { font-weight: bold } dd { margin: 0 0 .5rem; overflow-wrap: anywhere }
</style><h1>Demo application</h1>
{% if problem %}<p role="alert">{{ problem }}</p>{% endif %}
{% if person %}
  <img src="{{ person.avatar }}" alt="" width="96" height="96"><p>Hello, {{ person.nickname }}.</p>
  <dl>{% for name, value in person.items() %}<dt>{{ name }}</dt><dd>{{ value }}</dd>{% endfor %}</dl>
  <form method="post" action="{{ url_for('sign_out') }}"><button>Sign out here</button></form>
{% else %}<p><a href="{{ url_for('sign_in') }}">Sign in</a></p>{% endif %}"""


@app.get("/")
def home():
    return render_template_string(PAGE, person=session.get("person"), problem=session.pop("problem", ""))


@app.get("/sign-in")
def sign_in():
    """Redirect the browser to the service. Authlib keeps the state and the PKCE verifier in the session."""
    return service.authorize_redirect(url_for("callback", _external=True))


@app.get("/callback")
def callback():
    """Compare the state and redeem the code, both by Authlib; then read the profile."""
    try:
        token = service.authorize_access_token()
        answer = service.get(f"{BASE_URL}/oauth/userinfo", token=token)
        answer.raise_for_status()
        session["person"] = answer.json()
    except OAuthError as refused:  # access_denied when the person refused
        session["problem"] = refused.description or refused.error
    return redirect(url_for("home"))


@app.post("/sign-out")
def sign_out():
    session.clear()
    return redirect(url_for("home"))


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # its access log would hold the code
    app.run("127.0.0.1", PORT)
