-- Row versions of the read models that ended up to here are forgotten (docs/running.md, --history-days).
CREATE TABLE history_horizon (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    position bigint NOT NULL
);
INSERT INTO history_horizon (position) VALUES (0);
