"""One node's agent at work: read desired, read actual, compute steps, do one, journal it.

Four loops share one session and know nothing of each other's pace: ``_follow`` keeps the newest
desired state, ``_converge`` makes it true, ``_send`` empties the journal, ``_beat`` says that this
agent lives. Each outlasts every failure of a gateway; none ever lets go of a hold because of one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from random import Random

from bettercompute.agent import bind, cdi, link, steps
from bettercompute.agent.atoms import Atoms
from bettercompute.agent.bind import Holds
from bettercompute.agent.inventory import HostInventory
from bettercompute.agent.journal import Journal
from bettercompute.agent.link import Backoff
from bettercompute.agent.session import Session
from bettercompute.agent.steps import Bind, Host, Reason, Refuse, Said, Say, Step, Unbind
from bettercompute.agent.use import Use
from nodes.protocol import messages
from nodes.protocol.messages import DesiredAnswer, ReportEntry, ReportKind
from nodes.protocol.signing import Purpose

log = logging.getLogger(__name__)

LOOK_SECONDS = 30.0  # also without a change: a hold may have been lost
SUPERSEDED_SECONDS = 2.0  # lets the other process be seen before the two take turns
STEPS_PER_LOOK_MAX = 10_000


class Daemon:
    """The agent of one node."""

    def __init__(
        self,
        session: Session,
        *,
        inventory: HostInventory,
        holds: Holds,
        journal: Journal,
        use: Use | None = None,
        random: Random | None = None,
    ) -> None:
        self.session = session
        self.holds = holds
        self._journal = journal
        self._random = random or Random()  # noqa: S311  # spreads retries, hides nothing
        self._inventory = inventory
        self._host = Host(atoms=Atoms(inventory), memory_gib=inventory.memory_gib)
        self._desired: DesiredAnswer | None = None
        self._said: dict[str, Said] = {}
        self._use = use
        self._used: set[str] = set()
        self._inventory_told = False
        self._look = asyncio.Event()
        self._journaled = asyncio.Event()
        session.resumed = self.resumed

    async def run(self) -> None:
        """Work until cancelled."""
        with contextlib.closing(self._journal):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._forever("start", self._start, once=True))
                tasks.create_task(self._forever("follow", self._follow))
                tasks.create_task(self._forever("converge", self._converge))
                tasks.create_task(self._forever("send", self._send))
                tasks.create_task(self._forever("beat", self._beat))

    def look(self) -> None:
        """Compare desired with actual soon."""
        self._look.set()

    def resumed(self, applied_seq: int) -> None:
        """A session began: go on behind what the control plane has, or tell everything again."""
        if not self._journal.resume(applied_seq):
            self._said.clear()
            self._used.clear()
            self.report_inventory()
            self._look.set()
        self._journaled.set()

    def report_inventory(self) -> None:
        """Journal what this host is made of."""
        self._inventory_told = True
        self._report(ReportKind.INVENTORY, {"inventory": self._inventory.to_wire()})

    async def _start(self) -> None:
        await self.session.ensure()
        if not self._inventory_told:
            self.report_inventory()

    async def _follow(self) -> None:
        known = -1 if self._desired is None else self._desired.generation
        self._desired = await self.session.desired(known)
        self._look.set()

    async def _converge(self) -> None:
        with contextlib.suppress(TimeoutError):
            # Not wait_for: in Python 3.11 it can swallow a cancellation, and the agent never ends.
            async with asyncio.timeout(LOOK_SECONDS):
                await self._look.wait()
        self._look.clear()
        for _ in range(STEPS_PER_LOOK_MAX):
            step = self._next_step()
            if step is None:
                break
            await self._do(step)
        self._tell_use()

    def _tell_use(self) -> None:
        """Say of each hold, once, that something uses its devices."""
        if self._use is None:
            return
        held = self.holds.read()
        self._used &= held.keys()
        bound = {key: each for key, each in held.items() if self._said.get(key) is Said.BOUND}
        for allocation_id in sorted(set(self._use.of(bound)) - self._used):
            self._report(ReportKind.ALLOCATION_USED, {"allocationId": allocation_id})
            self._used.add(allocation_id)

    async def _send(self) -> None:
        entries = self._journal.pending()
        if not entries:
            self._journaled.clear()
            await self._journaled.wait()
            return
        answer = await self.session.report(entries)
        for rejection in answer.rejected:
            log.error("report %d was rejected: %s", rejection.seq, rejection.message)
        self._journal.acknowledge(answer.applied_seq)

    async def _beat(self) -> None:
        interval = (await self.session.ensure()).heartbeat_seconds
        rest = interval - self.session.silence()
        if rest > 0:
            await asyncio.sleep(rest)
        else:
            await self.session.heartbeat()

    async def _forever(
        self, name: str, turn: Callable[[], Awaitable[None]], *, once: bool = False
    ) -> None:
        """Take turns for ever, or until one succeeds; after a failure wait, longer each time."""
        backoff = Backoff(random=self._random)
        while True:
            try:
                await turn()
            except link.Superseded as error:
                log.warning("%s: %s: another agent of this node is at work", self._name, error)
                await asyncio.sleep(SUPERSEDED_SECONDS + backoff.next())
            except (link.Unreachable, link.SessionEnded) as error:
                log.info("%s: %s: %s", self._name, name, error)
                await asyncio.sleep(backoff.next())
            except link.Refused as error:
                log.warning("%s: %s was refused: %s", self._name, name, error)
                await asyncio.sleep(backoff.most_seconds)
            except Exception:
                # The edge of a loop: a mistake of ours in one turn must not end the agent.
                log.exception("%s: %s failed", self._name, name)
                await asyncio.sleep(backoff.next())
            else:
                if once:
                    return
                backoff.reset()

    def _next_step(self) -> Step | None:
        if self._desired is None:
            return None  # nothing is known yet, so nothing is let go
        held = self.holds.read()
        listed = {each.allocation_id for each in self._desired.assignments}
        listed.update(self._desired.ending, held)
        self._said = {
            key: said for key, said in self._said.items() if key in listed or said is Said.BOUND
        }
        planned = steps.plan(
            desired=self._desired.assignments,
            ending=self._desired.ending,
            held=held,
            said=self._said,
            host=self._host,
        )
        return planned[0] if planned else None

    async def _do(self, step: Step) -> None:
        match step:
            case Unbind(allocation_id):
                await self.holds.unbind(allocation_id)
                self._released(allocation_id, Reason.ENDED)
            case Say(allocation_id, reason):
                self._released(allocation_id, reason)
            case Refuse(allocation_id, reason, message):
                self._failed(allocation_id, reason, message)
            case Bind():
                await self._bind(step)

    async def _bind(self, step: Bind) -> None:
        assignment = step.assignment
        atoms = [self._host.atoms.get(name) for name in assignment.device_ids]
        present = [atom for atom in atoms if atom is not None]
        try:
            bound = await self.holds.bind(assignment, present)
        except bind.BindFailed as error:
            self._failed(assignment.allocation_id, Reason.BIND_FAILED, str(error))
        else:
            self._bound(assignment.allocation_id, bound)

    def _bound(self, allocation_id: str, bound: cdi.Bound) -> None:
        body = {
            "allocationId": allocation_id,
            "cdiDevices": list(bound.cdi_devices),
            "envFile": bound.env_file,
            "cgroupParent": bound.cgroup_parent,
        }
        self._report(ReportKind.ALLOCATION_BOUND, body)
        self._said[allocation_id] = Said.BOUND

    def _failed(self, allocation_id: str, reason: Reason, message: str) -> None:
        body = {"allocationId": allocation_id, "reason": reason, "message": message[:1_000]}
        self._report(ReportKind.ALLOCATION_FAILED, body)
        self._said[allocation_id] = Said.FAILED

    def _released(self, allocation_id: str, reason: Reason) -> None:
        body = {"allocationId": allocation_id, "reason": reason}
        self._report(ReportKind.ALLOCATION_RELEASED, body)
        self._said[allocation_id] = Said.RELEASED

    def _report(self, kind: ReportKind, body: Mapping[str, object]) -> None:
        """Journal a report, signed, with its own place in the journal."""
        identity = self.session.identity

        def write(seq: int) -> ReportEntry:
            whole = {**body, "nodeId": identity.node_id, "seq": seq, "kind": kind}
            text = messages.canonical(whole)
            signature = identity.key.sign(Purpose.REPORT, text)
            return ReportEntry(
                seq=seq, kind=kind, body=text, signature=signature, kid=identity.key.kid
            )

        self._journal.append(write)
        self._journaled.set()

    @property
    def _name(self) -> str:
        return self.session.identity.node_id
