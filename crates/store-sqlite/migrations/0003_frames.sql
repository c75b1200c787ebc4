-- Calls that come by a pipe: by which frame, and whether a client was given their result. The columns that this step
-- adds are listed beside it, in migrate.rs.

-- A frame belongs to the ledger: it outlives the task, and so does its promise that the call is made once (design 4).
CREATE UNIQUE INDEX IF NOT EXISTS operation_frame ON operation (principal, frame) WHERE frame IS NOT NULL;

DROP TRIGGER IF EXISTS operation_identity_is_fixed;
CREATE TRIGGER operation_identity_is_fixed BEFORE UPDATE OF
    principal, operation_id, task_id, server, tool, digest, created_ms, effect, replay, replay_window_ms, frame
    ON operation
BEGIN SELECT raise(ABORT, 'what was fixed at creation cannot change'); END;

-- That a result was fetched is no version (INV-04): only what names neither is one.
DROP TRIGGER IF EXISTS task_version_follows;
CREATE TRIGGER task_version_follows BEFORE UPDATE OF
    principal, task_id, version, phase, operation_id, front, server, tool, digest, idempotency_key, offers, asking,
    created_ms, ttl_ms, linger_ms, max_ms, deadline_ms, updated_ms, state, ending, ending_text, ended_ms, expires_ms,
    message, cancel_wished_ms, keys_issued, questions, seen_status, seen_updated_at, next_look_ms ON task
WHEN new.version <> old.version + 1
BEGIN SELECT raise(ABORT, 'a version follows without a gap'); END;

CREATE TRIGGER IF NOT EXISTS task_fetched_is_final BEFORE UPDATE OF fetched_ms ON task
WHEN old.fetched_ms IS NOT NULL
BEGIN SELECT raise(ABORT, 'the first fetch counts'); END;

-- What the same call joins, by Record::takes_same_call. A tool's own error (doubt 1) was told to its caller.
UPDATE task SET takes_same_call = takes_same_call | 1
WHERE phase = 0 OR (phase = 1 AND 1 IS NOT (
    SELECT o.doubt FROM operation o WHERE o.principal = task.principal AND o.operation_id = task.operation_id));

DROP INDEX IF EXISTS task_same_call;
CREATE INDEX task_same_call ON task (principal, digest) WHERE takes_same_call > 0;

CREATE INDEX IF NOT EXISTS task_list_principal ON task (principal, created_ms, task_id);
CREATE INDEX IF NOT EXISTS task_list_everyone ON task (created_ms, task_id);
