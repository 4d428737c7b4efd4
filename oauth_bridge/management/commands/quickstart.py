"""`manage.py quickstart`: run the service and a demo application on this machine."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts.models import User
from accounts.sign_in.verification import mark_verified
from config.infrastructure.errors import RequestError
from config.infrastructure.network import LOOPBACK_HOSTS
from oauth_bridge.applications import registry
from oauth_bridge.credentials import client_secrets, secret_rotation
from oauth_bridge.models import Application

DEMO_PACKAGES = ("authlib", "flask", "requests")
DEMO_NAME = "Demo application"
HOST = "127.0.0.1"
WELCOME = """
{name} is running, with an application that uses it.

  Open            {demo_url}
  and sign in as  {demo}

  Administration  {service_url}/admin/
                  {administrator}
  Application     {application.name}, client_id {application.client_id}
                  client_secret {secret}
  Documentation   {service_url}/docs
  Log             {log}
  E-mails         {emails}

The next run keeps the passwords and the secret, which are stored in
{credentials}. Ctrl-C ends both.
"""

Processes = dict[str, subprocess.Popen[bytes]]


class Command(BaseCommand):
    help = "Migrate, create a demo account, administrator and application, serve both, and print the address to open."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="port of the service (default 8000)")
        parser.add_argument("--demo-port", type=int, default=8001, help="port of the demo application (default 8001)")

    def handle(self, *args: Any, port: int, demo_port: int, **options: Any) -> None:
        check_prerequisites()
        check_ports({"--port": port, "--demo-port": demo_port})
        os.umask(0o077)  # of both processes, too: passwords, e-mails and the database are for this user only
        # The service uses a host name and the application an IP address, so that a browser sees two sites, as in
        # production.
        service_url, demo_url = f"http://localhost:{port}", f"http://{HOST}:{demo_port}"
        origins = {"BASE_URL": service_url, "AUTH_URL": service_url}
        serve = [f"--config={settings.BASE_DIR / 'config' / 'gunicorn.py'}", "config.wsgi"]
        variables = origins | {"BIND": f"{HOST}:{port}", "WEB_CONCURRENCY": "1", "SIGN_UP": "open", "ALLOWED_HOSTS": ""}
        demo = ["--no-control-socket", "--threads=4", f"--chdir={settings.BASE_DIR / 'docs'}", "demo_application:app"]
        # SIGINT gets a handler too, because a background process of a shell script ignores this signal by default.
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.default_int_handler)
        processes: Processes = {}
        log = settings.VAR_DIR / "quickstart.log"
        try:
            values = prepare(demo_url)
            client = {"CLIENT_ID": values["application"].client_id, "CLIENT_SECRET": values["secret"]}
            client |= {"PORT": str(demo_port), "no_proxy": "localhost"}
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as output:
                processes["service"] = start(serve, port, variables, output)
                processes["demo application"] = start(demo, demo_port, origins | client, output)
            for number in (port, demo_port):
                wait_for(number, processes, log)
            self.stdout.write(WELCOME.format(**values, service_url=service_url, demo_url=demo_url, log=log))
            self.stdout.flush()
            while True:
                check_alive(processes, log)
                time.sleep(0.5)
        except KeyboardInterrupt:
            self.stdout.write("\nEnding both.")
        finally:
            for child in processes.values():
                child.terminate()
            for child in processes.values():
                child.wait()


def check_prerequisites() -> None:
    for origin in (settings.AUTH_URL, settings.BASE_URL):
        if urlsplit(origin).hostname not in LOOPBACK_HOSTS:
            raise CommandError(f"quickstart is for this machine only, but the service is set up as {origin}.")
    if missing := [name for name in DEMO_PACKAGES if find_spec(name) is None]:
        raise CommandError(
            f"The demo application needs {', '.join(missing)}: pip install -r config/requirements/quickstart.txt."
        )


def check_ports(ports: dict[str, int]) -> None:
    """Raises CommandError: a port cannot be used, or two ports are equal."""
    with ExitStack() as opened:
        for option, port in ports.items():
            try:
                opened.enter_context(socket.create_server((HOST, port)))
            except (OSError, OverflowError) as error:
                reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "it is no port"
                raise CommandError(
                    f"Port {port} can't be used ({reason}); end what uses it or choose another by {option}."
                ) from None


def prepare(demo_url: str) -> dict[str, Any]:
    """Migrate the database. Create or update the accounts and the application. Return the values for WELCOME.

    The file quickstart.json keeps the passwords and the `client_secret`.
    """
    database = settings.DATABASES["default"]
    is_file = database["ENGINE"] == "django.db.backends.sqlite3"
    path = (Path(database["NAME"]).parent if is_file else settings.VAR_DIR) / "quickstart.json"
    call_command("migrate", interactive=False, verbosity=0)
    kept: dict[str, str] = {}
    with suppress(FileNotFoundError, ValueError):
        kept = json.loads(path.read_text(encoding="utf-8"))
    admin = {"is_staff": True, "is_superuser": True}
    values = {
        "name": settings.SERVICE_NAME,
        "demo": demo_account("demo@example.org", "Dana Demo", kept),
        "administrator": demo_account("admin@example.org", "Ada Administrator", kept, **admin),
        "application": demo_application(demo_url, kept),
        "secret": kept["client_secret"],
        "credentials": path,
        "emails": settings.EMAIL_FILE_PATH or "by EMAIL_URL",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    return values


def demo_account(email: str, nickname: str, kept: dict[str, str], **fields: bool) -> str:
    """Create or update the account, and return a text for WELCOME. Add the password of a new account to `kept`."""
    person = User.objects.filter(email=email).first()
    if person is None:
        kept[email] = secrets.token_urlsafe(12)
        person = User.objects.create_user(email, kept[email], nickname=nickname)
    User.objects.filter(pk=person.pk).update(is_active=True, **fields)
    mark_verified(person)
    if person.check_password(kept.get(email, "")):
        return f"{email}, password {kept[email]}"
    return f"{email}, with the password that was set for it elsewhere"


def demo_application(demo_url: str, kept: dict[str, str]) -> Application:
    """Register or update the demo application. If the `client_secret` in `kept` does not work, replace it."""
    application = Application.objects.filter(name=DEMO_NAME).first() or Application(name=DEMO_NAME)
    application.redirect_uris, application.homepage = f"{demo_url}/callback", demo_url
    if not application.pk:
        registry.add(application, ())
    else:
        application.save(update_fields=["redirect_uris", "homepage", "updated"])
        registry.set_enabled(application, True)
    try:
        given = {"client_id": application.client_id, "client_secret": kept.get("client_secret", "")}
        client_secrets.authenticate(given)
    except RequestError:
        kept["client_secret"] = secret_rotation.rotate(application, secret_rotation.REVOKE_NOW).secret
    return application


def start(arguments: list[str], port: int, variables: dict[str, str], output: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "gunicorn", *arguments, f"--bind={HOST}:{port}"],
        env={**os.environ, "GUNICORN_CMD_ARGS": "", **variables},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )


def wait_for(port: int, processes: Processes, log: Path) -> None:
    """Wait until the port answers an HTTP request. Raises CommandError: a process has ended."""
    while True:
        check_alive(processes, log)
        with suppress(OSError, HTTPException), closing(HTTPConnection(HOST, port, timeout=2)) as connection:
            connection.request("GET", "/")
            connection.getresponse()
            return
        time.sleep(0.1)


def check_alive(processes: Processes, log: Path) -> None:
    for name, child in processes.items():
        if child.poll() is not None:
            raise CommandError(f"The {name} ended by itself (exit code {child.returncode}); the reason is in {log}.")
