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
NAME = os.environ.get("SERVICE_NAME", "Delegated Sign-In")
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
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Demo application</title><link rel="icon" href="data:,"><style>
  :root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
  body { display: grid; gap: 1rem; max-width: 27rem; margin: 2rem auto; padding: 0 1rem }
  main { display: grid; gap: 1rem; padding: 1.5rem; border: 1px solid; border-radius: 1rem }
  h1, h2, p, dl, dd, ol { margin: 0 } h1 { font-size: 1.5rem } h2, p, li, summary, footer { font-size: .875rem }
  dl { display: grid; grid-template-columns: auto 1fr; gap: .5rem 1rem } pre { white-space: pre-wrap }
  [role=alert] { padding-left: 1rem; border-left: 4px solid #c33 } img { border-radius: 50% }
  .button { display: block; width: 100%; padding: .625rem; border: 0; border-radius: .5rem; background: #3b3da8;
    color: #fff; font: inherit; text-align: center; text-decoration: none }
</style>
<header>Demo application</header>
<main>
  <h1>{% if person %}Hello, {{ person.nickname }}{% else %}Sign in, and watch what happens{% endif %}</h1>
  {% if problem == "access_denied" %}<p role="alert"><strong>You refused, so nothing was shared.</strong>
    The callback carried <code>error=access_denied</code>.</p>
  {% elif problem %}<p role="alert"><strong>The sign-in failed.</strong> {{ problem }}</p>{% endif %}
  {% if person %}<h2>This application knows</h2>
  <dl><dt>avatar<dd><img src="{{ person.avatar }}" alt="" width="64" height="64">
    {% for name in ("nickname", "email", "sub") %}<dt>{{ name }}<dd>{{ person[name] }}{% endfor %}</dl>
  {% else %}<p>This application knows nothing yet.</p>
  <a class="button" href="{{ url_for('sign_in') }}">Sign in with {{ name }}</a>{% endif %}
  <ol aria-label="The steps of a sign-in">
    <li>The browser goes to <code>/oauth/authorize</code>
    <li>You sign in and allow it
    <li>It returns to <code>/callback</code> with a code
    <li>The code is redeemed at <code>/oauth/token</code>
    <li>The profile is read at <code>/oauth/userinfo</code></ol>
  {% if person %}
  <form method="post" action="{{ url_for('sign_out') }}"><button class="button">Sign out here</button></form>
  <details><summary>The answer as JSON</summary><pre>{{ person | tojson(indent=2) }}</pre></details>{% endif %}
</main>
<footer>Not the service: an application that uses it.
  <a href="{{ docs }}">Documentation</a></footer>
"""


@app.get("/")
def home():
    shown = {"person": session.get("person"), "problem": session.pop("problem", "")}
    return render_template_string(PAGE, name=NAME, docs=f"{AUTH_URL}/docs", **shown)


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
        session.pop("person", None)  # of an earlier sign-in
        session["problem"] = refused.error if refused.error == "access_denied" else refused.description or refused.error
    return redirect(url_for("home"))


@app.post("/sign-out")
def sign_out():
    session.clear()
    return redirect(url_for("home"))


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # its access log would hold the code
    app.run("127.0.0.1", PORT)
