-- A file of schema 2 as the taskgate of then left it (commit 7428e57), dumped.
PRAGMA application_id = 1952932212;
PRAGMA user_version = 2;
CREATE TABLE idempotency (
    principal TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    task_id TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    PRIMARY KEY (principal, server, tool, key)
) STRICT, WITHOUT ROWID;
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-1',X'0707070707070707070707070707070707070707070707070707070707070707','shape-01','op-shape-01');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-11',X'0707070707070707070707070707070707070707070707070707070707070707','shape-11','op-shape-11');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-13',X'0707070707070707070707070707070707070707070707070707070707070707','shape-13','op-shape-13');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-15',X'0707070707070707070707070707070707070707070707070707070707070707','shape-15','op-shape-15');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-17',X'0707070707070707070707070707070707070707070707070707070707070707','shape-17','op-shape-17');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-19',X'0707070707070707070707070707070707070707070707070707070707070707','shape-19','op-shape-19');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-3',X'0707070707070707070707070707070707070707070707070707070707070707','shape-03','op-shape-03');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-5',X'0707070707070707070707070707070707070707070707070707070707070707','shape-05','op-shape-05');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-7',X'0707070707070707070707070707070707070707070707070707070707070707','shape-07','op-shape-07');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-9',X'0707070707070707070707070707070707070707070707070707070707070707','shape-09','op-shape-09');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-asked',X'0707070707070707070707070707070707070707070707070707070707070707','asked','op-asked');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-gone-lost',X'0202020202020202020202020202020202020202020202020202020202020202','gone-lost','op-gone-lost');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-gone-succeeded',X'0000000000000000000000000000000000000000000000000000000000000000','gone-succeeded','op-gone-succeeded');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-kept-lost',X'0202020202020202020202020202020202020202020202020202020202020202','kept-lost','op-kept-lost');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-kept-succeeded',X'0000000000000000000000000000000000000000000000000000000000000000','kept-succeeded','op-kept-succeeded');
INSERT INTO "idempotency" VALUES('somebody','files','copy','key-never',X'0707070707070707070707070707070707070707070707070707070707070707','never','op-never');
CREATE TABLE input_request (
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
INSERT INTO "input_request" VALUES('somebody','asked','in-1',2,0,NULL,'back');
INSERT INTO "input_request" VALUES('somebody','asked','in-2',0,1,X'7B226D657373616765223A227768696368206F6E653F227D',NULL);
INSERT INTO "input_request" VALUES('somebody','shape-06','in-1',0,0,X'7B226D657373616765223A227768696368206F6E653F227D',NULL);
INSERT INTO "input_request" VALUES('somebody','shape-06','in-2',0,1,X'7B226D657373616765223A227768696368206F6E653F227D','k');
INSERT INTO "input_request" VALUES('somebody','shape-07','in-1',1,2,X'7B226D657373616765223A227768696368206F6E653F227D',NULL);
INSERT INTO "input_request" VALUES('somebody','shape-07','in-2',0,3,X'7B226D657373616765223A227768696368206F6E653F227D',NULL);
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store_id BLOB NOT NULL CHECK (length(store_id) = 16),
    generation INTEGER NOT NULL CHECK (generation >= 1),
    secret BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;
INSERT INTO "meta" VALUES(1,X'869101402262D1F565775F767E8887DD',1,X'D0131DEFB0C02B3F9B86BF79FFB60B03C4D36CF45E19E1258B194C50DC08AC0B');
CREATE TABLE migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum BLOB NOT NULL CHECK (length(checksum) = 32)
) STRICT;
INSERT INTO "migration" VALUES(1,'tasks',X'79341053F8358947051F23256CF9BF7F214A78CF1FDB9779E33E4B29730AABA5');
INSERT INTO "migration" VALUES(2,'sessions',X'570A5EF2ABAEAD2460E508E8C73BCEA7D7F761EE8B06620C1D389EEC2F76B605');
CREATE TABLE op_attempt (
    principal TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    dispatched_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    class INTEGER NOT NULL CHECK (class BETWEEN 0 AND 2),
    PRIMARY KEY (principal, operation_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO "op_attempt" VALUES('somebody','op-gone-cancelled',1,1000005,1000009,1);
INSERT INTO "op_attempt" VALUES('somebody','op-gone-failed',1,1000005,1000009,2);
INSERT INTO "op_attempt" VALUES('somebody','op-gone-lost',1,1000005,1000009,1);
INSERT INTO "op_attempt" VALUES('somebody','op-gone-succeeded',1,1000005,1000009,2);
INSERT INTO "op_attempt" VALUES('somebody','op-kept-cancelled',1,1000005,1000009,1);
INSERT INTO "op_attempt" VALUES('somebody','op-kept-failed',1,1000005,1000009,2);
INSERT INTO "op_attempt" VALUES('somebody','op-kept-lost',1,1000005,1000009,1);
INSERT INTO "op_attempt" VALUES('somebody','op-kept-succeeded',1,1000005,1000009,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-09',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-10',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-11',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-12',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-13',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-14',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-15',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-16',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-17',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-18',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-19',1,1000005,1000006,2);
INSERT INTO "op_attempt" VALUES('somebody','op-shape-20',1,1000005,1000006,1);
INSERT INTO "op_attempt" VALUES('stranger','op-twice',1,1000010,1000020,1);
INSERT INTO "op_attempt" VALUES('stranger','op-twice',2,1000020,1000030,2);
CREATE TABLE operation (
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
INSERT INTO "operation" VALUES('somebody','op-asked','asked','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000020,2,0,NULL,2,1,1000010,1000010,'up-1','session-1',NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-gone-cancelled','gone-cancelled','files','copy',X'0303030303030303030303030303030303030303030303030303030303030303',1000000,1000009,2,0,NULL,4,1,1000005,1000005,NULL,NULL,NULL,5);
INSERT INTO "operation" VALUES('somebody','op-gone-failed','gone-failed','files','copy',X'0101010101010101010101010101010101010101010101010101010101010101',1000000,1000009,2,0,NULL,4,1,1000005,1000005,NULL,NULL,NULL,1);
INSERT INTO "operation" VALUES('somebody','op-gone-lost','gone-lost','files','copy',X'0202020202020202020202020202020202020202020202020202020202020202',1000000,1000009,2,0,NULL,4,1,1000005,1000005,NULL,NULL,NULL,0);
INSERT INTO "operation" VALUES('somebody','op-gone-succeeded','gone-succeeded','files','copy',X'0000000000000000000000000000000000000000000000000000000000000000',1000000,1000009,2,0,NULL,3,1,1000005,1000005,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-kept-cancelled','kept-cancelled','files','copy',X'0303030303030303030303030303030303030303030303030303030303030303',1000000,1000009,2,0,NULL,4,1,1000005,1000005,NULL,NULL,NULL,5);
INSERT INTO "operation" VALUES('somebody','op-kept-failed','kept-failed','files','copy',X'0101010101010101010101010101010101010101010101010101010101010101',1000000,1000009,2,0,NULL,4,1,1000005,1000005,NULL,NULL,NULL,1);
INSERT INTO "operation" VALUES('somebody','op-kept-lost','kept-lost','files','copy',X'0202020202020202020202020202020202020202020202020202020202020202',1000000,1000009,2,0,NULL,4,1,1000005,1000005,NULL,NULL,NULL,0);
INSERT INTO "operation" VALUES('somebody','op-kept-succeeded','kept-succeeded','files','copy',X'0000000000000000000000000000000000000000000000000000000000000000',1000000,1000009,2,0,NULL,3,1,1000005,1000005,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-never','never','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000003,2,0,NULL,3,0,NULL,NULL,NULL,NULL,4,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-00','shape-00','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000000,0,0,NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-01','shape-01','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000000,1,1,NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-02','shape-02','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,1,1,1000005,1000005,NULL,NULL,NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-03','shape-03','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,2,1,1000005,1000005,'up-1','session-1',NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-04','shape-04','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,1,1,1000005,1000005,NULL,NULL,NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-05','shape-05','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,1,1,1000005,1000005,NULL,NULL,NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-06','shape-06','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,1,1,1000005,1000005,NULL,NULL,NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-07','shape-07','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,1,1,1000005,1000005,NULL,NULL,NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-08','shape-08','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,1,1,1000005,1000005,NULL,NULL,NULL,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-09','shape-09','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-10','shape-10','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-11','shape-11','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-12','shape-12','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-13','shape-13','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-14','shape-14','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-15','shape-15','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-16','shape-16','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-17','shape-17','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-18','shape-18','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-19','shape-19','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,3,1,1000005,NULL,NULL,NULL,1,NULL);
INSERT INTO "operation" VALUES('somebody','op-shape-20','shape-20','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000006,2,2,9000,4,1,1000005,NULL,NULL,NULL,NULL,0);
INSERT INTO "operation" VALUES('stranger','op-twice','twice','files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',1000000,1000030,2,2,9000,3,2,1000010,1000020,NULL,NULL,1,NULL);
CREATE TABLE payload (
    principal TEXT NOT NULL,
    task_id TEXT NOT NULL,
    part INTEGER NOT NULL CHECK (part BETWEEN 0 AND 1),
    bytes BLOB NOT NULL,
    PRIMARY KEY (principal, task_id, part)
) STRICT, WITHOUT ROWID;
INSERT INTO "payload" VALUES('somebody','asked',0,zeroblob(3000));
INSERT INTO "payload" VALUES('somebody','kept-cancelled',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','kept-failed',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','kept-failed',1,X'7B22636F6E74656E74223A5B5D2C2269734572726F72223A747275657D');
INSERT INTO "payload" VALUES('somebody','kept-lost',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','kept-succeeded',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','kept-succeeded',1,X'7B22636F6E74656E74223A5B7B2274797065223A2274657874222C2274657874223A22646F6E65227D5D7D');
INSERT INTO "payload" VALUES('somebody','never',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-00',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-01',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-02',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-03',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-04',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-05',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-06',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-07',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-08',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-09',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-10',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-10',1,X'7B226279746573223A225C7530303030C3A9227D');
INSERT INTO "payload" VALUES('somebody','shape-11',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-11',1,X'');
INSERT INTO "payload" VALUES('somebody','shape-12',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-12',1,X'7B226279746573223A225C7530303030C3A9227D');
INSERT INTO "payload" VALUES('somebody','shape-13',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-14',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-15',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-16',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-17',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-18',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-19',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('somebody','shape-20',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('stranger','twice',0,X'7B226E616D65223A22636F7079222C22617267756D656E7473223A7B2266726F6D223A2261222C22746F223A2262227D7D');
INSERT INTO "payload" VALUES('stranger','twice',1,X'7B22636F6E74656E74223A5B7B2274797065223A2274657874222C2274657874223A22646F6E65227D5D7D');
CREATE TABLE session (
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
INSERT INTO "session" VALUES('session-1','somebody','files','2025-11-25','roots','{"name":"tester","version":"1"}',NULL,1000000,1000007);
INSERT INTO "session" VALUES('session-2','somebody','files','2025-11-25','roots','{"name":"tester","version":"1"}',NULL,1000000,1000007);
CREATE TABLE task (
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
INSERT INTO "task" VALUES('somebody','asked',8,0,'op-asked',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-asked','elicitation.form',0,1000000,60000,1000,600000,4600000,1000070,1,NULL,NULL,NULL,NULL,'half way',NULL,2,1,'working','t',1000099);
INSERT INTO "task" VALUES('somebody','kept-cancelled',3,1,'op-kept-cancelled',2,'files','copy',X'0303030303030303030303030303030303030303030303030303030303030303',NULL,'elicitation.form',0,1000000,60000,60000,600000,4600000,1000009,2,0,NULL,1000009,1060009,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','kept-failed',3,1,'op-kept-failed',2,'files','copy',X'0101010101010101010101010101010101010101010101010101010101010101',NULL,'elicitation.form',0,1000000,60000,60000,600000,4600000,1000009,2,2,NULL,1000009,1060009,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','kept-lost',3,1,'op-kept-lost',2,'files','copy',X'0202020202020202020202020202020202020202020202020202020202020202','key-kept-lost','elicitation.form',0,1000000,60000,60000,600000,4600000,1000009,2,11,'the connection broke',1000009,1060009,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','kept-succeeded',3,2,'op-kept-succeeded',2,'files','copy',X'0000000000000000000000000000000000000000000000000000000000000000','key-kept-succeeded','elicitation.form',0,1000000,60000,60000,600000,4600000,1000009,2,1,NULL,1000009,1060009,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','never',2,2,'op-never',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-never','elicitation.form',0,1000000,60000,1000,600000,4600000,1000003,2,10,'its time to start was over',1000003,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-00',1,0,'op-shape-00',0,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',0,1000000,60000,1000,600000,4600000,1000000,0,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-01',1,0,'op-shape-01',1,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-1','elicitation.form',1,1000000,60000,1000,600000,4600000,1000000,0,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-02',1,0,'op-shape-02',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',2,1000000,60000,1000,600000,4600000,1000006,0,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-03',1,0,'op-shape-03',0,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-3','elicitation.form',0,1000000,60000,1000,600000,4600000,1000006,0,NULL,NULL,NULL,NULL,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-04',1,0,'op-shape-04',1,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',1,1000000,60000,1000,600000,4600000,1000006,0,NULL,NULL,NULL,NULL,'half way',NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-05',1,0,'op-shape-05',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-5','elicitation.form',2,1000000,60000,1000,600000,4600000,1000006,0,NULL,NULL,NULL,NULL,NULL,1000006,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-06',1,0,'op-shape-06',0,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',0,1000000,60000,1000,600000,4600000,1000006,1,NULL,NULL,NULL,NULL,NULL,NULL,2,2,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-07',1,0,'op-shape-07',1,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-7','elicitation.form',1,1000000,60000,1000,600000,4600000,1000006,1,NULL,NULL,NULL,NULL,NULL,NULL,2,2,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-08',1,0,'op-shape-08',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',2,1000000,60000,1000,600000,4600000,1000006,0,NULL,NULL,NULL,NULL,NULL,NULL,0,0,'working','2026-01-01T00:00:00Z',1000005);
INSERT INTO "task" VALUES('somebody','shape-09',1,2,'op-shape-09',0,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-9','elicitation.form',0,1000000,60000,1000,600000,4600000,1000006,2,0,NULL,1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-10',1,2,'op-shape-10',1,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',1,1000000,60000,1000,600000,4600000,1000006,2,1,NULL,1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-11',1,2,'op-shape-11',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-11','elicitation.form',2,1000000,60000,1000,600000,4600000,1000006,2,2,NULL,1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-12',1,2,'op-shape-12',0,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',0,1000000,60000,1000,600000,4600000,1000006,2,3,NULL,1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-13',1,2,'op-shape-13',1,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-13','elicitation.form',1,1000000,60000,1000,600000,4600000,1000006,2,10,'words',1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-14',1,2,'op-shape-14',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',2,1000000,60000,1000,600000,4600000,1000006,2,11,'words',1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-15',1,2,'op-shape-15',0,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-15','elicitation.form',0,1000000,60000,1000,600000,4600000,1000006,2,12,NULL,1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-16',1,2,'op-shape-16',1,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',1,1000000,60000,1000,600000,4600000,1000006,2,13,NULL,1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-17',1,2,'op-shape-17',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-17','elicitation.form',2,1000000,60000,1000,600000,4600000,1000006,2,14,'words',1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-18',1,2,'op-shape-18',0,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',0,1000000,60000,1000,600000,4600000,1000006,2,15,'words',1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-19',1,2,'op-shape-19',1,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707','key-19','elicitation.form',1,1000000,60000,1000,600000,4600000,1000006,2,16,'',1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('somebody','shape-20',1,1,'op-shape-20',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',2,1000000,60000,1000,600000,4600000,1000006,2,11,'the connection broke',1000006,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
INSERT INTO "task" VALUES('stranger','twice',4,2,'op-twice',2,'files','copy',X'0707070707070707070707070707070707070707070707070707070707070707',NULL,'elicitation.form',0,1000000,60000,1000,600000,4600000,1000030,2,1,NULL,1000030,1060000,NULL,NULL,0,0,NULL,NULL,NULL);
CREATE TABLE task_event (
    principal TEXT NOT NULL,
    task_id TEXT NOT NULL,
    version INTEGER NOT NULL CHECK (version >= 1),
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 12),
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL CHECK (octet_length(body) <= 1024),
    PRIMARY KEY (principal, task_id, version)
) STRICT, WITHOUT ROWID;
INSERT INTO "task_event" VALUES('somebody','asked',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','asked',2,8,1000010,'dispatched 1000010');
INSERT INTO "task_event" VALUES('somebody','asked',3,7,1000020,'accepted up-1');
INSERT INTO "task_event" VALUES('somebody','asked',4,5,1000030,'asked in-1 form
asked in-2 url');
INSERT INTO "task_event" VALUES('somebody','asked',5,3,1000040,'answer_taken in-1');
INSERT INTO "task_event" VALUES('somebody','asked',6,2,1000050,'answer_settled in-1');
INSERT INTO "task_event" VALUES('somebody','asked',7,1,1000060,'said half way');
INSERT INTO "task_event" VALUES('somebody','asked',8,0,1000070,'observed working t');
INSERT INTO "task_event" VALUES('somebody','gone-cancelled',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','gone-cancelled',2,8,1000005,'dispatched 1000005');
INSERT INTO "task_event" VALUES('somebody','gone-cancelled',3,11,1000009,'ended 1000009 cancelled
doubted cancelled');
INSERT INTO "task_event" VALUES('somebody','gone-failed',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','gone-failed',2,8,1000005,'dispatched 1000005');
INSERT INTO "task_event" VALUES('somebody','gone-failed',3,11,1000009,'doubted tool_error
ended 1000009 returned_error');
INSERT INTO "task_event" VALUES('somebody','gone-lost',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','gone-lost',2,8,1000005,'dispatched 1000005');
INSERT INTO "task_event" VALUES('somebody','gone-lost',3,11,1000009,'doubted answer_lost
ended 1000009 outcome_unknown the connection broke');
INSERT INTO "task_event" VALUES('somebody','gone-succeeded',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','gone-succeeded',2,8,1000005,'dispatched 1000005');
INSERT INTO "task_event" VALUES('somebody','gone-succeeded',3,11,1000009,'settled reported_applied
ended 1000009 returned');
INSERT INTO "task_event" VALUES('somebody','kept-cancelled',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','kept-cancelled',2,8,1000005,'dispatched 1000005');
INSERT INTO "task_event" VALUES('somebody','kept-cancelled',3,11,1000009,'ended 1000009 cancelled
doubted cancelled');
INSERT INTO "task_event" VALUES('somebody','kept-failed',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','kept-failed',2,8,1000005,'dispatched 1000005');
INSERT INTO "task_event" VALUES('somebody','kept-failed',3,11,1000009,'doubted tool_error
ended 1000009 returned_error');
INSERT INTO "task_event" VALUES('somebody','kept-lost',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','kept-lost',2,8,1000005,'dispatched 1000005');
INSERT INTO "task_event" VALUES('somebody','kept-lost',3,11,1000009,'doubted answer_lost
ended 1000009 outcome_unknown the connection broke');
INSERT INTO "task_event" VALUES('somebody','kept-succeeded',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','kept-succeeded',2,8,1000005,'dispatched 1000005');
INSERT INTO "task_event" VALUES('somebody','kept-succeeded',3,11,1000009,'settled reported_applied
ended 1000009 returned');
INSERT INTO "task_event" VALUES('somebody','never',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','never',2,11,1000003,'settled confirmed_not_applied
ended 1000003 never_sent its time to start was over');
INSERT INTO "task_event" VALUES('somebody','shape-00',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','shape-01',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('somebody','shape-02',1,12,1000006,'created
dispatched 1000005');
INSERT INTO "task_event" VALUES('somebody','shape-03',1,12,1000006,'created
dispatched 1000005
accepted up-1');
INSERT INTO "task_event" VALUES('somebody','shape-04',1,12,1000006,'created
dispatched 1000005
said half way');
INSERT INTO "task_event" VALUES('somebody','shape-05',1,12,1000006,'created
dispatched 1000005
cancel_wished 1000006');
INSERT INTO "task_event" VALUES('somebody','shape-06',1,12,1000006,'created
dispatched 1000005
asked in-1 form
asked in-2 url');
INSERT INTO "task_event" VALUES('somebody','shape-07',1,12,1000006,'created
dispatched 1000005
asked in-2 roots
asked in-1 sampling
answer_taken in-1');
INSERT INTO "task_event" VALUES('somebody','shape-08',1,12,1000006,'created
dispatched 1000005
observed working 2026-01-01T00:00:00Z');
INSERT INTO "task_event" VALUES('somebody','shape-09',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 cancelled');
INSERT INTO "task_event" VALUES('somebody','shape-10',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 returned');
INSERT INTO "task_event" VALUES('somebody','shape-11',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 returned_error');
INSERT INTO "task_event" VALUES('somebody','shape-12',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 raised');
INSERT INTO "task_event" VALUES('somebody','shape-13',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 never_sent words');
INSERT INTO "task_event" VALUES('somebody','shape-14',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 outcome_unknown words');
INSERT INTO "task_event" VALUES('somebody','shape-15',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 deadline_passed');
INSERT INTO "task_event" VALUES('somebody','shape-16',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 upstream_lost');
INSERT INTO "task_event" VALUES('somebody','shape-17',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 upstream_fault words');
INSERT INTO "task_event" VALUES('somebody','shape-18',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 no_answer words');
INSERT INTO "task_event" VALUES('somebody','shape-19',1,12,1000006,'created
dispatched 1000005
settled reported_applied
ended 1000006 budget_spent ');
INSERT INTO "task_event" VALUES('somebody','shape-20',1,12,1000006,'created
dispatched 1000005
doubted answer_lost
ended 1000006 outcome_unknown the connection broke');
INSERT INTO "task_event" VALUES('stranger','twice',1,12,1000000,'created');
INSERT INTO "task_event" VALUES('stranger','twice',2,8,1000010,'dispatched 1000010');
INSERT INTO "task_event" VALUES('stranger','twice',3,8,1000020,'dispatched 1000020');
INSERT INTO "task_event" VALUES('stranger','twice',4,11,1000030,'settled reported_applied
ended 1000030 returned');
CREATE INDEX task_list ON task (principal, server, created_ms, task_id);
CREATE INDEX task_unfinished ON task (task_id) WHERE phase = 0;
CREATE INDEX task_expiry ON task (expires_ms, task_id) WHERE phase > 0;
CREATE INDEX task_same_call ON task (principal, digest) WHERE phase < 2 AND idempotency_key IS NULL;
CREATE TRIGGER task_version_follows BEFORE UPDATE ON task
WHEN new.version <> old.version + 1
BEGIN SELECT raise(ABORT, 'a version follows without a gap'); END;
CREATE TRIGGER task_identity_is_fixed BEFORE UPDATE OF
    principal, task_id, operation_id, front, server, tool, digest, idempotency_key, offers, asking,
    created_ms, ttl_ms, linger_ms, max_ms ON task
BEGIN SELECT raise(ABORT, 'what was fixed at creation cannot change'); END;
CREATE TRIGGER task_over_is_final BEFORE UPDATE ON task
WHEN old.state = 2
    AND (new.state, new.ending, new.ending_text, new.ended_ms, new.expires_ms,
         new.message, new.cancel_wished_ms, new.keys_issued)
    IS NOT (old.state, old.ending, old.ending_text, old.ended_ms, old.expires_ms,
            old.message, old.cancel_wished_ms, old.keys_issued)
BEGIN SELECT raise(ABORT, 'a task that is over cannot change'); END;
CREATE TRIGGER task_unfinished_stays BEFORE DELETE ON task
WHEN old.phase = 0
BEGIN SELECT raise(ABORT, 'a task that is not finished cannot be deleted'); END;
CREATE TRIGGER payload_is_final BEFORE UPDATE ON payload
BEGIN SELECT raise(ABORT, 'a payload cannot change'); END;
CREATE TRIGGER input_request_goes_forward BEFORE UPDATE ON input_request
WHEN new.phase <= old.phase OR new.key <> old.key OR new.kind <> old.kind
BEGIN SELECT raise(ABORT, 'a question cannot go back'); END;
CREATE TRIGGER operation_identity_is_fixed BEFORE UPDATE OF
    principal, operation_id, task_id, server, tool, digest, created_ms, effect, replay, replay_window_ms ON operation
BEGIN SELECT raise(ABORT, 'what was fixed at creation cannot change'); END;
CREATE TRIGGER operation_confirmed_is_final BEFORE UPDATE ON operation
WHEN old.outcome >= 3 AND (new.stage, new.outcome) IS NOT (old.stage, old.outcome)
BEGIN SELECT raise(ABORT, 'a confirmed outcome cannot change'); END;
CREATE TRIGGER op_attempt_is_final BEFORE UPDATE ON op_attempt
BEGIN SELECT raise(ABORT, 'evidence cannot change'); END;
CREATE TRIGGER task_event_is_final BEFORE UPDATE ON task_event
BEGIN SELECT raise(ABORT, 'evidence cannot change'); END;
CREATE TRIGGER idempotency_is_final BEFORE UPDATE ON idempotency
BEGIN SELECT raise(ABORT, 'a key stands for one request'); END;
CREATE INDEX session_seen ON session (seen_ms, key);
