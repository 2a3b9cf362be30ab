"""Join tokens of the caller's tenant, without their secrets."""

from domain import errors, join_token
from domain.operation import Answer, Listing, Operation, Page
from queries.reading import Reader, listed, tenants


class List(Listing, frozen=True, kw_only=True):
    site_id: str | None = None


def list_(query: List, read: Reader) -> Answer:
    sql = """
    SELECT created_at, id, view FROM join_tokens
    WHERE (%s::text IS NULL OR tenant_id = %s) AND (%s::text IS NULL OR site_id = %s)
    """
    tenant = tenants(query, read)
    return listed(read, query, sql, (tenant, tenant, query.site_id, query.site_id))


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
        refusals=(errors.AccessDenied, errors.ProjectionBehind),
        columns=("id", "siteId", "trust", "role", "used", "uses", "expiresAt", "revoked"),
    ),
)
