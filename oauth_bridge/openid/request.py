"""Requests with the scope `openid`, and what the person must prove. OpenID Connect Core 1.0 §3.1.2.1.

A request without this scope is plain OAuth 2.0, and the values of its parameters in NAMES are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, cast

from django.http import HttpRequest

from accounts import return_path
from accounts.factors import authenticators as factors
from accounts.sign_in import reauthentication
from accounts.sign_in.reauthentication import ONE_FACTOR, TWO_FACTORS, Proof
from oauth_bridge.errors import OAuthFault
from oauth_bridge.openid import claims

if TYPE_CHECKING:
    from accounts.models import User

NAMES = ("nonce", "claims", "prompt", "max_age", "id_token_hint", "login_hint", "acr_values")
# A stored request has this parameter instead of `id_token_hint`. Its value is the client_id and the `sub` of a valid ID
# token; empty for an invalid ID token.
HINT = "hint"
NONCE_MAX_LENGTH = 512
MAX_AGE = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Granted:
    """The claims to send, the nonce, and how the person signed in. Stored with the code and the token."""

    userinfo: list[str]
    id_token: list[str]
    nonce: str = ""
    auth_time: int | None = None  # a Unix time
    amr: list[str] | None = None
    acr: str = ""

    def to_json(self) -> str:
        return json.dumps({name: value for name, value in asdict(self).items() if value not in ("", None)})

    @classmethod
    def from_json(cls, stored: str) -> Granted:
        return cls(**json.loads(stored))


@dataclass(frozen=True, slots=True)
class Asked:
    """The requirements of a request. `max_age` is in seconds. Every value in `subs` must be the person's `sub`.

    `wants_two_factors`: people who have a second factor must use it. `needs_two_factors`: everybody must use one.
    """

    prompts: frozenset[str] = frozenset()
    max_age: int | None = None
    subs: frozenset[str] = frozenset()
    wants_two_factors: bool = False
    needs_two_factors: bool = False

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Asked:
        """Return the requirements of a request for which `fault` returns None. Plain OAuth 2.0 has no requirements."""
        if not claims.is_openid(parameters.get("scope", "")):
            return NOTHING
        asked = parameters.get("claims", "")
        subs, _ = claims.wanted_values(asked, "sub")
        acr, is_essential = claims.wanted_values(asked, "acr")
        wanted = acr or parameters.get("acr_values", "").split()
        return cls(
            frozenset(parameters.get("prompt", "").split()),
            int(parameters["max_age"]) if "max_age" in parameters else None,
            frozenset({*subs, *parameters.get(HINT, "").split()[1:]}),
            TWO_FACTORS in wanted[:1],
            is_essential and TWO_FACTORS in acr and ONE_FACTOR not in acr,
        )

    @property
    def is_silent(self) -> bool:
        return "none" in self.prompts


NOTHING = Asked()


class Need(Enum):
    """What a request still needs from the person. `need` checks for these needs in this order."""

    OTHER_ACCOUNT = auto()  # the request expects another person
    PROOF = auto()
    SECOND_FACTOR = auto()
    IMPOSSIBLE = auto()  # a second factor is needed, and the person has none


def need(request: HttpRequest, asked: Asked, asked_at: float) -> Need | None:
    """Return the next need, or None. A proof of identity after `asked_at` (a Unix time) is always recent enough."""
    if asked is NOTHING:  # a plain OAuth 2.0 request needs no proof
        return None
    person, proof = cast("User", request.user), reauthentication.proof_of(request)
    if asked.subs - {str(person.pk)}:
        return Need.OTHER_ACCOUNT
    proved_at = proof.at or 0.0
    is_late = "login" in asked.prompts and proved_at < asked_at
    is_old = asked.max_age is not None and proved_at < asked_at - asked.max_age
    if is_late or is_old:
        return Need.PROOF
    if proof.acr == TWO_FACTORS or not (asked.wants_two_factors or asked.needs_two_factors):
        return None
    if factors.has_any(person):
        return Need.SECOND_FACTOR
    return Need.IMPOSSIBLE if asked.needs_two_factors else None


def proof_url(request: HttpRequest, what: Need, return_to: str) -> str:
    """Return the URL of a page that asks for `what` (PROOF or SECOND_FACTOR) and then opens `return_to`."""
    if what is Need.SECOND_FACTOR:
        return return_path.url_of(factors.confirm_path(request.user), return_to)
    return reauthentication.proof_url(request, return_to)


def is_posted(parameters: Mapping[str, str]) -> bool:
    """Return whether a form posts the answer to `redirect_uri`. Only http and https addresses can get a form."""
    is_web = parameters.get("redirect_uri", "").startswith(("https:", "http:"))
    return is_web and parameters.get("response_mode") == "form_post"


def fault(parameters: Mapping[str, str]) -> OAuthFault | None:
    """Return the first fault in the parameters of OpenID Connect, or None."""
    scope = parameters.get("scope", "")
    if "request" in parameters:
        return OAuthFault.REQUEST_OBJECT
    if "request_uri" in parameters:
        return OAuthFault.REQUEST_URI
    if parameters.get("response_mode", "query") != "query" and not is_posted(parameters):
        return OAuthFault.RESPONSE_MODE
    if not claims.is_openid(scope):
        return OAuthFault.OPENID_MISSPELT if claims.is_nearly_openid(scope) else None
    if len(parameters.get("nonce", "")) > NONCE_MAX_LENGTH:
        return OAuthFault.NONCE_TOO_LONG
    prompts = parameters.get("prompt", "").split()
    if "none" in prompts and len(prompts) > 1:
        return OAuthFault.PROMPT_NONE
    if not MAX_AGE.fullmatch(parameters.get("max_age", "0")):
        return OAuthFault.MAX_AGE
    if HINT in parameters and parameters[HINT].partition(" ")[0] != parameters["client_id"]:
        return OAuthFault.HINT
    try:
        claims.asked_by_parameter(parameters.get("claims", ""), "userinfo")
        claims.asked_by_parameter(parameters.get("claims", ""), "id_token")
        acr, is_essential = claims.wanted_values(parameters.get("claims", ""), "acr")
    except (ValueError, RecursionError):
        return OAuthFault.CLAIMS_MALFORMED
    return OAuthFault.ACR if is_essential and acr and not {ONE_FACTOR, TWO_FACTORS} & set(acr) else None


def facts(parameters: Mapping[str, str]) -> list[str]:
    """Return the facts about the person that the request asks for. The consent page lists these facts."""
    scope, asked = parameters.get("scope", ""), parameters.get("claims", "")
    if not claims.is_openid(scope):
        return claims.PLAIN_FACTS
    more = [name for where in ("userinfo", "id_token") for name in claims.asked_by_parameter(asked, where)]
    return claims.facts(claims.of_scopes(claims.granted_scopes(scope), more))


def granted(
    parameters: Mapping[str, str], read_proof: Callable[[], Proof], *, profile_in_id_token: bool
) -> Granted | None:
    """Return the grant, or None in plain OAuth 2.0. `profile_in_id_token`: the ID token also has the scopes' claims."""
    scope, asked = parameters.get("scope", ""), parameters.get("claims", "")
    if not claims.is_openid(scope):
        return None
    proof, scopes = read_proof(), claims.granted_scopes(scope)
    id_token = claims.asked_by_parameter(asked, "id_token")
    return Granted(
        userinfo=claims.of_scopes(scopes, claims.asked_by_parameter(asked, "userinfo")),
        id_token=claims.of_scopes(scopes, id_token) if profile_in_id_token else id_token,
        nonce=parameters.get("nonce", ""),
        auth_time=None if proof.at is None else int(proof.at),
        amr=proof.amr or None,
        acr=proof.acr,
    )
