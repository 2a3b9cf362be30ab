-- What a log that was restored from a backup was called before: what was signed in that name counts up to `size` leaves,
-- for what came later is lost. Like the evidence, it is never rebuilt.
CREATE TABLE log_restores (
    incarnation text PRIMARY KEY,
    size bigint NOT NULL,
    restored_at bigint NOT NULL DEFAULT database_ms()
);
