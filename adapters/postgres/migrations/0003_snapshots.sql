-- States of long streams, so that nobody has to fold them from their beginning. They can all be deleted at any time.
CREATE TABLE stream_snapshots (
    originator_id text COLLATE "C" NOT NULL,
    originator_version bigint NOT NULL,
    position bigint NOT NULL,
    schema text NOT NULL,
    event_id text NOT NULL,
    correlation text,
    state bytea NOT NULL,
    PRIMARY KEY (originator_id, originator_version)
);
