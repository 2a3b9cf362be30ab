"""What tenants do with instances, in a pool for them."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from domain import errors, flavor, instance_life
from histories import invariants, room
from histories.fleet import SIZES, TENANTS, session
from histories.model import FINAL
from histories.process import ROOT

if TYPE_CHECKING:
    from histories.history import History

ONE = st.integers(0, 1)
PICK = st.integers(0, 1 << 16)


class Launching(RuleBasedStateMachine):
    of: "History"
    made: list[str]
    launched: list[str]
    budget_check: str
    for_instances = False

    @precondition(lambda self: self.for_instances)
    @rule(
        by=ONE,
        tenant=st.sampled_from(TENANTS),
        size=st.integers(0, len(SIZES) - 1),
        loss=st.sampled_from(["fail", "replace"]),
        waits=st.sampled_from([None, None, 0, 1800]),
    )
    def launch(self, by: int, tenant: str, size: int, loss: str, waits: int | None) -> None:
        """It brings a reservation without an end."""
        process, asked, now = self.of.processes[by], flavor.claim(SIZES[size]), self.of.clock.now
        must = (
            not process.behind
            and self.budget_check == "off"
            and not self.of.model.waiting()
            and room.fits(self.of.model, asked, now, invariants.NO_END, self.of.gap_ms)
        )
        try:
            made = self._launch(by, tenant, size, on_node_loss=loss, max_pending_seconds=waits)
        except errors.NotFound:
            assert self.of.model.offer(tenant, ROOT) is None
        except errors.DoubleBooked:
            assert waits == 0, "a full pool is not an error"
            assert not must, "there was room for it"
        except errors.QuotaExceeded:
            scopes = [one for one in invariants.scopes(self.of.model, tenant, None) if one is not None]
            assert invariants.over_quota(self.of.model, scopes, invariants.amounts(asked), now, invariants.NO_END)
        except errors.BudgetExceeded:
            assert self.budget_check != "off"
        else:
            self.of.note()
            under = self.of.model.reservations[made.reservation_id]
            assert under.status in (("placed", "binding") if must else ("placed", "binding", "pending"))

    def _launch(self, by: int, tenant: str, size: int, **fields: Any) -> Any:
        fleet = self.of.fleet
        answer = self.of.processes[by].ask(
            "instances.create",
            session(tenant),
            f"key-{self.of.new_id('key')}",
            name="web",
            pool_id=fleet.pool_id,
            flavor_id=fleet.flavors[size],
            image_id=fleet.image_id,
            **fields,
        )
        self.launched.append(answer.body.id)
        return answer.body

    @precondition(lambda self: self.for_instances and self.made)
    @rule(by=ONE, pick=PICK, size=st.integers(0, len(SIZES) - 1))
    def launch_on(self, by: int, pick: int, size: int) -> None:
        """On a reservation that its tenant made: one at a time, of what it has."""
        under = self.of.model.reservations[self.made[pick % len(self.made)]]
        with suppress(errors.Invalid, errors.Conflict, errors.NotFound):
            self._launch(by, under.draft.tenant_id, size, reservation_id=under.id)
            self.of.note()
            assert under.status in ("pending", "placed", "binding", "active")

    @precondition(lambda self: self.for_instances and self.launched)
    @rule(by=ONE, pick=PICK, verb=st.sampled_from(["start", "stop", "delete", "delete", "release", "evict"]))
    def act_on_instance(self, by: int, pick: int, verb: str) -> None:
        of, process = self.of.model.instances[self.launched[pick % len(self.launched)]], self.of.processes[by]
        who, under = session(of.draft.tenant_id), of.draft.reservation_id
        match verb:
            case "evict":
                with suppress(errors.NotFound):
                    fields = {"reservation_id": under, "reason": "test"}
                    process.ask("pools.evict", session(ROOT), id=self.of.fleet.pool_id, **fields)
            case "release":
                try:
                    process.ask("reservations.release", who, id=under)
                except errors.Conflict:
                    assert of.draft.owned or self.of.model.reservations[under].status not in ("binding", "active")
                else:
                    over = self.of.model.reservations[under].status in FINAL
                    assert over or not of.draft.owned, "it is the instance's"
            case _:
                try:
                    process.ask(f"instances.{verb}", who, id=of.id)
                except errors.IllegalTransition:
                    assert of.over or of.status not in instance_life.VERBS[verb]
