-- Which workflow the tools of a server belonged to: keys and objects are found by the workflow's name, so a name that was
-- changed in the configuration must be seen at the next start. A line for each that ever was, however many calls.

CREATE TABLE IF NOT EXISTS workflow_tool (
    workflow TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    PRIMARY KEY (workflow, server, tool)
) STRICT, WITHOUT ROWID;

INSERT OR IGNORE INTO workflow_tool (workflow, server, tool)
SELECT DISTINCT workflow, server, tool FROM operation WHERE workflow IS NOT NULL;
