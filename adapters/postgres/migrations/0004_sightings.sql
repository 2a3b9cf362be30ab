-- When each node last reported its inventory: no event, for a report that changed nothing is none.
CREATE TABLE node_sightings (
    node_id text PRIMARY KEY,
    inventory_at bigint NOT NULL
) WITH (fillfactor = 80);
