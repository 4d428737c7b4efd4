"""The rules that every response must keep, for any request. Specification 3, 7; D3, D4, D5, D13, D19, D20."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import unquote_to_bytes

from tests.contract import openapi_responses
from tests.driver import DESCRIPTION
from tests.fuzz.rendering import Sent
from tests.fuzz.wire import Answer
from tests.fuzz.world import Hand

PATH = re.compile(rb"([a-z]+://[^/?#]*)?([^?#]*)")
MACHINE = re.compile(rb"/oauth/.*", re.DOTALL)
PAGES = b"/oauth/authorize"
METHODS = {b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"}
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": ""}
LED_BACK = ({"code", "state"}, {"code"}, {"error", "error_description", "state"}, {"error", "error_description"})
SPECULATIVE = re.compile(rb"purpose|x-moz|sec-fetch-dest", re.IGNORECASE)
OUR_PAGES = re.compile(r"/(oauth/authorize|accounts/sign-in)([/?]|$)")
REFRESH = re.compile(r'http-equiv="refresh" content="\d+;\s*url=([^"]+)"')


class Wrong(AssertionError):
    """A response breaks a rule. The message contains the plan, but no credential."""


def judge(sent: Sent, answer: Answer, hand: Hand) -> None:
    """Raises Wrong: the response breaks a rule."""
    method, target, _version = sent.line
    path = unquote_to_bytes(PATH.match(target)[2])  # type: ignore[index]
    is_head = method == b"HEAD"
    is_refused_by_gunicorn = "X-Reference" not in answer.headers and answer.status in (400, 414, 417, 431, 501)
    _want(answer.status < 500 or is_refused_by_gunicorn or _is_speculative(sent, answer), f"a {answer.status}")
    if is_refused_by_gunicorn or not MACHINE.fullmatch(path):
        return
    for name, value in HEADERS.items():
        _want(value in answer.headers.get(name, "\0"), f"no {name}")
    content_type = answer.headers.get("Content-Type", "")
    if path != PAGES and not answer.headers.get("Location"):
        _want(content_type == "application/json", f"{content_type} from a machine path")
    elif content_type.startswith("text/html") and answer.status >= 400 and answer.status != 403:
        _want(b"text/html" in sent.data.lower(), "a page for a program")
    if content_type == "application/json" and answer.status >= 400 and not is_head:
        _judge_error(answer, hand)
    if method in METHODS and sent.is_framed:
        found = openapi_responses.problems(
            method.decode(), path.decode("latin-1"), answer.status, answer.headers, answer.body
        )
        _want(not found, f"not in the document: {found}")
    if path == b"/oauth/token" and answer.status == 200:
        _judge_token(sent, answer, hand)
    if path == b"/oauth/userinfo" and answer.status == 200:
        _judge_profile(sent, answer, hand, is_head=is_head)
    _judge_way_on(sent, answer, hand)


def _want(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Wrong(otherwise)


def _is_speculative(sent: Sent, answer: Answer) -> bool:
    """D8: requests that a browser sends in advance get 503."""
    return answer.status == 503 and SPECULATIVE.search(sent.data) is not None


def _judge_error(answer: Answer, hand: Hand) -> None:
    body = json.loads(answer.body.decode("utf-8"))
    _want(set(body) == {"error", "error_description"}, f"members {sorted(body)}")
    _want(DESCRIPTION.fullmatch(body["error_description"]) is not None, "characters that RFC 6749 does not allow")
    _want(not any(credential in answer.body.decode() for credential in hand.used), "a credential in an error")
    if "and its access token has been revoked" in body["error_description"]:
        hand.revoked |= {hand.redeemed[code] for code in hand.used if code in hand.redeemed}


def _judge_token(sent: Sent, answer: Answer, hand: Hand) -> None:
    """3.1, D13: a success redeems a valid code, for the first time."""
    token = json.loads(answer.body)["access_token"]
    form = sent.request.form or []
    codes = [value.decode("latin-1") for name, value in form if name == b"code"]
    known = [code for code in codes if hand.can_redeem(code)] or [code for code in hand.used if hand.can_redeem(code)]
    _want(bool(known), "a token for a code that was redeemed, or never could be")
    hand.redeemed_now(known[0], token)


def _judge_profile(sent: Sent, answer: Answer, hand: Hand, *, is_head: bool) -> None:
    live = dict.fromkeys(hand.world.tokens["live"], "alice") | hand.owners
    owners = {owner for token, owner in live.items() if token.encode() in sent.data and token not in hand.revoked}
    _want(bool(owners), "a profile without a token that is good")
    subs = {str(hand.world.people[owner].pk) for owner in owners}
    _want(is_head or json.loads(answer.body)["sub"] in subs, "somebody else's profile")


# Redirects, and pages with a link to the callback ---------------------------------------------------------------------


def _judge_way_on(sent: Sent, answer: Answer, hand: Hand) -> None:
    location = answer.headers.get("Location", "")
    if answer.status == 200 and (found := REFRESH.search(answer.body.decode("utf-8"))):
        location = html.unescape(found[1])
    location = location.removeprefix(hand.world.server.auth_url)
    if location.startswith("/"):
        _want(OUR_PAGES.match(location) is not None, "a redirect to nowhere")
    elif location:
        _judge_callback(sent, location, hand)


def _judge_callback(sent: Sent, location: str, hand: Hand) -> None:
    """The callback is a registered address of the application in the request, and has only the defined parameters."""
    applications = hand.world.applications
    named = [name for name, each in applications.items() if each.client_id.encode() in sent.data]
    named = [sent.request.about] if sent.request.about else named
    addresses = {address for name in named for address in applications[name].row.callback_addresses}
    address = max((each for each in addresses if location.startswith(each)), key=len, default="")
    _want(bool(address), "a redirect to an address that is not registered")
    query = location[len(address) :]
    _want(query.startswith("&" if "?" in address else "?"), "a redirect to more than a registered address")
    pairs = [pair.partition("=") for pair in query[1:].split("&")]
    brought = {name: value for name, _, value in pairs}
    _want(len(brought) == len(pairs) and set(brought) in LED_BACK, f"a callback with {sorted(brought)}")
    state = unquote_to_bytes(brought["state"]) if "state" in brought else None
    _want(state == _state_of(sent), "a state that is not the one that was sent")
    if "code" in brought:
        _judge_code(sent, brought["code"], named, hand)


def _judge_code(sent: Sent, code: str, named: list[str], hand: Hand) -> None:
    """A new code, only for a person who is signed in in this browser and agreed, unless no consent is needed."""
    _want(code not in hand.seen, "a code for the second time")
    hand.seen.add(code)
    people = [name for name, session in hand.world.sessions.items() if session in sent.data]
    _want(bool(people), "a code for nobody")
    owner, page = sent.request.page
    if sent.is_framed and owner:
        _want(page <= {value for _name, value in sent.request.pairs}, "a code without the page that asks for consent")
        _want(owner in people, "a code for a page of somebody else")
    if b"code_challenge" not in sent.data and len(named) == len(people) == 1:
        hand.issued[code] = (named[0], people[0])


def _state_of(sent: Sent) -> bytes | None:
    """The bytes of the first `state` in the request; None when there is none. Decoded leniently, like a form."""
    if sent.request.about:
        return sent.plan.state
    for pair in sent.line[1].partition(b"#")[0].partition(b"?")[2].split(b"&"):
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        if unquote_to_bytes(name) == b"state":
            return unquote_to_bytes(value)
    return None
