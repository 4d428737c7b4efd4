"""The tables of errors: two sentences each, in the characters that RFC 6749 allows; private details. D19, D24."""

import re

from django.utils import translation

import config.urls  # noqa: F401 - imports every package that declares faults
from accounts.errors import AccountFault
from config.infrastructure.errors import Fault, RequestError, SiteFault
from oauth_bridge.errors import OAuthFault
from oauth_bridge.oauth.authorization import UnverifiedRequest

ALLOWED = re.compile(r"[\x20-\x21\x23-\x5B\x5D-\x7E]+")
STATUSES = {200, 302, 400, 401, 403, 404, 405, 413, 429, 431, 500, 503}
NAMED = [(name, fault) for kind in Fault.__subclasses__() for name, fault in kind.__members__.items()]
# Their problem says what to do.
WITHOUT_FIX = {
    OAuthFault.REFUSED,
    OAuthFault.CHALLENGE_MALFORMED,
    OAuthFault.BASIC_MALFORMED,
    OAuthFault.VERIFIER_MALFORMED,
    OAuthFault.TOKEN_MALFORMED,
}


def test_each_fault_has_two_sentences_of_its_own_in_allowed_characters():
    for name, fault in NAMED:
        assert fault.name == name  # a fault with the values of another one would be its alias
        assert ALLOWED.fullmatch(fault.sentence), name
        assert fault.problem.endswith("."), name
        assert fault.fix.endswith((".", "{hint}")) or fault in WITHOUT_FIX or isinstance(fault, AccountFault), name
        assert fault.status in STATUSES, name
    for each in ([name for name, _ in NAMED], [fault.sentence for _, fault in NAMED]):
        assert len(set(each)) == len(each)


def test_the_description_and_a_page_join_the_two_sentences_as_their_language_does(monkeypatch):
    assert SiteFault.METHOD.describe(method="PUT", allow="GET") == "This path does not take PUT. Use GET."
    assert OAuthFault.REFUSED.describe() == "The person refused the authorization."
    assert SiteFault.CSRF.translate() == SiteFault.CSRF.describe()
    with translation.override("de"):
        assert not SiteFault.CSRF.translate().endswith(" ")
    translated = {SiteFault.CSRF.problem: "表单已过期。", SiteFault.CSRF.fix: "请重新打开页面。"}
    monkeypatch.setattr("config.infrastructure.errors.gettext", translated.__getitem__)
    assert SiteFault.CSRF.translate() == "表单已过期。请重新打开页面。"


def test_a_value_of_the_request_is_reduced_to_allowed_characters_and_no_exception_shows_it():
    said = RequestError(OAuthFault.REPEATED, name='st"ate\\\n\x00é').description
    assert (bool(ALLOWED.fullmatch(said)), "st?ate" in said) == (True, True)
    refused = UnverifiedRequest(OAuthFault.MALFORMED, name="value-of-a-stranger")
    assert "value-of-a-stranger" not in repr(refused) + str(refused)


def test_private_details_stay_apart_from_the_public_ones_and_what_is_known_first_stays():
    error = RequestError(OAuthFault.MISSING, name="code")
    assert error.about(age=1).cause == "missing", "the code, unless a finer cause is known"
    assert error.about(cause="code_missing", age=2, shape="empty").about(cause="other").cause == "code_missing"
    assert (error.private, error.details) == ({"age": 1, "shape": "empty"}, {"name": "code"})
    assert not any(private in repr(error) + error.description for private in ("code_missing", "empty"))
