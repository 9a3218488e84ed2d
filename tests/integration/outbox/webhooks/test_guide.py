"""The receiver of docs/how-to/webhooks.md, as it is printed there."""

import http.server
import re
import threading
from pathlib import Path

import pytest

from tests.support.webhooks import at_the_receivers_time, dispatched, endpoint, publish, send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.rule("A6")]

GUIDE = Path(__file__).parents[4] / "docs" / "how-to" / "webhooks.md"


def test_the_receiver_of_the_guide_takes_what_is_ours_once_and_refuses_the_rest(clock, capsys):
    at_the_receivers_time(clock)
    shown = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (each for each in shown if "class Receiver" in each)
    names = {}
    exec(code, names)  # it is what readers will run
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
