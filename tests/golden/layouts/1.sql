PRAGMA application_id = 1851879023;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE current (key TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES session (id));
INSERT INTO "current" VALUES('telegram:7','f789b01d14');
CREATE TABLE record (
  session_id TEXT NOT NULL REFERENCES session (id), seq INTEGER NOT NULL,
  kind TEXT NOT NULL, role TEXT NOT NULL, size INTEGER NOT NULL, turn TEXT NOT NULL, at TEXT NOT NULL,
  message TEXT NOT NULL
);
INSERT INTO "record" VALUES('f789b01d14',1,'message','user',86,'t1','2026-11-21T12:36:58.169391+00:00','{"content":[{"text":"frage\nzwei; ''drei''","type":"text"}],"kind":"user","role":"user"}');
INSERT INTO "record" VALUES('f789b01d14',2,'message','assistant',188,'t1','2026-11-21T12:36:58.169391+00:00','{"content":[{"text":"antwort","type":"text"}],"finish":"stop","model":"","usage":{"input":0,"output":0,"cached":0,"cache_write":0,"reasoning":0,"cost":0.0,"requests":0},"role":"assistant"}');
INSERT INTO "record" VALUES('f789b01d14',3,'compaction','user',76,'','2026-11-21T12:36:58.193782+00:00','{"content":[{"text":"summary","type":"text"}],"kind":"notice","role":"user"}');
CREATE TABLE session (
  id TEXT PRIMARY KEY, key TEXT NOT NULL, title TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
);
INSERT INTO "session" VALUES('f789b01d14','telegram:7','Ärger mit 🦊','2026-11-21T12:36:58.168818+00:00','2026-11-21T12:36:58.193782+00:00');
CREATE INDEX session_by_key ON session (key, updated_at);
CREATE UNIQUE INDEX record_by_place ON record (session_id, seq);
CREATE INDEX record_by_size ON record (session_id, seq, role, size);
CREATE INDEX record_by_kind ON record (session_id, kind);
CREATE TRIGGER record_is_kept BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_is_fixed BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
COMMIT;
