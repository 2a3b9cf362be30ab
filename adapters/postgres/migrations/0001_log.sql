CREATE EXTENSION IF NOT EXISTS btree_gist;

CREATE FUNCTION database_ms() RETURNS bigint
    LANGUAGE sql VOLATILE
    AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- An append's guard: a named refusal with its facts, raised where the row locks are held.
CREATE FUNCTION refuse(code text, facts jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$ BEGIN
        RAISE EXCEPTION USING ERRCODE = 'BC001', MESSAGE = code, DETAIL = facts::text;
    END $$;

-- A tenant and those above it, nearest first: an offering counts for those below its tenant (domain.md §2).
-- In plpgsql, because catalog_tenants comes with the projections, after this.
CREATE FUNCTION tenant_line(tenant text) RETURNS TABLE (id text, depth integer)
    LANGUAGE plpgsql STABLE ROWS 4
    AS $$
    #variable_conflict use_column
    BEGIN
        RETURN QUERY
        WITH RECURSIVE line (id, parent, depth) AS (
            SELECT own.id, own.parent, 0 FROM catalog_tenants AS own WHERE own.id = tenant
            UNION ALL
            SELECT above.id, above.parent, line.depth + 1
            FROM catalog_tenants AS above JOIN line ON above.id = line.parent
            WHERE line.depth < 16
        )
        SELECT line.id, line.depth FROM line;
    END $$;

-- CACHE 1 and one user, the INSERT itself: the readers' rule at holes rests on it.
CREATE SEQUENCE stored_events_position AS bigint CACHE 1;

CREATE TABLE stored_events (
    originator_id text COLLATE "C" NOT NULL,
    originator_version bigint NOT NULL,
    topic text COLLATE "C" NOT NULL,
    state bytea NOT NULL,
    notification_id bigint NOT NULL DEFAULT nextval('stored_events_position'),
    recorded_at bigint NOT NULL DEFAULT database_ms(),
    PRIMARY KEY (originator_id, originator_version)
);
ALTER SEQUENCE stored_events_position OWNED BY stored_events.notification_id;
CREATE UNIQUE INDEX stored_events_by_position ON stored_events (notification_id);

CREATE TABLE log_identity (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    incarnation text NOT NULL
);
INSERT INTO log_identity (incarnation) VALUES (replace(gen_random_uuid()::text, '-', ''));

CREATE TABLE projection_positions (
    name text PRIMARY KEY,
    tables_digest text NOT NULL,
    position bigint NOT NULL,
    failure text
);

-- A holder beats; whoever would take over must have seen the same beats for a whole TTL on its own clock.
-- The epoch is part of a key, so that a takeover waits for writes under the old one (FOR KEY SHARE) and a beat does not.
CREATE TABLE coordination_leases (
    name text PRIMARY KEY,
    holder text NOT NULL,
    epoch bigint NOT NULL,
    beats bigint NOT NULL,
    UNIQUE (name, epoch)
);
