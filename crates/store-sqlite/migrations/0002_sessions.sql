-- Legacy MCP sessions: negotiated state, so that a restart loses none (X-048). The key is a hash of the session id.

CREATE TABLE IF NOT EXISTS session (
    key TEXT NOT NULL PRIMARY KEY CHECK (key <> ''),
    principal TEXT NOT NULL CHECK (principal <> ''),
    server TEXT NOT NULL,
    version TEXT NOT NULL,
    offers TEXT NOT NULL,
    client_info TEXT NOT NULL,
    log_level TEXT,
    created_ms INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS session_seen ON session (seen_ms, key);
