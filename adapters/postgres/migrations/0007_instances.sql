-- What instances have beside the log: user data, sealed, and the end of what each wrote to its console.
-- Both go with their instance.
CREATE TABLE instance_user_data (
    instance_id text COLLATE "C" NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    sealed bytea NOT NULL,
    kept_at bigint NOT NULL,
    PRIMARY KEY (instance_id, sha256)
);

CREATE TABLE instance_consoles (
    instance_id text COLLATE "C" PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    total_bytes bigint NOT NULL,
    tail text NOT NULL,
    written_at bigint NOT NULL
);
