"""No secret that a client sends, or is given, reaches the logs of a request."""

import json
import logging
from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from bettercompute.web import logs
from tests.support import cast

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-battery-staple"


@pytest.fixture(autouse=True)
def _everything_is_logged() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with override_settings(LOG_FORMAT="json", LOG_LEVEL="DEBUG"):
        logs.configure()
        yield
    root.handlers[:], root.level = handlers, level


def test_no_secret_reaches_a_line_even_at_debug(capsys: pytest.CaptureFixture[str]) -> None:
    _, token = cast.token("alice")
    tenant_id = cast.tenant().pk
    client = Client(headers={"authorization": f"Bearer {token}"}, raise_request_exception=False)
    made = client.post(
        "/api/v1/tokens",
        json.dumps({"tenantId": tenant_id, "name": "ci"}),
        content_type="application/json",
    )
    assert made.status_code == 201
    client.get(f"/api/v1/reservations?tenantId={tenant_id}&cursor={token}")
    client.get(f"/api/v1/reservations/{token}?tenantId={tenant_id}")
    Client().post("/login", {"username": "alice", "password": PASSWORD})
    said = capsys.readouterr().err
    assert said.count('"served"') == 4
    for secret in (token, made.json()["token"], PASSWORD):
        assert secret not in said
        assert secret.rpartition("_")[2] not in said
