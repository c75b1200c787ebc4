-- What is only assumed not to have been done (outcome 7) is open: the request may still arrive, so it keeps its object from
-- others until that is confirmed or a person decides.

DROP INDEX IF EXISTS operation_object;
CREATE INDEX operation_object ON operation (workflow, object, created_ms, operation_id, principal)
    WHERE object IS NOT NULL AND (stage <> 3 OR outcome = 7);

DROP INDEX IF EXISTS operation_assumed;
CREATE INDEX operation_assumed ON operation (operation_id, principal) WHERE outcome = 7;
