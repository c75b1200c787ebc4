-- The ledger: what an operator's workflow makes of a call, what is being done to learn more of an effect, and outcomes by
-- the strength of their evidence. The columns that this step adds are listed beside it, in migrate.rs.
--
-- Two tables are made anew, since their old checks forbid numbers that there are now. Nothing else of them changes.

-- Keys were only in their own table. They must be found from the operation when that goes at last.
UPDATE operation SET key = i.key, key_scope = 0 FROM idempotency i
WHERE operation.principal = i.principal AND operation.operation_id = i.operation_id AND operation.key IS NULL;

CREATE TABLE operation_4 (
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
    outcome INTEGER CHECK (outcome BETWEEN 0 AND 7),
    doubt INTEGER CHECK (doubt BETWEEN 0 AND 5),
    frame BLOB CHECK (length(frame) = 24),
    workflow TEXT,
    object TEXT,
    object_version TEXT,
    object_conflict INTEGER CHECK (object_conflict BETWEEN 0 AND 2),
    effect_text TEXT,
    key TEXT,
    key_scope INTEGER CHECK (key_scope BETWEEN 0 AND 1),
    receipt TEXT,
    cleared INTEGER NOT NULL DEFAULT 0 CHECK (cleared BETWEEN 0 AND attempts),
    closed_ms INTEGER,
    inquiry INTEGER NOT NULL DEFAULT 0 CHECK (inquiry BETWEEN 0 AND 2),
    inquiry_since_ms INTEGER,
    inquiry_tries INTEGER CHECK (inquiry_tries >= 0),
    inquiry_next_ms INTEGER,
    inquiry_last INTEGER CHECK (inquiry_last BETWEEN 0 AND 5),
    inquiry_why INTEGER CHECK (inquiry_why BETWEEN 0 AND 5),
    PRIMARY KEY (principal, operation_id),
    CHECK ((replay = 2) = (replay_window_ms IS NOT NULL)),
    CHECK ((stage = 3) = (outcome IS NOT NULL)),
    CHECK ((stage = 4) = (doubt IS NOT NULL)),
    CHECK (stage NOT IN (1, 2) OR dispatched_ms IS NOT NULL),
    CHECK (stage <> 2 OR upstream_task IS NOT NULL),
    CHECK ((key IS NULL) = (key_scope IS NULL)),
    CHECK (workflow IS NOT NULL OR (object IS NULL AND effect_text IS NULL)),
    CHECK ((object IS NULL) = (object_conflict IS NULL)),
    CHECK (object IS NOT NULL OR object_version IS NULL),
    CHECK ((inquiry <> 0) = (inquiry_since_ms IS NOT NULL)),
    CHECK ((inquiry = 1) = (inquiry_next_ms IS NOT NULL)),
    CHECK ((inquiry = 1) = (inquiry_tries IS NOT NULL)),
    CHECK ((inquiry = 2) = (inquiry_why IS NOT NULL)),
    CHECK (inquiry = 1 OR inquiry_last IS NULL),
    -- What is asked after is unknown, reported or assumed. A contradiction (3) waits for a person whatever is held.
    CHECK (inquiry = 0 OR stage = 4 OR (stage = 3 AND (outcome IN (1, 2, 7) OR coalesce(inquiry_why = 3, 0))))
) STRICT, WITHOUT ROWID;

INSERT INTO operation_4 (
    principal, operation_id, task_id, server, tool, digest, created_ms, updated_ms, effect, replay, replay_window_ms,
    stage, attempts, first_dispatched_ms, dispatched_ms, upstream_task, upstream_session, outcome, doubt, frame, workflow,
    object, object_version, object_conflict, effect_text, key, key_scope, receipt, cleared, closed_ms, inquiry,
    inquiry_since_ms, inquiry_tries, inquiry_next_ms, inquiry_last, inquiry_why
) SELECT
    principal, operation_id, task_id, server, tool, digest, created_ms, updated_ms, effect, replay, replay_window_ms,
    stage, attempts, first_dispatched_ms, dispatched_ms, upstream_task, upstream_session, outcome, doubt, frame, workflow,
    object, object_version, object_conflict, effect_text, key, key_scope, receipt, cleared, closed_ms, inquiry,
    inquiry_since_ms, inquiry_tries, inquiry_next_ms, inquiry_last, inquiry_why
FROM operation;

DROP TABLE operation;
ALTER TABLE operation_4 RENAME TO operation;

CREATE UNIQUE INDEX operation_frame ON operation (principal, frame) WHERE frame IS NOT NULL;

-- Each is for few rows: an ordinary call that succeeds is in none of them.
CREATE INDEX operation_object ON operation (workflow, object, created_ms, operation_id, principal)
    WHERE object IS NOT NULL AND stage <> 3;
CREATE INDEX operation_unknown ON operation (operation_id, principal) WHERE stage = 4;
CREATE INDEX operation_reconciling ON operation (inquiry_next_ms, operation_id, principal) WHERE inquiry = 1;
CREATE INDEX operation_waiting ON operation (inquiry_since_ms, operation_id, principal) WHERE inquiry = 2;

CREATE TRIGGER operation_identity_is_fixed BEFORE UPDATE OF
    principal, operation_id, task_id, server, tool, digest, created_ms, effect, replay, replay_window_ms, frame, workflow,
    object, object_version, object_conflict, effect_text, key, key_scope ON operation
BEGIN SELECT raise(ABORT, 'what was fixed at creation cannot change'); END;

CREATE TRIGGER operation_confirmed_is_final BEFORE UPDATE ON operation
WHEN old.outcome IN (3, 4) AND (new.stage, new.outcome) IS NOT (old.stage, old.outcome)
BEGIN SELECT raise(ABORT, 'a confirmed outcome cannot change'); END;

CREATE TRIGGER operation_attested_stays BEFORE UPDATE ON operation
WHEN old.outcome IN (5, 6) AND coalesce(new.outcome NOT IN (3, 4, 5, 6), 1)
BEGIN SELECT raise(ABORT, 'an attested outcome gives way to a confirmed one only'); END;

-- Evidence goes at the end of its retention, and never before its operation is settled and its task gone. Of an error
-- that was answered (doubts 1 and 2), and that nobody asked after, nothing more will be known.
CREATE TRIGGER operation_open_stays BEFORE DELETE ON operation
WHEN NOT (old.stage = 3 OR coalesce(old.doubt IN (1, 2), 0)) OR old.inquiry <> 0 OR EXISTS (
    SELECT 1 FROM task WHERE principal = old.principal AND task_id = old.task_id)
BEGIN SELECT raise(ABORT, 'an operation that is not settled cannot be deleted'); END;

CREATE TABLE task_event_4 (
    principal TEXT NOT NULL,
    task_id TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 20),
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL CHECK (octet_length(body) <= 1024),
    PRIMARY KEY (principal, task_id, version)
) STRICT, WITHOUT ROWID;

INSERT INTO task_event_4 (principal, task_id, version, kind, at_ms, body)
SELECT principal, task_id, version, kind, at_ms, body FROM task_event;

DROP TABLE task_event;
ALTER TABLE task_event_4 RENAME TO task_event;

CREATE TRIGGER task_event_is_final BEFORE UPDATE ON task_event
BEGIN SELECT raise(ABORT, 'evidence cannot change'); END;
