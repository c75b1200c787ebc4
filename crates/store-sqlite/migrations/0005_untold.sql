-- The same call joins one that ended without an answer and whose effect was found out to have been made (design 3): whoever
-- calls again was never told. Files of before this rule have such calls as closed, and would make them a second time.
UPDATE task SET takes_same_call = takes_same_call | 1
WHERE phase = 2 AND ending >= 4 AND EXISTS (
    SELECT 1 FROM operation o WHERE o.principal = task.principal AND o.operation_id = task.operation_id
        AND o.outcome IN (1, 3, 5));

-- Of calls by no frame it was not noted whether a client was given the result. Those that are noted since count as fetched
-- where they are over: what was answered before is no answer to a call that comes now.
UPDATE task SET fetched_ms = ended_ms
WHERE state = 2 AND ending IN (1, 2) AND fetched_ms IS NULL AND front = 2 AND idempotency_key IS NULL AND EXISTS (
    SELECT 1 FROM operation o WHERE o.principal = task.principal AND o.operation_id = task.operation_id
        AND o.frame IS NULL AND o.effect <> 0);
