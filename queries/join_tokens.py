"""Join tokens of the caller's tenant, without their secrets."""

from domain import errors, join_token
from domain.operation import Answer, KnownListing, Operation, Page
from queries import past
from queries.reading import Reader, filters


class List(KnownListing, frozen=True, kw_only=True):
    site_id: str | None = None


ROWS = past.rows(
    "join_tokens",
    mine="(%(tenant)s::text IS NULL OR tenant_id = %(tenant)s)",
    wanted="(%(site_id)s::text IS NULL OR site_id = %(site_id)s)",
)


def list_(query: List, read: Reader) -> Answer:
    return past.listed(read, query, ROWS, filters(query, read), join_token.view)


OPERATIONS = (
    Operation(
        name="joinTokens.list",
        verb="GET",
        path="/v1/join-tokens",
        request=List,
        response=Page[join_token.View],
        on=("compute-tenant/{acting}",),
        handle=list_,
        summary="List join tokens",
        refusals=(errors.AccessDenied, errors.ProjectionBehind, errors.HistoryPruned),
        columns=("id", "siteId", "trust", "role", "used", "uses", "expiresAt", "revoked"),
    ),
)
