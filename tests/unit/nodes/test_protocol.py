"""The node protocol: strict in what it knows, patient with what it does not."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nodes.protocol import messages, signing
from nodes.protocol.messages import (
    Assignment,
    ChallengeRequest,
    DesiredAnswer,
    Hello,
    HelloRequest,
    ReportEntry,
    ReportsRequest,
)
from nodes.protocol.signing import NodeKey, Purpose

ids = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)
texts = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"), max_size=50
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner),
    max_leaves=15,
)


hellos = st.fixed_dictionaries(
    {
        "node_id": ids,
        "kid": ids,
        "challenge": st.from_regex(r"[!-~]{0,50}", fullmatch=True),
        "boot_id": texts,
        "agent_version": texts,
        "capabilities": st.lists(st.sampled_from(["devices.limits", "binding.kubernetes"])),
        "last_epoch": st.integers(0, 2**62),
        "clock_ms": st.none() | st.integers(0, 2**53),
    }
)


@given(hellos)
def test_a_hello_comes_out_as_it_went_in(fields):
    hello = Hello(**fields)
    assert Hello.from_json(messages.canonical(hello.to_wire())) == hello


@given(texts, st.integers(1, 2**62))
def test_the_text_of_a_report_is_never_changed_on_the_way(body, seq):
    entry = ReportEntry(seq=seq, kind="Inventory", body=body)
    sent = messages.canonical(ReportsRequest(entries=[entry]).to_wire())
    (received,) = ReportsRequest.from_json(sent).entries
    assert received.body.encode() == body.encode()


@pytest.mark.parametrize("model", [ChallengeRequest, HelloRequest, Hello, ReportsRequest])
@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_at_all_are_either_a_message_or_a_validation_error(model, raw):
    try:
        message = model.from_json(raw)
    except ValidationError:
        return
    assert isinstance(message, model)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"nodeId": "a\\u0000"}',
        b'{"nodeId": "\\ud800"}',
        b'{"nodeId": 1}',
        b'{"nodeId": "a/../b"}',
        b'{"nodeId": ""}',
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_hostile_input_is_refused(raw):
    with pytest.raises(ValidationError):
        ChallengeRequest.from_json(raw)


def test_a_newer_peers_fields_are_ignored_at_every_depth():
    answer = DesiredAnswer.from_json(
        json.dumps(
            {
                "generation": 3,
                "since": "tomorrow",
                "assignments": [
                    {
                        "allocationId": "alloc_1",
                        "deviceIds": ["GPU-1"],
                        "colour": "blue",
                        "limits": {"cpuMillis": 5, "gpuMillis": 7},
                    }
                ],
            }
        )
    )
    assert answer.assignments[0].limits.cpu_millis == 5


@pytest.mark.parametrize("allocation_id", ["../../etc/passwd", "a/b", "a b", "", "a\n"])
def test_an_allocation_id_is_never_a_path(allocation_id):
    with pytest.raises(ValidationError):
        Assignment(allocation_id=allocation_id, device_ids=["GPU-1"])


def test_a_call_carries_at_most_a_thousand_entries():
    entry = {"seq": 1, "kind": "Inventory", "body": "{}"}
    ReportsRequest.from_json(json.dumps({"entries": [entry] * 1_000}))
    with pytest.raises(ValidationError):
        ReportsRequest.from_json(json.dumps({"entries": [entry] * 1_001}))


def test_canonical_text_does_not_depend_on_order():
    assert messages.canonical({"b": 1, "a": "ü"}) == messages.canonical({"a": "ü", "b": 1})


@pytest.mark.rule("N11")
class TestSigning:
    @given(texts)
    def test_a_signature_is_good_for_its_text_purpose_and_key_only(self, text):
        key, stranger = KEYS
        signature = signing.decode(key.sign(Purpose.REPORT, text))
        data = text.encode()
        assert signing.verify(key.public_key, Purpose.REPORT, data, signature)
        assert not signing.verify(key.public_key, Purpose.HELLO, data, signature)
        assert not signing.verify(key.public_key, Purpose.REPORT, data + b" ", signature)
        assert not signing.verify(stranger.public_key, Purpose.REPORT, data, signature)

    @given(st.binary(max_size=80), st.binary(max_size=80))
    def test_garbage_never_verifies_and_never_raises(self, public_key, signature):
        assert not signing.verify(public_key, Purpose.REPORT, b"text", signature)

    def test_a_key_survives_being_stored(self, tmp_path):
        path = tmp_path / "key.pem"
        path.write_bytes(KEYS[0].pem())
        assert NodeKey.load(path).kid == KEYS[0].kid

    @pytest.mark.parametrize("text", ["", "not a key", "-----BEGIN PRIVATE KEY-----\n"])
    def test_a_file_that_is_no_key_says_so(self, tmp_path, text):
        path = tmp_path / "key.pem"
        path.write_text(text)
        with pytest.raises(signing.KeyUnreadable):
            NodeKey.load(path)

    @pytest.mark.parametrize("text", ["", "AAAA", "%%%", "A" * 44, signing.encode(b"x" * 33)])
    def test_a_public_key_is_32_bytes_of_base64(self, text):
        if text == "A" * 44:
            text = text[:-1] + "!"
        with pytest.raises(signing.KeyUnreadable):
            signing.public_key(text)


KEYS = (NodeKey.generate(), NodeKey.generate())


def test_the_protocol_and_the_agent_run_without_django():
    code = (
        "import sys; import bettercompute.agent.daemon, bettercompute.simulator.fleet;"
        " sys.exit('django' in sys.modules or 'psycopg' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
