-- What is to be removed in a Better IAM because nobody sees the thing any more; written by the holder of
-- singleton:relationships. `due_at` (epoch ms) is null where it was tried too often: the next holder begins anew.
CREATE TABLE relationship_removals (
    tenant_id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    tries bigint NOT NULL,
    due_at bigint,
    trouble text,
    PRIMARY KEY (tenant_id, type, id)
);

-- The position up to which the log was looked through.
CREATE TABLE relationship_progress (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    position bigint NOT NULL
);
INSERT INTO relationship_progress (position) VALUES (0);
