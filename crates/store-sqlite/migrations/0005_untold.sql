-- The same call joins one that ended without an answer and whose effect was found out to have been made (design 3): whoever
-- calls again was never told. Files of before this rule have such calls as closed, and would make them a second time.
UPDATE task SET takes_same_call = takes_same_call | 1
WHERE phase = 2 AND ending >= 4 AND EXISTS (
    SELECT 1 FROM operation o WHERE o.principal = task.principal AND o.operation_id = task.operation_id
        AND o.outcome IN (1, 3, 5));
