"""`manage.py account`: the operator manages people's accounts."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.db.models import Q, QuerySet

from accounts import audit_trail, rights, throttling
from accounts.email_addresses import looked_up_email, normalise_email
from accounts.factors import authenticators as factors
from accounts.models import Session, User
from accounts.rights import LastAdministrator
from accounts.sessions.credential_changes import set_active, set_password
from accounts.sign_in.sign_up import invite
from accounts.sign_in.verification import mark_verified
from config.infrastructure.texts import command_error, refuse_control_characters, shown

LISTED = 100
OPTIONS = {"email": "", "group": "--group", "nickname": "--nickname"}  # as errors of fields name them

# The actions, with the help of each.
ACTIONS = {
    "create": "make an account whose address counts as confirmed",
    "set-password": "set a password; end sessions, codes and tokens",
    "remove-factors": "remove second factor and passkeys of a person who lost them; sign out everywhere",
    "invite": "print a link with which the owner of the address may sign up",
    "set": "change what is given; the rest stays",
    "activate": "let a deactivated account in again",
    "deactivate": "keep an account out and sign it out everywhere",
    "list": "the accounts, by address",
    "show": "one account: state, rights, groups, second factors",
    "unlock": "forget failed sign-ins and wrong codes, so that the person can try",
    "make-administrator": "give every right, or those of --permission and no others",
}


class Command(BaseCommand):
    help = "Find, create and change people's accounts."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        for action, text in ACTIONS.items():
            one = actions.add_parser(action, help=text)
            one.add_argument("--json", action="store_true", dest="as_json", help="answer in JSON")
            if action != "list":
                one.add_argument("email", metavar="EMAIL")
            if action in ("create", "set-password"):
                text = "read the password from standard input"
                one.add_argument("--password-stdin", action="store_true", required=True, help=text)
            if action == "create":
                one.add_argument("--nickname", required=True, help="the name that applications show")
                one.add_argument(
                    "--unverified", action="store_true", help="have the person confirm the address by mail"
                )
            elif action == "set":
                text = "put the person into this group; may be repeated, and replaces all; '' leaves none"
                one.add_argument("--group", action="append", dest="groups", metavar="NAME", help=text)
            elif action == "list":
                one.add_argument(
                    "--search", default="", metavar="TEXT", help="in the address or nickname, or a user ID"
                )
                text = "only accounts with a passkey of another host than AUTH_URL's"
                one.add_argument("--unusable-passkeys", action="store_true", help=text)
                one.add_argument("--limit", type=int, default=LISTED, metavar="N", help=f"{LISTED} unless given")
            elif action == "make-administrator":
                text = "may be repeated"
                one.add_argument("--permission", action="append", default=[], metavar="APP.CODENAME", help=text)

    def handle(self, *args: Any, **options: Any) -> None:
        action = options["action"]
        method: Any = getattr(self, "_" + action.replace("-", "_"), _change)
        try:
            if action in ("invite", "list", "show"):
                method(options)
                return
            with transaction.atomic(), audit_trail.by_command():
                is_new = action == "create"
                person = User(email=normalise_email(options["email"])) if is_new else _person(options)
                sentence = method(person, options)
        except ValidationError as error:
            raise command_error(error, OPTIONS) from error
        except LastAdministrator:
            raise CommandError(
                "Nobody could administer the service then. Make another administrator with every right first: "
                "make-administrator."
            ) from None
        described: dict[str, Any] = {"sub": str(person.pk), "email": person.email, "nickname": person.nickname}
        if action == "set":
            described["groups"] = sorted(person.groups.values_list("name", flat=True))
        self.stdout.write(json.dumps(described, ensure_ascii=False) if options["as_json"] else sentence)

    def _invite(self, options: dict[str, Any]) -> None:
        email = normalise_email(options["email"])
        if settings.SIGN_UP == "closed":
            raise CommandError("Nobody may sign up: set SIGN_UP to invitation first.")
        person = User.objects.filter(email=email).first()
        if person and person.invited_at is None:
            raise CommandError(f"{email} has an account already.")
        with transaction.atomic(), audit_trail.by_command():
            url = invite(person or User(email=email))
        self.stdout.write(json.dumps({"email": email, "url": url}) if options["as_json"] else url)

    def _list(self, options: dict[str, Any]) -> None:
        limit, people = options["limit"], _people(options)
        if options["unusable_passkeys"]:
            stranded = sum(not factors.types_of(person) for person in people.iterator())
            self.stderr.write(
                f"Accounts with a passkey of another host than {factors.passkey_host()}: {people.count()}. "
                f"Those of them without a second factor that works: {stranded}."
            )
        found = [brief(person) for person in people[: limit + 1]]
        if options["as_json"]:
            self.stdout.write(json.dumps(found[:limit], ensure_ascii=False))
        else:
            for each in found[:limit]:
                self.stdout.write(_line(each))
        if len(found) > limit:
            self.stderr.write(f"There are more than {limit}. Raise --limit, or use --search.")

    def _show(self, options: dict[str, Any]) -> None:
        found = described(_person(options))
        lines = (f"{name + ':':18} {shown(_word(value))}" for name, value in found.items())
        self.stdout.write(json.dumps(found, ensure_ascii=False) if options["as_json"] else "\n".join(lines))

    def _create(self, user: User, options: dict[str, Any]) -> str:
        user.nickname = options["nickname"].strip()
        user.set_password(_password(user))
        refuse_control_characters(user.nickname)
        user.full_clean()
        user.save(force_insert=True)
        audit_trail.write("account_created", audit_trail.of_person(user))
        if not options["unverified"]:
            mark_verified(user)
        return f"{user.email} has an account now. Its user ID is {user.pk}."

    def _set_password(self, user: User, options: dict[str, Any]) -> str:
        set_password(user, _password(user))
        return f"{user.email} has a new password and is signed out everywhere."

    def _set(self, user: User, options: dict[str, Any]) -> str:
        if options["groups"] is None:
            raise CommandError("Nothing to change was given. See `account set --help`.")
        chosen, made = rights.named_groups(options["groups"])
        for name in made:
            self.stderr.write(f"The group {name} did not exist and was made.")
        stored = user.groups.values_list("name", flat=True)
        with audit_trail.changes(
            "account_changed", audit_trail.of_person(user), lambda: {"groups": list(stored.all())}
        ):
            user.groups.set(chosen)
        return f"{user.email} is in {', '.join(group.name for group in chosen) or 'no group'} now."

    def _make_administrator(self, user: User, options: dict[str, Any]) -> str:
        names = options["permission"]
        ended = rights.make(user, _permissions(names))
        if not user.is_active:
            self.stderr.write("The account is deactivated: nobody can sign in with it until `account activate`.")
        given = "has every right" if not names else f"may use {', '.join(sorted(set(names)))}"
        owned = f" The person owned {ended} application{'s'[: ended != 1]}, and owns none now." if ended else ""
        return f"{user.email} is an administrator now and {given}.{owned}"


CHANGES: dict[str, tuple[Callable[[User], object], str]] = {
    "activate": (lambda user: set_active(user, True), "can sign in again."),
    "deactivate": (lambda user: set_active(user, False), "can't sign in any more and is signed out everywhere."),
    "remove-factors": (factors.remove_all, "signs in with the password alone now, and is signed out everywhere."),
    "unlock": (throttling.unlock, "can try to sign in again at once."),
}


def _change(user: User, options: dict[str, Any]) -> str:
    change, sentence = CHANGES[options["action"]]
    change(user)
    return f"{user.email} {sentence}"


def _person(options: dict[str, Any]) -> User:
    try:
        return User.objects.get(email=looked_up_email(options["email"]))
    except User.DoesNotExist as error:
        raise CommandError(f"There is no account with the address {options['email']!r}.") from error


def _password(user: User) -> str:
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CommandError("The password on standard input is empty.")
    validate_password(password, user)
    return password


def _permissions(names: list[str]) -> list[Permission]:
    offered = {
        f"{each.content_type.app_label}.{each.codename}": each
        for each in rights.offered_permissions(admin.site).select_related("content_type")
    }
    for name in names:
        if name not in offered:
            close = get_close_matches(name, offered) or sorted(offered)
            raise CommandError(f"--permission: there is no permission {name!r}. Did you mean {', '.join(close)}?")
    return [offered[name] for name in dict.fromkeys(names)]


def _people(options: dict[str, Any]) -> QuerySet[User]:
    search, people = options["search"].strip(), User.objects.order_by("email")
    if not 1 <= options["limit"] < 2**31:
        raise CommandError("--limit: a number of 1 or more is needed.")
    if search:
        found = Q(email__icontains=search) | Q(email=looked_up_email(search)) | Q(nickname__icontains=search)
        with suppress(ValueError):
            found |= Q(pk=UUID(search))
        people = people.filter(found)
    if options["unusable_passkeys"]:
        people = people.filter(pk__in=factors.of_other_hosts().values("user"))
    return people


def brief(person: User) -> dict[str, Any]:
    return {
        "sub": str(person.pk),
        "email": person.email,
        "nickname": person.nickname,
        "active": person.is_active,
        "confirmed": person.email_verified_at is not None,
        "administrator": person.is_staff,
        "superuser": person.is_superuser,
    }


def described(person: User) -> dict[str, Any]:
    permissions = person.user_permissions.values_list("content_type__app_label", "codename")
    return {
        **brief(person),
        "permissions": sorted(".".join(names) for names in permissions),
        "groups": sorted(person.groups.values_list("name", flat=True)),
        "owns": list(person.owned_applications.order_by("name", "pk").values("client_id", "name")),
        "created": person.created_at.isoformat(),
        "last_sign_in": person.last_login and person.last_login.isoformat(),
        "second_factors": sorted(factors.types_of(person)),
        "unusable_passkeys": factors.other_hosts(person),
        "browsers": Session.unexpired().filter(user=person).count(),
    }


def _line(each: dict[str, Any]) -> str:
    notes = [] if each["active"] else ["deactivated"]
    if not each["confirmed"]:
        notes.append("not confirmed")
    if each["administrator"]:
        notes.append("superuser" if each["superuser"] else "administrator")
    parts = [each["sub"], each["email"], each["nickname"], f"({', '.join(notes)})" if notes else ""]
    return shown("  ".join(part for part in parts if part))


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_word(each) for each in value) or "none"
    if isinstance(value, dict):
        return " ".join(value.values())
    return str(value or "none")
