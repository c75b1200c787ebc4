-- Tasks, operations and the evidence of both. Times are milliseconds since the Unix epoch, small numbers are those
-- of taskgate_store::codec, and the principal stands in every key (R6.1).

CREATE TABLE IF NOT EXISTS meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store_id BLOB NOT NULL CHECK (length(store_id) = 16),
    generation INTEGER NOT NULL CHECK (generation >= 1),
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;

INSERT OR IGNORE INTO meta (one, store_id, generation, secret) VALUES (1, randomblob(16), 1, randomblob(32));

-- The protocol record. It goes when it expires; what must stay is in other tables.
CREATE TABLE IF NOT EXISTS task (
    principal TEXT NOT NULL CHECK (principal <> ''),
    task_id TEXT NOT NULL CHECK (length(task_id) BETWEEN 1 AND 64),
    version INTEGER NOT NULL CHECK (version >= 1),
    phase INTEGER NOT NULL CHECK (phase BETWEEN 0 AND 2),
    operation_id TEXT NOT NULL CHECK (operation_id <> ''),
    front INTEGER NOT NULL CHECK (front BETWEEN 0 AND 2),
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    idempotency_key TEXT,
    offers TEXT NOT NULL,
    asking INTEGER NOT NULL CHECK (asking BETWEEN 0 AND 2),
    created_ms INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL CHECK (ttl_ms >= 0),
    linger_ms INTEGER NOT NULL CHECK (linger_ms >= 0),
    max_ms INTEGER NOT NULL CHECK (max_ms >= 0),
    deadline_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),
    ending INTEGER CHECK (ending BETWEEN 0 AND 16),
    ending_text TEXT,
    ended_ms INTEGER,
    expires_ms INTEGER,
    message TEXT,
    cancel_wished_ms INTEGER,
    keys_issued INTEGER NOT NULL CHECK (keys_issued >= 0),
    questions INTEGER NOT NULL CHECK (questions >= 0),
    seen_status TEXT,
    seen_updated_at TEXT,
    next_look_ms INTEGER,
    PRIMARY KEY (principal, task_id),
    CHECK ((state = 2) = (ending IS NOT NULL)),
    CHECK ((state = 2) = (ended_ms IS NOT NULL)),
    CHECK ((state = 2) = (expires_ms IS NOT NULL)),
    CHECK (ending_text IS NULL OR ending >= 10),
    CHECK (state = 2 OR phase = 0),
    CHECK (state <> 1 OR questions > 0),
    CHECK (state <> 2 OR questions = 0)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS task_list ON task (principal, server, created_ms, task_id);
CREATE INDEX IF NOT EXISTS task_unfinished ON task (task_id) WHERE phase = 0;
CREATE INDEX IF NOT EXISTS task_expiry ON task (expires_ms, task_id) WHERE phase > 0;
CREATE INDEX IF NOT EXISTS task_same_call ON task (principal, digest) WHERE phase < 2 AND idempotency_key IS NULL;

-- INV-04
CREATE TRIGGER IF NOT EXISTS task_version_follows BEFORE UPDATE ON task
WHEN new.version <> old.version + 1
BEGIN SELECT raise(ABORT, 'a version follows without a gap'); END;

CREATE TRIGGER IF NOT EXISTS task_identity_is_fixed BEFORE UPDATE OF
    principal, task_id, operation_id, front, server, tool, digest, idempotency_key, offers, asking,
    created_ms, ttl_ms, linger_ms, max_ms ON task
BEGIN SELECT raise(ABORT, 'what was fixed at creation cannot change'); END;

-- INV-03
CREATE TRIGGER IF NOT EXISTS task_over_is_final BEFORE UPDATE ON task
WHEN old.state = 2
    AND (new.state, new.ending, new.ending_text, new.ended_ms, new.expires_ms,
         new.message, new.cancel_wished_ms, new.keys_issued)
    IS NOT (old.state, old.ending, old.ending_text, old.ended_ms, old.expires_ms,
            old.message, old.cancel_wished_ms, old.keys_issued)
BEGIN SELECT raise(ABORT, 'a task that is over cannot change'); END;

-- INV-30
CREATE TRIGGER IF NOT EXISTS task_unfinished_stays BEFORE DELETE ON task
WHEN old.phase = 0
BEGIN SELECT raise(ABORT, 'a task that is not finished cannot be deleted'); END;

-- Payloads live apart from the hot row, and go with the task (R5.5). 0 are the params, 1 is the ending.
CREATE TABLE IF NOT EXISTS payload (
    principal TEXT NOT NULL,
    task_id TEXT NOT NULL,
    part INTEGER NOT NULL CHECK (part BETWEEN 0 AND 1),
    bytes BLOB NOT NULL,
    PRIMARY KEY (principal, task_id, part)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS payload_is_final BEFORE UPDATE ON payload
BEGIN SELECT raise(ABORT, 'a payload cannot change'); END;

-- Questions, each under a key that is never used again (INV-20). Answers are nowhere (R6.5). A closed one keeps its
-- key and class, and loses its params.
CREATE TABLE IF NOT EXISTS input_request (
    principal TEXT NOT NULL,
    task_id TEXT NOT NULL,
    key TEXT NOT NULL CHECK (key <> ''),
    phase INTEGER NOT NULL CHECK (phase BETWEEN 0 AND 2),
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 3),
    params BLOB,
    back_key TEXT,
    PRIMARY KEY (principal, task_id, key),
    CHECK ((phase = 2) = (params IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS input_request_goes_forward BEFORE UPDATE ON input_request
WHEN new.phase <= old.phase OR new.key <> old.key OR new.kind <> old.kind
BEGIN SELECT raise(ABORT, 'a question cannot go back'); END;

-- The ledger (notes 2.3). It outlives the task, so it says itself what was called.
CREATE TABLE IF NOT EXISTS operation (
    principal TEXT NOT NULL CHECK (principal <> ''),
    operation_id TEXT NOT NULL CHECK (operation_id <> ''),
    task_id TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    effect INTEGER NOT NULL CHECK (effect BETWEEN 0 AND 2),
    replay INTEGER NOT NULL CHECK (replay BETWEEN 0 AND 2),
    replay_window_ms INTEGER CHECK (replay_window_ms >= 0),
    stage INTEGER NOT NULL CHECK (stage BETWEEN 0 AND 4),
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    first_dispatched_ms INTEGER,
    dispatched_ms INTEGER,
    upstream_task TEXT,
    upstream_session TEXT,
    outcome INTEGER CHECK (outcome BETWEEN 0 AND 4),
    doubt INTEGER CHECK (doubt BETWEEN 0 AND 5),
    PRIMARY KEY (principal, operation_id),
    CHECK ((replay = 2) = (replay_window_ms IS NOT NULL)),
    CHECK ((stage = 3) = (outcome IS NOT NULL)),
    CHECK ((stage = 4) = (doubt IS NOT NULL)),
    CHECK (stage NOT IN (1, 2) OR dispatched_ms IS NOT NULL),
    CHECK (stage <> 2 OR upstream_task IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS operation_identity_is_fixed BEFORE UPDATE OF
    principal, operation_id, task_id, server, tool, digest, created_ms, effect, replay, replay_window_ms ON operation
BEGIN SELECT raise(ABORT, 'what was fixed at creation cannot change'); END;

CREATE TRIGGER IF NOT EXISTS operation_confirmed_is_final BEFORE UPDATE ON operation
WHEN old.outcome >= 3 AND (new.stage, new.outcome) IS NOT (old.stage, old.outcome)
BEGIN SELECT raise(ABORT, 'a confirmed outcome cannot change'); END;

-- What each attempt came to, written when it is closed. 0 was not sent, 1 had no reply, 2 had one.
CREATE TABLE IF NOT EXISTS op_attempt (
    principal TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    dispatched_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    class INTEGER NOT NULL CHECK (class BETWEEN 0 AND 2),
    PRIMARY KEY (principal, operation_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS op_attempt_is_final BEFORE UPDATE ON op_attempt
BEGIN SELECT raise(ABORT, 'evidence cannot change'); END;

-- The log: one event for each version. It outlives the task.
CREATE TABLE IF NOT EXISTS task_event (
    principal TEXT NOT NULL,
    task_id TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 12),
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL CHECK (octet_length(body) <= 1024),
    PRIMARY KEY (principal, task_id, version)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS task_event_is_final BEFORE UPDATE ON task_event
BEGIN SELECT raise(ABORT, 'evidence cannot change'); END;

-- What a key stands for, for as long as the operation is kept (R4.6). It has no lock that could time out.
CREATE TABLE IF NOT EXISTS idempotency (
    principal TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    task_id TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    PRIMARY KEY (principal, server, tool, key)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS idempotency_is_final BEFORE UPDATE ON idempotency
BEGIN SELECT raise(ABORT, 'a key stands for one request'); END;
