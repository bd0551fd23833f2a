PRAGMA application_id = 1851879023;
PRAGMA user_version = 8;
BEGIN TRANSACTION;
CREATE TABLE current (key TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES session (id));
INSERT INTO "current" VALUES('telegram:7','30febf40fd');
CREATE TABLE cut (
  session_id TEXT NOT NULL REFERENCES session (id), size INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (session_id, size)
) WITHOUT ROWID;
CREATE TABLE inbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, id TEXT NOT NULL, payload TEXT NOT NULL,
  key TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL, batch INTEGER NOT NULL DEFAULT 0, worker TEXT NOT NULL DEFAULT '',
  UNIQUE (channel, id)
);
INSERT INTO "inbox" VALUES(1,'telegram:1','10','{"update_id": 10}','telegram:7','done',1,'','2026-11-21T12:56:57.922897+00:00',1,'');
INSERT INTO "inbox" VALUES(2,'telegram:1','11','{"text": "ä"}','telegram:7','claimed',1,'','2026-11-21T12:56:57.915090+00:00',1,'');
INSERT INTO "inbox" VALUES(3,'telegram:1','12','{}','','new',0,'','2026-11-21T12:56:57.942955+00:00',0,'');
CREATE TABLE lease (name TEXT PRIMARY KEY, holder TEXT NOT NULL, until TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "lease" VALUES('poller','me','2026-03-01T00:00:00.000000+00:00');
CREATE TABLE note (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "note" VALUES('telegram:1:owner','42');
CREATE TABLE outbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, turn TEXT NOT NULL, part INTEGER NOT NULL, channel TEXT NOT NULL,
  chat TEXT NOT NULL, thread TEXT NOT NULL, payload TEXT NOT NULL, not_before TEXT NOT NULL, state TEXT NOT NULL,
  attempts INTEGER NOT NULL, message_id TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL, worker TEXT NOT NULL DEFAULT '',
  UNIQUE (turn, part)
);
INSERT INTO "outbox" VALUES(1,'in-1',0,'telegram:1','7','3','"hi"','1970-01-01T00:00:00.000000+00:00','new',0,'','','2026-11-21T12:56:57.922961+00:00','');
CREATE TABLE record (
  session_id TEXT NOT NULL REFERENCES session (id), seq INTEGER NOT NULL,
  kind TEXT NOT NULL, role TEXT NOT NULL, size INTEGER NOT NULL, turn TEXT NOT NULL, at TEXT NOT NULL,
  message TEXT NOT NULL
, kept INTEGER NOT NULL DEFAULT 0);
INSERT INTO "record" VALUES('30febf40fd',1,'message','user',94,'t1','2026-11-21T12:56:57.874110+00:00','{"content":[{"text":"frage\nzwei; ''drei''","type":"text"}],"kind":"user","id":"","role":"user"}',0);
INSERT INTO "record" VALUES('30febf40fd',2,'message','assistant',188,'t1','2026-11-21T12:56:57.874110+00:00','{"content":[{"text":"antwort","type":"text"}],"finish":"stop","model":"","usage":{"input":0,"output":0,"cached":0,"cache_write":0,"reasoning":0,"cost":0.0,"requests":0},"role":"assistant"}',0);
INSERT INTO "record" VALUES('30febf40fd',3,'compaction','user',84,'','2026-11-21T12:56:57.914804+00:00','{"content":[{"text":"summary","type":"text"}],"kind":"notice","id":"","role":"user"}',0);
INSERT INTO "record" VALUES('30febf40fd',4,'intent','tool',105,'in-2','2026-11-21T12:56:57.934959+00:00','{"call_id":"c1","name":"web_search","content":[],"error":"","untrusted":false,"sources":[],"role":"tool"}',0);
CREATE TABLE session (
  id TEXT PRIMARY KEY, key TEXT NOT NULL, title TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
, messages INTEGER NOT NULL DEFAULT 0);
INSERT INTO "session" VALUES('30febf40fd','telegram:7','Ärger mit 🦊','2026-11-21T12:56:57.866882+00:00','2026-11-21T12:56:57.934959+00:00',2);
CREATE TABLE "spending" (
  session_id TEXT NOT NULL REFERENCES session (id), quarter TEXT NOT NULL, model TEXT NOT NULL, person TEXT NOT NULL,
  cause TEXT NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL, cached INTEGER NOT NULL,
  cache_write INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost REAL NOT NULL, requests INTEGER NOT NULL,
  unpriced INTEGER NOT NULL, PRIMARY KEY (session_id, quarter, model, person, cause)
) WITHOUT ROWID;
INSERT INTO "spending" VALUES('30febf40fd','2026-11-21T12:45','','telegram:7','',0,0,0,0,0,0.0,0,0);
CREATE INDEX session_by_key ON session (key, updated_at);
CREATE UNIQUE INDEX record_by_place ON record (session_id, seq);
CREATE INDEX record_by_size ON record (session_id, seq, role, size);
CREATE TRIGGER record_is_kept BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_is_fixed BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE INDEX inbox_by_state ON inbox (channel, state, seq);
CREATE INDEX outbox_by_state ON outbox (channel, state, seq);
CREATE INDEX record_by_turn ON record (turn);
CREATE INDEX record_by_request ON record (CASE WHEN json_valid(message) THEN json_extract(message, '$.id') END) WHERE role = 'user';
CREATE INDEX record_that_hides ON record (session_id, seq, kind) WHERE kind IN ('compaction', 'reset');
CREATE INDEX outbox_open ON outbox (channel, chat, seq) WHERE state IN ('new', 'sending', 'unknown');
CREATE INDEX spending_by_time ON spending (quarter);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('inbox',3);
INSERT INTO "sqlite_sequence" VALUES('outbox',1);
COMMIT;
