-- Evidence: written once, by the holder of singleton:audit; never rebuilt, only computed again and compared (api.md §6).
-- Each tenant's chain of audit events. `leaf` is the event's number in the tree: positions have holes, leaves have none.
CREATE TABLE audit_chain (
    tenant_id text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    position bigint NOT NULL,
    leaf bigint NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (tenant_id, sequence),
    UNIQUE (position, tenant_id)
);

-- The tree over the whole log, 256 hashes a row (C2SP tlog-tiles); `positions` are the leaves', at level 0.
CREATE TABLE audit_tiles (
    level bigint NOT NULL,
    index bigint NOT NULL,
    hashes bytea NOT NULL,
    positions bigint[] NOT NULL,
    PRIMARY KEY (level, index)
);

CREATE TABLE audit_checkpoints (
    size bigint PRIMARY KEY,
    note text NOT NULL
);

-- How far it is: the position of the last leaf, and how many leaves there are.
CREATE TABLE audit_progress (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    position bigint NOT NULL,
    size bigint NOT NULL
);
INSERT INTO audit_progress (position, size) VALUES (0, 0);
