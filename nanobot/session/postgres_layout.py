"""The tables in the schema `nanobot` of a PostgreSQL database, and how they are made and migrated."""

import psycopg

from nanobot.errors import StoreError

#: The advisory lock under which the layout changes: `nano` in ASCII.
LOCK = 0x6E616E6F

#: The id in the JSON of a user's message. Quotes inside of its texts are escaped, so they are not met.
REQUEST = 'substring(message from \'"id":"([^"]*)"\')'
_FIRST = """
CREATE TABLE session (
  id text PRIMARY KEY, place bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL, title text NOT NULL,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, records integer NOT NULL DEFAULT 0,
  messages integer NOT NULL DEFAULT 0
);
CREATE INDEX session_by_key ON session (key, updated_at DESC, place DESC);
CREATE INDEX session_by_time ON session (updated_at DESC, place DESC);
CREATE TABLE current (key text PRIMARY KEY, session_id text NOT NULL REFERENCES session (id));
CREATE TABLE record (
  session_id text NOT NULL REFERENCES session (id), seq integer NOT NULL, kind text NOT NULL, role text NOT NULL,
  size integer NOT NULL, turn text NOT NULL, at timestamptz NOT NULL, message text NOT NULL, usage jsonb,
  PRIMARY KEY (session_id, seq)
);
CREATE INDEX record_by_kind ON record (session_id, seq) WHERE kind IN ('compaction', 'reset');
CREATE INDEX record_by_cost ON record (at) WHERE usage IS NOT NULL;
CREATE FUNCTION nanobot.record_is_kept() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN RAISE EXCEPTION 'records are append-only'; END$$;
CREATE TRIGGER record_is_kept BEFORE UPDATE OR DELETE ON record
  FOR EACH ROW EXECUTE FUNCTION nanobot.record_is_kept();
CREATE TABLE inbox (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, channel text NOT NULL, id text NOT NULL,
  payload text NOT NULL, key text NOT NULL, state text NOT NULL, attempts integer NOT NULL, reason text NOT NULL,
  at timestamptz NOT NULL, worker text NOT NULL DEFAULT '', batch bigint NOT NULL DEFAULT 0,
  UNIQUE (channel, id)
);
CREATE INDEX inbox_open ON inbox (channel, key, seq) WHERE state IN ('new', 'claimed');
CREATE INDEX inbox_settled ON inbox (at) WHERE state IN ('done', 'dead');
CREATE TABLE outbox (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, turn text NOT NULL, part integer NOT NULL,
  channel text NOT NULL, chat text NOT NULL, thread text NOT NULL, payload text NOT NULL, not_before timestamptz,
  state text NOT NULL, attempts integer NOT NULL, message_id text NOT NULL, reason text NOT NULL,
  at timestamptz NOT NULL, worker text NOT NULL DEFAULT '', UNIQUE (turn, part)
);
CREATE INDEX outbox_open ON outbox (channel, chat, seq) WHERE state IN ('new', 'sending', 'unknown');
CREATE INDEX outbox_settled ON outbox (at) WHERE state IN ('draft', 'sent', 'failed');
CREATE TABLE note (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE fired (job text NOT NULL, due timestamptz NOT NULL, PRIMARY KEY (job, due));
CREATE TABLE lease (name text PRIMARY KEY, holder text NOT NULL, until timestamptz NOT NULL);
"""
_REQUESTS = f"""
CREATE INDEX record_by_turn ON record (turn);
CREATE INDEX record_by_request ON record (({REQUEST})) WHERE role = 'user';
"""
#: Step n leads from layout n to n + 1. A change of the layout adds a step.
STEPS: tuple[str, ...] = (_FIRST, _REQUESTS)
#: The number in `nanobot.layout` after all steps.
VERSION = len(STEPS)


async def prepare(db: psycopg.AsyncConnection[tuple[object, ...]], place: str) -> None:
    """All missing steps in one transaction; the caller holds `LOCK`. Raises `StoreError` for a newer layout."""
    async with db.transaction():
        await db.execute("CREATE SCHEMA IF NOT EXISTS nanobot")
        await db.execute("CREATE TABLE IF NOT EXISTS nanobot.layout (version integer NOT NULL)")
        row = await (await db.execute("SELECT max(version) FROM nanobot.layout")).fetchone()
        version = row[0] if row is not None and isinstance(row[0], int) else 0
        if version > VERSION:
            raise StoreError(
                f"The database {place} was written by a newer nanobot (layout {version}, this one knows {VERSION}). "
                "Nothing was changed. Update nanobot, or name another database."
            )
        for step in range(version, VERSION):
            await db.execute(STEPS[step])
        if version < VERSION:
            await db.execute("INSERT INTO nanobot.layout VALUES (%s)", (VERSION,))
