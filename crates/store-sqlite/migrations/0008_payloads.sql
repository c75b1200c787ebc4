-- Payloads are found by an index of their own. In a table without rowids they are part of the keys: whoever looks for one reads
-- all those that it is compared with on the way, whole, and they may be megabytes each. Nothing else of them changes.
CREATE TABLE payload_8 (
    principal TEXT NOT NULL,
    task_id TEXT NOT NULL,
    part INTEGER NOT NULL CHECK (part BETWEEN 0 AND 1),
    bytes BLOB NOT NULL,
    PRIMARY KEY (principal, task_id, part)
) STRICT;

INSERT INTO payload_8 (principal, task_id, part, bytes)
SELECT principal, task_id, part, bytes FROM payload ORDER BY principal, task_id, part;

DROP TABLE payload;
ALTER TABLE payload_8 RENAME TO payload;

CREATE TRIGGER payload_is_final BEFORE UPDATE ON payload
BEGIN SELECT raise(ABORT, 'a payload cannot change'); END;
