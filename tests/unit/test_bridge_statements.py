"""How many statements each operation costs. A new one is a decision, never an accident."""

from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from oauth_bridge.activity import counts
from oauth_bridge.consent import consents
from oauth_bridge.credentials.random_values import new_credential
from oauth_bridge.models import AccessToken, Application, AuthorizationCode
from tests.factories import registered

INDEXES = {
    AuthorizationCode: {("id",), ("digest",), ("user_id", "attempt"), ("issued_at",), ("former_digest",)},
    AccessToken: {("id",), ("digest",), ("user_id",)},
}
pytestmark = [pytest.mark.django_db, pytest.mark.integration]
CALLBACK = "https://reading.example/callback"


def statements(call):
    """Without BEGIN and COMMIT, of which SQLite needs a pair at the token operation."""
    with CaptureQueriesContext(connection) as captured:
        answer = call()
    sent = [query["sql"].split()[0] for query in captured.captured_queries]
    return answer, [verb for verb in sent if verb not in ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")]


def test_a_sign_in_of_a_signed_in_browser_costs_three_two_and_one(client, alice):
    application, secret = registered(name="Ours", redirect_uris=CALLBACK, is_trusted=True)
    client.force_login(alice)
    query = {"client_id": application.client_id, "redirect_uri": CALLBACK, "response_type": "code"}
    answer, sent = statements(lambda: client.get("/oauth/authorize", query))
    assert sent == ["SELECT", "SELECT", "INSERT"]  # application; session and person; code

    body = {
        "grant_type": "authorization_code",
        "code": answer["Location"].partition("code=")[2],
        "client_id": application.client_id,
        "client_secret": secret,
    }
    post = {"data": urlencode(body), "content_type": "application/x-www-form-urlencoded"}
    answer, sent = statements(lambda: client.post("/oauth/token", **post))
    one_step = ["WITH"] if connection.vendor == "postgresql" else ["UPDATE", "INSERT"]
    assert sent == ["SELECT", "UPDATE", *one_step], "the first use of a secret in a minute is noted"

    body["code"] = client.get("/oauth/authorize", query)["Location"].partition("code=")[2]
    post["data"] = urlencode(body)
    answer, sent = statements(lambda: client.post("/oauth/token", **post))
    assert sent == ["SELECT", *one_step]

    bearer = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    answer, sent = statements(lambda: client.get("/oauth/userinfo", headers=bearer))
    assert answer.status_code == 200
    assert sent == ["SELECT"]

    Application.objects.update(is_trusted=False)
    application.refresh_from_db()
    consents.remember(alice, application)
    answer, sent = statements(lambda: client.get("/oauth/authorize", query))
    assert "code=" in answer["Location"]
    assert sent == ["SELECT", "SELECT", "SELECT", "INSERT"], "a remembered consent costs one more"


def test_a_bad_token_costs_two_and_none_costs_nothing_but_the_record(client, monkeypatch):
    recorded = ["INSERT"]
    bearer = {"Authorization": f"Bearer {new_credential()}"}
    assert statements(lambda: client.get("/oauth/userinfo", headers=bearer))[1] == ["SELECT", "SELECT", *recorded]
    assert statements(lambda: client.get("/oauth/userinfo"))[1] == recorded
    monkeypatch.setattr(counts, "has_room", lambda *_: False)
    assert statements(lambda: client.get("/oauth/userinfo", headers=bearer))[1] == ["SELECT", "SELECT"]
    assert statements(lambda: client.get("/oauth/userinfo"))[1] == []


@pytest.mark.parametrize("model", INDEXES)
def test_a_code_or_token_is_found_by_its_digest_whatever_the_planner_knows(db, model):
    """Another index on a column of the hot conditions is as good in its eyes until the table has been analyzed."""
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, model._meta.db_table).values()
    columns = {tuple(each["columns"]) for each in found if each["index"] or each["unique"] or each["primary_key"]}
    assert columns == INDEXES[model]
