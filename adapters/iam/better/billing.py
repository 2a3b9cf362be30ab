"""Whether a caller may spend more, asked of Better IAM with the caller's own bearer (iam.md §16)."""

import logging
from typing import Final

from msgspec import Struct

from adapters.iam.better.answers import Failed
from adapters.iam.better.authorizer import bearer
from adapters.iam.better.client import Client
from domain import errors
from domain.access import Session

log = logging.getLogger(__name__)

NAME: Final = 100
"""Characters of a budget's name that are told."""


class _Budget(Struct, frozen=True):
    name: str = ""


class _Check(Struct, frozen=True, rename="camel"):
    allowed: bool
    blocked_by: _Budget | None = None


class Billing:
    """Standings there are up to half a minute old; what is spent meanwhile is not seen."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def refuses(self, session: Session) -> str | None:
        try:
            check = self._client.call("billing/check", {"tenantId": session.tenant_id}, _Check, bearer(session))
        except Failed as no:
            log.warning("billing/check: %s", no)
            return f"Better IAM does not say whether more may be spent ({no.code}), and this pool wants to know"
        except errors.Unavailable:
            return "Better IAM cannot be asked whether more may be spent, and this pool wants to know"
        if check.allowed:
            return None
        name = check.blocked_by.name[:NAME] if check.blocked_by else ""
        return f"Better IAM's budget {name!r} is spent" if name else "a budget of Better IAM is spent"
