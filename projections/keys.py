"""What may exist once: names, offers of a pool to a tenant, join secrets, idempotency keys, live hardware."""

from collections.abc import Iterator

from domain import admission, flavor, image, join_token, node, offering, pool, project, site
from domain.event import Recorded
from projections.projection import Inline, Phase, Statement

TABLES = """
CREATE TABLE unique_keys (
    kind text NOT NULL,
    scope text NOT NULL,
    key text NOT NULL,
    holder text NOT NULL,
    PRIMARY KEY (kind, scope, key)
);
CREATE TABLE replays (
    key text PRIMARY KEY,
    admission_id text NOT NULL,
    body text NOT NULL,
    stream text NOT NULL,
    version bigint NOT NULL,
    status integer NOT NULL
);
CREATE TABLE hardware_identifiers (
    identifier text PRIMARY KEY,
    nodes text[] NOT NULL
);
CREATE INDEX hardware_identifiers_nodes ON hardware_identifiers USING gin (nodes) WITH (fastupdate = off);
"""
"""Without `fastupdate`: each join would read all that others left in the index's pending list, 4 MB at most."""


def _take(kind: str, scope: str, key: str, holder: str) -> Statement:
    sql = "INSERT INTO unique_keys (kind, scope, key, holder) VALUES (%s, %s, %s, %s)"
    return Statement(Phase.KEY, f"{kind}/{scope}/{key}", sql, (kind, scope, key, holder))


def _give_back(kind: str, scope: str, key: str) -> Statement:
    sql = "DELETE FROM unique_keys WHERE kind = %s AND scope = %s AND key = %s"
    return Statement(Phase.KEY, f"{kind}/{scope}/{key}", sql, (kind, scope, key))


def _hardware(stream: str, event: node.Inventoried) -> Iterator[Statement]:
    """The decision saw which live nodes share an identifier; a rival that came or went makes it decide again.

    The guard looks once every node of the append has its identifiers: its key sorts behind theirs.
    """
    locking = """
    SELECT 1 FROM hardware_identifiers WHERE nodes @> ARRAY[%s] OR identifier = ANY(%s)
    ORDER BY identifier FOR NO KEY UPDATE
    """
    leaving = """
    UPDATE hardware_identifiers SET nodes = array_remove(nodes, %s)
    WHERE nodes @> ARRAY[%s] AND NOT identifier = ANY(%s)
    """
    identifiers = sorted(event.identifiers)
    yield Statement(Phase.KEY, f"hardware/{stream}", locking, (stream, identifiers), True)
    yield Statement(Phase.KEY, f"hardware/{stream}", leaving, (stream, stream, identifiers))
    taking = """
    INSERT INTO hardware_identifiers (identifier, nodes)
    SELECT identifier, ARRAY[%s] FROM unnest(%s::text[]) AS given (identifier)
    ON CONFLICT (identifier) DO UPDATE
        SET nodes = array_append(array_remove(hardware_identifiers.nodes, %s), %s)
    """
    yield Statement(Phase.KEY, f"hardware/{stream}", taking, (stream, identifiers, stream, stream))
    guard = """
    SELECT refuse('RACE', jsonb_build_object('nodes', array_agg(other)))
    FROM (
        (SELECT other FROM hardware_identifiers, unnest(nodes) AS other WHERE identifier = ANY(%s) AND other <> %s
         EXCEPT SELECT unnest(%s::text[]))
        UNION ALL
        (SELECT unnest(%s::text[])
         EXCEPT SELECT other FROM hardware_identifiers, unnest(nodes) AS other WHERE identifier = ANY(%s))
    ) AS unseen (other)
    HAVING count(*) > 0
    """
    shared = list(event.shared_with)
    params = (identifiers, stream, shared, shared, identifiers)
    yield Statement(Phase.KEY, f"shared/{stream}", guard, params, True)


def _of_node(stream: str, event: node.Events) -> Iterator[Statement]:
    match event:
        case node.Joined():
            yield _take("node", event.site_id, event.name, stream)
            yield _take("agent key", "", event.public_key, stream)
        case node.Rekeyed():
            yield _give_back("agent key", "", event.former_key)
            yield _take("agent key", "", event.public_key, stream)
        case node.Inventoried():
            yield from _hardware(stream, event)
        case node.Moved(provision="retired"):
            freeing = "DELETE FROM unique_keys WHERE kind = 'node' AND holder = %s"
            yield Statement(Phase.KEY, f"node/{stream}", freeing, (stream,))
            locking = """
            SELECT 1 FROM hardware_identifiers WHERE nodes @> ARRAY[%s] ORDER BY identifier FOR NO KEY UPDATE
            """
            yield Statement(Phase.KEY, f"hardware/{stream}", locking, (stream,), True)
            leaving = "UPDATE hardware_identifiers SET nodes = array_remove(nodes, %s) WHERE nodes @> ARRAY[%s]"
            yield Statement(Phase.KEY, f"hardware/{stream}", leaving, (stream, stream))
        case _:
            pass


def fold(recorded: Recorded) -> Iterator[Statement]:
    stream = recorded.stream
    match recorded.event:
        case site.Created() as event:
            yield _take("site", event.owner_tenant_id, event.name, stream)
        case site.Renamed() as event:
            yield _give_back("site", event.owner_tenant_id, event.former)
            yield _take("site", event.owner_tenant_id, event.name, stream)
        case pool.Created() as event:
            yield _take("pool", event.owner_tenant_id, event.name, stream)
        case pool.Renamed() as event:
            yield _give_back("pool", event.owner_tenant_id, event.former)
            yield _take("pool", event.owner_tenant_id, event.name, stream)
        case pool.Retired() as event:
            yield _give_back("pool", event.owner_tenant_id, event.name)
        case project.Created() as event:
            yield _take("project", event.owner_tenant_id, event.name, stream)
        case project.Archived() as event:
            yield _give_back("project", event.owner_tenant_id, event.name)
        case flavor.Created() as event:
            yield _take("flavor", event.owner_tenant_id, event.name, stream)
        case flavor.Retired() as event:
            yield _give_back("flavor", event.owner_tenant_id, event.name)
        case image.Registered() as event:
            yield _take("image", event.owner_tenant_id, f"{event.name}@{event.version}", stream)
        case offering.Offered() as event:
            yield _take("offering", event.pool_id, event.tenant_id, stream)
        case offering.Withdrawn() as event:
            yield _give_back("offering", event.pool_id, event.tenant_id)
        case join_token.Created() as event:
            yield _take("join secret", "", event.secret_sha256, stream)
        case admission.Admitted(replay=admission.Replay() as kept):
            sql = """
            INSERT INTO replays (key, admission_id, body, stream, version, status)
            VALUES (%s, %s, %s, %s, %s, %s)
            """
            params = (kept.key, stream, kept.body, kept.stream, kept.version, kept.status)
            yield Statement(Phase.KEY, f"replay/{kept.key}", sql, params)
        case event if stream.startswith("node_"):
            yield from _of_node(stream, event)  # type: ignore[arg-type]
        case _:
            pass


PROJECTION = Inline("keys", TABLES, fold)
