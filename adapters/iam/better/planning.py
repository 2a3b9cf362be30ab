"""What a list may show, as `filters/plan` answers it, decoded strictly (iam.md §19)."""

import msgspec
from msgspec import Struct

from adapters.iam.better.answers import Unknown
from domain.access import Plan
from domain.policy import matching


class Planned(Struct, frozen=True, rename="camel"):
    """A plan repeats what it was asked, so that it can be no other question's."""

    tenant_id: str
    action: str
    type: str
    kind: str
    filter: msgspec.Raw = msgspec.Raw(b"null")


def plan_of(planned: Planned, asked: tuple[str, str, str]) -> Plan:
    """The plan; of a form that is not agreed it is none."""
    if (planned.tenant_id, planned.action, planned.type) != asked:
        raise Unknown("its plan is one for another question")
    match planned.kind:
        case "always":
            return Plan("always")
        case "never":
            return Plan("never")
        case "conditional":
            try:
                return Plan("conditional", matching.parse(msgspec.json.decode(planned.filter)))
            except (msgspec.MsgspecError, RecursionError, matching.InvalidFilter):
                raise Unknown("its plan has a filter of another form than was agreed") from None
        case _:
            raise Unknown("its plan is of an unknown kind")
