"""Everything that tenants, operators, hosts and time may do, in any order that hypothesis finds.

After each step the worker does what is due and the hosts say what they say, until nothing changes;
then what is shown must be what the model says. In the end everything ends, and all is given back.
"""

from collections import Counter
from collections.abc import Hashable
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from bettercompute import clock
from nodes import eligibility
from pools import quota
from tests.support import cast, invariants, supply
from tests.support.model import entries, steps
from tests.support.model.disagreement import require
from tests.support.model.entries import Entry, Refusal
from tests.support.model.ground import Node
from tests.support.model.product import (
    LIMITS,
    READERS,
    SETTLING_ROUNDS_MAX,
    Host,
    Product,
    one_chance,
    undone,
)
from tests.support.model.reference import Reference

GRID = 10 * entries.MINUTE


class Machine(RuleBasedStateMachine):
    """One run against one product, which forgets it afterwards."""

    product: Product  # of the test, made once
    limits: dict[str, dict[str, int]]
    seen: Counter[Hashable]  # of all runs together

    def __init__(self) -> None:
        super().__init__()
        self._undoing = ExitStack()
        self._undoing.enter_context(undone())
        self._undoing.enter_context(one_chance(0))
        self.product.begin()
        self.hosts = self.product.hosts
        self.model = Reference(self.product.pools, self.product.nodes(), self.limits)
        self.keys = 0
        self.agrees = True
        for host in self.hosts:
            host.begin_anew()

    @initialize(beginning=steps.BEGINNINGS)
    def begin(self, beginning: tuple[list[tuple[str, dict[str, Any]]], tuple[str, ...]]) -> None:
        """Somebody is there already."""
        wishes, manners = beginning
        for host, manner in zip(self.hosts, manners, strict=True):
            host.manner = manner
        for who, wish in wishes:
            self._create_new(who, wish)

    @rule(what=steps.STEPS)
    def step(self, what: tuple[Any, ...]) -> None:
        """Somebody does something, something happens, or time passes."""
        match what:
            case "create", who, wish:
                self._create_new(who, wish)
            case "change", which, who, change:
                self._change(which, who, change)
            case "fault", fault:
                self._happen(*fault)
            case "pass", step:
                self._pass(self._milliseconds(step))

    # --- tenants --------------------------------------------------------------------------------

    def _create_new(self, who: str, wish: dict[str, Any]) -> None:
        """Ask for something new; look first whether it fits."""
        body = self._body(who, wish)
        self._preview(who, body)
        self.keys += 1
        self._create(who, f"key-{self.keys}", body)

    def _change(self, which: tuple[bool, int], who: str, change: dict[str, Any]) -> None:
        """Extend, renew, end or ask again for one, which perhaps is somebody else's."""
        of = self._pick(which, verb=change["verb"])
        if of is None:
            return
        who = self._owner(of) if who == steps.OWNER else who
        match change["verb"]:
            case "extend":
                self._extend(of, who, change)
            case "renew":
                self._renew(of, who)
            case "ask_how_long":
                self._ask_how_long(of)
            case "create_again":
                self._create(self._owner(of), of.key, of.body)
            case "create_another":
                self._create(self._owner(of), of.key, {**of.body, "duration": of.duration + 1})
            case verb:
                self._end(of, who, cancel=verb == "cancel")

    # --- time, hosts and operators --------------------------------------------------------------

    def _happen(self, name: str, number: int, how: Any) -> None:
        """Something happens to a host, or is over again."""
        host = self.hosts[number]
        node = self.model.ground.nodes[host.row.pk]
        match name:
            case "behave":
                host.manner = how
            case "cordon":
                (eligibility.cordon if how else eligibility.uncordon)(node.id)
                node.cordoned = how
            case "lose_contact":
                (eligibility.mark_unreachable if how else eligibility.mark_ready)(node.id)
                node.reachable = not how
            case "enforce_limits":
                eligibility.set_system_labels(node.id, LIMITS if how else {})
                node.enforces_limits = how
            case "change_size":
                host.vcpu, node.vcpu = how, how - 2
                host.take_stock()
            case "change_quota":
                self._change_quota(how)
            case "fall_ill":
                self._fall_ill(host, node, *how)
            case "quarantine":
                self._quarantine(node, *how)
        self._settle()

    def _fall_ill(self, host: Host, node: Node, gpu: int, sick: bool) -> None:
        index = gpu % host.gpus
        (host.sick.add if sick else host.sick.discard)(index)
        host.take_stock()
        every = supply.devices(host.row)
        node.sick = {every[each] for each in host.sick}

    def _quarantine(self, node: Node, number: int, quarantined: bool) -> None:
        """By an operator, who ends none while a node may still hold the device."""
        device = sorted(node.devices)[number % len(node.devices)]
        if any(device in held.devices for held in self.model.held.values()):
            return
        if quarantined:
            eligibility.quarantine(device, reason="looked at")
            node.quarantined.add(device)
        else:
            eligibility.end_quarantine(device)
            node.quarantined.discard(device)

    def _change_quota(self, gpus: int) -> None:
        """A tenant may hold less, or more; what is held stays."""
        tenant = self.product.who["alice"].tenant
        quota.set_max(tenant, quota.GPU_MILLI, gpus * 1_000)
        self.model.limits[tenant]["gpuMilli"] = gpus * 1_000

    # --- calls ----------------------------------------------------------------------------------

    def _body(self, who: str, wish: dict[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {
            "tenantId": self.product.who[who].tenant,
            "poolId": self.product.pools[wish["pool"]].id,
            "devices": [wish["line"]],
            "duration": wish["minutes"] * entries.MINUTE,
        }
        if wish["start"] is not None:
            body["start"] = (self.now // GRID + wish["start"]) * GRID
        if wish["gang"] is not None and isinstance(wish["line"]["count"], int):
            body["gang"] = dict(zip(("nodes", "topology"), wish["gang"], strict=True))
        if wish["lease"] is not None:
            body["leaseSeconds"] = wish["lease"]
        if wish["vcpu"] is not None:
            body["resources"] = {"vcpu": wish["vcpu"]}
        return body

    def _extend(self, of: Entry, who: str, how: dict[str, Any]) -> None:
        caller, until = self.product.who[who], how["until"]
        body = {"by": how["by"]} if until is None else {"until": (self.now // GRID + until) * GRID}
        expected = self.model.expect_extend(caller, of, how["key"], body)
        sent = {"tenantId": caller.tenant, "idempotencyKey": how["key"], **body}
        answer = self._post(who, of, "extend", expected, sent)
        if isinstance(expected, Refusal):
            return
        extended, bound = expected
        self.model.seen["extended" if extended else "not extended", bound is None] += 1
        said = (answer["extended"], answer["availableUntil"])
        require(said == (extended, bound), f"extend answered {said}, not {expected}: {of}")
        if extended:
            self.model.extended(caller, of, how["key"], body)
        self._settle()

    def _ask_how_long(self, of: Entry) -> None:
        who = self._owner(of)
        answer = self.product.api[who].get(f"/reservations/{of.id}/extension?tenantId={of.tenant}")
        if of.state not in entries.HOLDING:
            cast.problem(answer, 409, "INVALID_STATE")
            return
        said, bound = answer.json()["availableUntil"], self.model.bound(of)
        require(said == bound, f"could go on until {said}, not {bound}: {of}")

    def _renew(self, of: Entry, who: str) -> None:
        caller = self.product.who[who]
        expected = self.model.expect_renew(caller, of)
        self._post(who, of, "renew", expected, {"tenantId": caller.tenant})
        if expected is None:
            self.model.renewed(of, self.now)
            self.model.seen["renewed"] += 1
            self._settle()

    def _end(self, of: Entry, who: str, *, cancel: bool) -> None:
        caller = self.product.who[who]
        expected = self.model.expect_end(caller, of, self.now, cancel=cancel)
        verb = "cancel" if cancel else "release"
        self._post(who, of, verb, expected, {"tenantId": caller.tenant})
        if expected is None:
            self.model.ended(of, self.now, cancel=cancel)
            self._settle()

    # --- what each step does --------------------------------------------------------------------

    @property
    def now(self) -> int:
        """Simulated time."""
        return clock.now_ms()

    def _pick(self, which: tuple[bool, int], *, verb: str) -> Entry | None:
        """One that is there, the last made first; mostly one that the verb is good for."""
        likely, number = which
        again = verb.startswith("create")
        every = [entry for entry in self.model.entries.values() if entry.id or again]
        if likely and not again:
            lasting = verb in {"extend", "renew", "ask_how_long"}
            states = entries.HOLDING if lasting else entries.HOLDING | {"pending"}
            every = [entry for entry in every if entry.state in states]
        return every[-1 - number % len(every)] if every else None

    def _owner(self, of: Entry) -> str:
        return next(name for name, who in self.product.who.items() if who.id == of.owner)

    def _preview(self, who: str, body: dict[str, Any]) -> None:
        """It says what the create after it does."""
        caller = self.product.who[who]
        answer = self.product.api[who].post("/capacity/preview", body)
        if caller.tenant not in self._pool(body).tenants:
            cast.problem(answer, 404, "NOT_FOUND")
            return
        said = answer.json()
        fits = self.model.would_fit(caller, body, self.now)
        require(said["fits"] == fits, f"preview says {said}, the model {fits}")
        if said["earliest"] is not None:
            then = self.model.would_fit(caller, body, self.now, start=said["earliest"])
            require(then, f"preview says that it fits at {said['earliest']}: {body}")

    def _create(self, who: str, key: str, body: dict[str, Any]) -> None:
        caller = self.product.who[who]
        expected = self.model.expect_create(caller, key, body, self.now)
        answer = self.product.api[who].post("/reservations", {**body, "idempotencyKey": key})
        if expected == entries.NOT_FOUND:
            cast.problem(answer, expected.status, expected.code)
            return
        entry = self.model.asked(caller, key, body, self.now)
        if isinstance(expected, Refusal):
            self._check_refusal(answer, expected, entry)
            if expected == entries.DENIED:
                self.model.denied(entry)
        else:
            require(answer.status_code == expected, f"{answer.status_code}, not {expected}")
            self._acknowledged(entry, answer.json(), new=expected == 201)
        self._settle()

    def _acknowledged(self, entry: Entry, shown: dict[str, Any], *, new: bool) -> None:
        require(entry.id in {"", shown["id"]}, f"{shown['id']} is another than {entry.id}")
        if not new:
            return
        self.model.created(entry, shown, self.now)
        if shown["poolId"] == self.product.pools[1].id:
            require(shown["state"] == "pending", f"the placer has yet to look: {shown}")
        else:
            placed = "placed" if self.model.fits_now(entry, self.now) else "pending"
            require(shown["state"] == placed, f"not {placed}: {shown}")

    def _check_refusal(self, answer: Any, expected: Refusal, entry: Entry) -> None:
        self.model.seen[expected] += 1
        problem = cast.problem(answer, expected.status, expected.code)
        if expected == entries.CONFLICT and entry.id:
            require(problem["details"]["reservationId"] == entry.id, f"names another: {problem}")

    def _post(self, who: str, of: Entry, verb: str, expected: object, body: dict[str, Any]) -> Any:
        answer = self.product.api[who].post(f"/reservations/{of.id}/{verb}", body)
        if isinstance(expected, Refusal):
            self.model.seen[verb, expected.code] += 1
            cast.problem(answer, expected.status, expected.code)
            return None
        require(answer.status_code == 200, f"{verb} answered {answer.content!r}: {of}")
        return answer.json()

    def _pool(self, body: dict[str, Any]) -> Any:
        return self.model.pools[body["poolId"]]

    def _pass(self, milliseconds: int) -> None:
        clock.advance_sim_clock(timedelta(milliseconds=milliseconds))
        self._settle(all_looked=milliseconds >= entries.REPAIR_RETRY)

    def _milliseconds(self, step: str) -> int:
        if step in {"next", "before"}:
            ahead = min(self.model.moments(self.now), default=self.now + entries.MINUTE) - self.now
            return ahead if step == "next" else max(ahead - 1, 1)
        units = {"s": entries.SECOND, "m": entries.MINUTE, "h": entries.HOUR}
        return int(step[:-1]) * units[step[-1]]

    def _settle(self, *, all_looked: bool = False) -> None:
        """Let worker and hosts have their way until nothing changes, and compare each time."""
        self.agrees = False
        if self.model.has_abandoned(self.now):
            self.product.resync()  # nobody is told of a draft: what is due is found then
        for _ in range(SETTLING_ROUNDS_MAX):
            self.product.work()
            self.model.observe(self.product.shown(), self.now, all_looked=all_looked)
            said = [each for host in self.hosts for each in host.speak().items()]
            for allocation, what in said:
                self.model.heard(allocation, what, self.now)
            if not said:
                self._compare_sums()
                self.agrees = True
                return
        raise AssertionError("worker and hosts never come to rest")

    def _compare_sums(self) -> None:
        for slug, name in READERS.items():
            used, charged = self.product.used(slug), self.model.used(self.product.who[name].tenant)
            require(used == charged, f"{slug} is charged {used}, not {charged}")
        said = self.product.quarantined()
        nodes = self.model.ground.nodes.values()
        known = {device for node in nodes for device in node.quarantined}
        require(said == known, f"quarantined: {said}, not {known}")

    # --- the end --------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Everything ends, and all of it is given back."""
        try:
            if self.agrees:
                self._end_all()
        finally:
            self.seen.update(self.model.seen)
            self._undoing.close()

    def _end_all(self) -> None:
        for host in self.hosts:
            host.manner = "prompt"
        for entry in self.model.entries.values():
            if entry.state not in entries.OVER | {"draft"}:
                admin = READERS[self._slug(entry)]
                self._post(admin, entry, "release", None, {"tenantId": entry.tenant})
                self.model.ended(entry, self.now, cancel=False)
        self._pass(11 * entries.HOUR)
        require(not self.model.held, f"still held: {self.model.held}")
        require(invariants.held() == [], f"never given back: {invariants.held()}")
        require(invariants.violations() == [], f"broken: {invariants.violations()}")

    def _slug(self, entry: Entry) -> str:
        return next(
            slug for slug, name in READERS.items() if self.product.who[name].tenant == entry.tenant
        )
