"""The receiver of docs/how-to/webhooks.md, as it is printed there."""

import http.server
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from tests.support.webhooks import at_the_receivers_time, dispatched, endpoint, publish, send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]

GUIDE = Path(__file__).parents[4] / "docs" / "how-to" / "webhooks.md"


def shown(what: str) -> dict[str, Any]:
    """The names that the block with ``what`` makes: it is what readers will run."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (each for each in blocks if what in each)
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_the_receiver_of_the_guide_takes_what_is_ours_once_and_refuses_the_rest(clock, capsys):
    at_the_receivers_time(clock)
    names = shown("class Receiver")
    server = http.server.HTTPServer(("127.0.0.1", 0), names["Receiver"])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        made, names["SECRET"] = endpoint(f"http://127.0.0.1:{server.server_port}/")
        publish()
        dispatched()
        send()
        row = made.deliveries.get()
        assert (row.status, row.tries.get().response_status) == ("delivered", 204)
        assert capsys.readouterr().out == "pool.created pool/pool_a {'poolId': 'pool_a'}\n"
        names["SECRET"] = "whsec_" + "A" * 32
        publish()
        dispatched()
        send()
        assert made.deliveries.latest("id").tries.get().response_status == 401
        assert capsys.readouterr().out == ""
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_by_hand_it_takes_what_the_library_signs_and_nothing_else():
    is_ours = shown("def is_ours")["is_ours"]
    old, new = "whsec_" + "A" * 32, "whsec_" + "B" * 32
    body, sent = '{"id": "evt_é"}', datetime(2026, 3, 2, tzinfo=UTC)
    signatures = [Webhook(each).sign("evt_a", sent, body) for each in (new, old)]
    headers = {
        "webhook-id": "evt_a",
        "webhook-timestamp": f"{sent.timestamp():.0f}",
        "webhook-signature": " ".join(signatures),
    }
    assert is_ours(old, headers, body.encode())
    assert is_ours(new, headers, body.encode())
    assert not is_ours("whsec_" + "C" * 32, headers, body.encode())
    assert not is_ours(new, headers, body.encode() + b" ")
    assert not is_ours(new, {**headers, "webhook-id": "evt_b"}, body.encode())
