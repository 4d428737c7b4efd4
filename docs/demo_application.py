"""A web application that people sign in to through the service: the reference integration, on Flask and Authlib.

    CLIENT_ID=… CLIENT_SECRET=… python docs/demo_application.py

Register http://127.0.0.1:8001/callback as its callback address. `manage.py quickstart` does all of this.
"""

import logging
import os

from authlib.integrations.flask_client import OAuth, OAuthError
from flask import Flask, redirect, render_template_string, send_file, session, url_for

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
  :root { color-scheme: light dark; --page: #f2f2f7; --card: #fff; --ink: #181a24; --quiet: #585b6b; --line: #dddee9;
    --soft: #f3f3fc; --edge: #d3d4ee; --fill: #3b3da8; --accent: #3b3da8 }
  @media (prefers-color-scheme: dark) { :root { --page: #101119; --card: #191b26; --ink: #e9eaf2; --quiet: #a8abbd;
    --line: #323546; --soft: #1d2033; --edge: #3b3f66; --fill: #5254c4; --accent: #b3b5f7 } }
  * { box-sizing: border-box; margin: 0 }
  body { display: grid; align-content: center; justify-content: center; grid-template-columns: minmax(0, 27rem);
    gap: 1rem; min-height: 100vh; padding: 1rem; background: var(--page); color: var(--ink); overflow-wrap: anywhere;
    font: 1rem/1.5 -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", Arial, sans-serif }
  header, footer { display: flex; gap: .5rem 1rem; justify-content: space-between; color: var(--quiet);
    font-size: .8125rem }
  header { justify-content: start; align-items: center; color: var(--ink); font-weight: 600 }
  header b { display: grid; width: 2.25rem; height: 2.25rem; place-items: center; border-radius: .5rem;
    background: var(--fill); color: #fff; font-size: 1.25rem }
  main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1rem; padding: 1.5rem;
    border: 1px solid var(--line); border-radius: 1rem; background: var(--card);
    box-shadow: 0 16px 40px -20px rgb(24 26 36 / 25%) }
  h1 { font-size: 1.5rem; line-height: 1.25; text-wrap: balance }
  h2, p, li, summary { font-size: .875rem } a { color: var(--accent) }
  code, dt, pre { font: .8125rem/1.4 ui-monospace, Menlo, Consolas, "Liberation Mono", monospace }
  section, [role=alert] { padding: .75rem 1rem; border: 1px solid var(--edge); border-radius: .75rem;
    background: var(--soft) } [role=alert] { border-color: var(--accent) }
  dl { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: .5rem 1rem; margin-top: .5rem }
  dt { color: var(--quiet) }
  dd:empty { width: 9rem; max-width: 100%; height: 1.25rem; border-bottom: 1px dashed var(--quiet) }
  .avatar { grid-row: 1 / span 2; align-self: center; width: 4rem; height: 4rem }
  .avatar dt { position: absolute; clip-path: inset(50%) }
  .avatar dd { display: block; width: 4rem; height: 4rem; border: 0 } .nickname dd { font-weight: 600 }
  .avatar dd:empty { border: 2px dashed var(--quiet); border-radius: 50% }
  img { border-radius: 50% } .sub { grid-column: 1 / -1; padding-top: .5rem; border-top: 1px dashed var(--edge) }
  .sub dd { font: .8125rem/1.4 ui-monospace, Menlo, Consolas, "Liberation Mono", monospace }
  .button { display: block; width: 100%; padding: .625rem 1rem; border: 1px solid var(--fill); border-radius: .5rem;
    background: var(--fill); color: #fff; font: inherit; font-weight: 600; text-align: center; text-decoration: none }
  button.button { border-color: var(--quiet); background: none; color: var(--ink) }
  ol { display: grid; gap: .5rem; padding: 0; list-style: none; counter-reset: step }
  li { display: flex; gap: .75rem; align-items: center; counter-increment: step }
  li::before { flex: none; width: 1.5rem; line-height: 1.375rem; border: 1px solid var(--quiet); border-radius: 50%;
    text-align: center; content: counter(step) }
  .done li::before { border-color: var(--fill); background: var(--fill); color: #fff;
    content: "\\2713" } pre { white-space: pre-wrap } :focus-visible { outline: 3px solid var(--accent) }
</style>
<header><b aria-hidden="true">D</b> Demo application</header>
<main>
  <h1>{% if person %}Hello, {{ person.nickname }}{% else %}Sign in, and watch what happens{% endif %}</h1>
  {% if problem == "access_denied" %}<p role="alert"><strong>You refused, so nothing was shared.</strong>
    The callback carried <code>error=access_denied</code>.</p>
  {% elif problem %}<p role="alert"><strong>The sign-in failed.</strong> {{ problem }}</p>{% endif %}
  <section><h2>{% if person %}This application knows{% else %}This application knows nothing yet{% endif %}</h2>
    <dl>{% for name in ("avatar", "nickname", "email", "sub") %}<div class="{{ name }}"><dt>{{ name }}</dt>
      <dd>{% if person and name == "avatar" %}<img src="{{ person.avatar }}" alt="" width="64" height="64">
        {%- elif person %}{{ person[name] }}{% endif %}</dd></div>{% endfor %}</dl></section>
  {% if not person %}<a class="button" href="{{ url_for('sign_in') }}">Sign in with {{ name }}</a>{% endif %}
  {% if not problem %}<ol{% if person %} class="done"{% endif %} aria-label="The steps of a sign-in">
    <li><span>The browser goes to <code>/oauth/authorize</code></span>
    <li>You sign in and allow it
    <li><span>It returns to <code>/callback</code> with a code</span>
    <li><span>The code is redeemed at <code>/oauth/token</code></span>
    <li><span>The profile is read at <code>/oauth/userinfo</code></span></ol>{% endif %}
  {% if person %}
  <form method="post" action="{{ url_for('sign_out') }}"><button class="button">Sign out here</button></form>
  <details><summary>The answer as JSON</summary><pre>{{ person | tojson(indent=2) }}</pre></details>{% endif %}
</main>
<footer><span>Not the service: an application that uses it.</span>
  <span><a href="{{ docs }}">Documentation</a> · <a href="{{ url_for('source') }}">Its source</a></span></footer>
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


@app.get("/source")
def source():
    return send_file(__file__, mimetype="text/plain")


@app.post("/sign-out")
def sign_out():
    session.clear()
    return redirect(url_for("home"))


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # its access log would hold the code
    app.run("127.0.0.1", PORT)
