"""What a reservation's page says: commands to copy, advice, and the stations of its life."""

import json
import shlex
from datetime import UTC, timedelta
from typing import Any

import pytest

from bettercompute import clock
from bettercompute.states import ReservationState
from bettercompute.wire.reasons import Filter, Reason
from bettercompute.wire.reservations import Condition, NodeBinding, Reservation
from reservations import commands, timing
from reservations.pages import advice, presentation, preview_panel, stations
from reservations.pages.presentation import Names
from reservations.pages.stations import Life
from tests.support import answers

NOW = clock.from_ms(answers.NOW_MS)
REQUEST = answers.reservation()["request"]


def shown(state="active", **changes):
    return Reservation.model_validate_json(json.dumps(answers.reservation(state, **changes)))


def calls(reservation):
    made = commands.calls(reservation, "main", "https://compute.example.org")
    return {command.id: command.text for command in made}


def condition(kind, reason=""):
    return Condition(type=kind, status="True", reason=reason, message="told", since=answers.NOW_MS)


class TestCommands:
    def test_devices_are_named_and_quoted_for_the_shell(self):
        binding = NodeBinding(
            node_id="node_1",
            cdi_devices=["bcd.dev/gpu=GPU-1", "odd one"],
            env_file="/run/bcd/it's.env",
            cgroup_parent=None,
            attested=False,
        )
        docker, podman, shell = commands.on_node("alloc_1", binding)
        words = shlex.split(docker.text.replace("\\\n", " "))
        assert words[:3] == ["docker", "run", "--rm"]
        assert [words[n + 1] for n, word in enumerate(words) if word == "--device"] == [
            "bcd.dev/gpu=GPU-1",
            "odd one",
        ]
        assert "--cgroup-parent" not in words
        assert podman.text == docker.text.replace("docker", "podman", 1)
        assert shlex.split(shell.text)[3] == "/run/bcd/it's.env;"

    def test_a_slice_of_its_own_is_passed_on(self):
        (allocation,) = shown().allocations
        docker, *_ = commands.on_node(allocation.id, allocation.binding)
        assert "--cgroup-parent bcd-alloc-alloc_1.slice" in docker.text

    def test_a_plain_request_is_one_command_line(self):
        request = REQUEST | {
            "devices": [{"class": "gpu", "count": 2, "topology": "nvlink-all"}],
            "start": answers.NOW_MS,
            "spot": True,
        }
        assert calls(shown(request=request))["call-reserve"] == (
            "better-compute reserve --pool main --gpus 2 --for 8h --topology nvlink-all"
            " --start 2026-03-02T09:00:00.000Z --spot --wait"
        )

    @pytest.mark.parametrize(
        "beyond",
        [
            {"devices": [{"class": "gpu.mig", "count": 1, "profile": "1g.10gb"}]},
            {"devices": [{"class": "gpu", "count": {"min": 2, "max": 4}}]},
            {"devices": [{"class": "gpu", "count": 1}, {"class": "gpu", "count": 1}]},
            {"binding": "node"},
            {"gang": {"nodes": 2}},
        ],
    )
    def test_what_has_no_plain_flag_is_left_to_the_api(self, beyond):
        made = calls(shown(request=REQUEST | beyond))
        assert "call-reserve" not in made
        assert "call-curl" in made

    def test_the_curl_command_asks_for_the_same_with_a_key_of_its_own(self):
        words = shlex.split(calls(shown())["call-curl"].replace("\\\n", " "))
        body = json.loads(words[-1])
        assert words[1] == "https://compute.example.org/api/v1/reservations"
        assert (body["devices"], body["duration"]) == (REQUEST["devices"], REQUEST["duration"])
        assert (body["tenantId"], body["poolId"]) == (answers.TENANT_ID, answers.POOL_ID)
        assert body["idempotencyKey"] != shown().idempotency_key


class TestLength:
    def test_it_is_that_of_the_window_also_once_extended(self):
        during = {"start": answers.NOW_MS, "end": answers.NOW_MS + 12 * answers.HOUR_MS}
        extended = shown(during=during)
        assert timing.of(extended).length_ms == 12 * answers.HOUR_MS
        assert "--for 8h" in calls(extended)["call-reserve"]  # the same request again

    def test_without_a_window_it_is_what_was_asked_for(self):
        assert timing.of(shown("pending")).length_ms == 8 * answers.HOUR_MS


class TestDetails:
    def test_they_name_the_model_that_was_asked_for(self):
        line = {"class": "gpu", "count": 1, "selector": [{"key": "model", "value": "A100"}]}
        waiting = shown("pending", request={**REQUEST, "devices": [line]})
        page = presentation.page(
            waiting,
            Life(),
            Names({}, {}, {}, {}),
            now=NOW,
            zone=UTC,
            origin="",
            shares=False,
            sees_ask=False,
        )
        assert page.what == "1 × A100 in pool_main"
        assert ("Asked for", "1 × A100") in [(fact.label, fact.value) for fact in page.facts]


class TestAdvice:
    def test_the_reason_says_more_than_the_type(self):
        assert advice.on(condition("Degraded", "NodeUnreachable")).title == "A node does not answer"

    def test_a_type_has_advice_where_the_reason_has_none(self):
        assert advice.on(condition("EndingSoon", "TimeIsNearlyUp")).title == "It ends soon"

    def test_what_nobody_foresaw_keeps_its_name(self):
        found = advice.on(condition("Degraded", "Meteor"))
        assert (found.title, found.text, found.tone) == ("Meteor", "", "amber")


class TestReasons:
    def said(self, **values: Any) -> str:
        found = preview_panel.reason(Reason(**values), now=clock.from_ms(answers.NOW_MS), zone=UTC)
        return f"{found.title}. {found.text}"

    def test_what_nodes_lack_is_said_as_what_they_would_need(self) -> None:
        said = self.said(filter=Filter.BUSY, needs="2 GPUs free", nodes=4, samples=["gpu-01"])
        assert said.startswith(
            "Devices are booked in that window: 4 nodes. Needs 2 GPUs free. For instance gpu-01."
        )

    def test_what_a_policy_says_stands_for_itself(self) -> None:
        said = self.said(filter=Filter.POLICY, needs="at most 8 GPUs at once")
        assert "At most 8 GPUs at once." in said


class TestStations:
    def phases(self, state, **life):
        made = stations.steps(shown(state), Life(**life), now=NOW, zone=UTC)
        return {step.label: step.phase for step in made}

    def test_those_ahead_of_the_present_one_are_later(self):
        assert self.phases("binding", placed_at=NOW) == {
            "Requested": "done",
            "Placed": "done",
            "Binding": "now",
            "Active": "later",
            "End": "later",
        }

    def test_a_pending_one_waits_for_devices(self):
        assert self.phases("pending")["Waiting for devices"] == "now"

    def test_once_over_only_what_was_reached_is_listed(self):
        ended = NOW + timedelta(hours=1)
        passed = self.phases("released", placed_at=NOW, ended_at=ended)
        assert passed == {"Requested": "done", "Placed": "done", "Released": "done"}

    def test_a_failure_is_bad_news(self):
        assert self.phases("failed", ended_at=NOW)["Failed"] == "bad"

    @pytest.mark.parametrize("state", ReservationState)
    def test_every_state_has_stations(self, state):
        assert self.phases(state)
