"""Homes of other programs, as their documentation has them: small, with what is odd in real ones."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

#: Secrets that no output may show, and a word of each kind of thing.
SECRETS = ("sk-canary-0123456789abcdef", "123456:canary-token-of-a-bot", "canary$of-a-$server")
AT = 1_790_000_000


def written(path: Path, text: str | dict[str, object] | list[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text, indent=1), encoding="utf-8")


def skill(folder: Path, name: str) -> None:
    written(folder / name / "SKILL.md", f"---\nname: {name}\ndescription: How {name} is done.\n---\n\nDo it.\n")
    written(folder / name / "scripts" / "run.sh", "echo hello\n")
    (folder / name / "scripts" / "run.sh").chmod(0o755)
    (folder / name / "passwd").symlink_to("/etc/passwd")


def hermes(folder: Path) -> Path:
    """A home of hermes-agent."""
    written(
        folder / "config.yaml",
        "# settings\nmodel:\n  default: anthropic/claude-x  # the usual one\n  provider: auto\n"
        "terminal:\n  backend: local\n  greeting: words that a program\n    has broken\ntimezone: Europe/Lisbon\n"
        "mcp_servers:\n  files:\n    command: npx\n    args:\n      - -y\n      - '@files/server'\n"
        f"    env:\n      FILES_TOKEN: {SECRETS[2]}\n"
        "fallback_providers:\n- provider: x\n  model: y\n-\n  provider: z\n",
    )
    written(
        folder / ".env",
        f"# keys\nANTHROPIC_API_KEY={SECRETS[0]}\nexport TELEGRAM_BOT_TOKEN='{SECRETS[1]}'\nHOME_KEY=1\n",
    )
    written(folder / "SOUL.md", "You are a lighthouse keeper.\n")
    written(folder / "memories" / "MEMORY.md", "The boat is called Petra.\n§\nThe key hangs behind the door.\n")
    written(folder / "memories" / "USER.md", "Ada, who likes tides.\n")
    skill(folder / "skills" / "sea", "read-tides")
    skill(folder / "skills", "came-with-it")
    written(folder / "skills" / ".bundled_manifest", "came-with-it:0123\n")
    jobs = [
        {
            "id": "a1",
            "name": "tides",
            "prompt": "Look up the tides",
            "enabled": True,
            "schedule": {"kind": "cron", "expr": "0 9 * * *", "display": "0 9 * * *"},
        },
        {"id": "a2", "name": "often", "prompt": "Look again", "schedule": {"kind": "interval", "minutes": 90}},
        {
            "id": "a3",
            "name": "off",
            "prompt": "Never",
            "enabled": False,
            "schedule": {"kind": "cron", "expr": "0 9 * * *"},
        },
        {"id": "a4", "name": "script", "prompt": "x", "script": "x.sh", "schedule": {"kind": "interval", "minutes": 5}},
        {"id": "a5", "name": "broken", "prompt": "x", "schedule": {"kind": "cron", "expr": "sometimes"}},
    ]
    written(folder / "cron" / "jobs.json", {"jobs": jobs})
    with closing(sqlite3.connect(folder / "state.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE sessions (id TEXT, source TEXT, user_id TEXT, title TEXT, started_at REAL)")
        db.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL, "
            "active INTEGER DEFAULT 1)"
        )
        db.executemany(
            "INSERT INTO sessions VALUES (?, ?, NULL, ?, ?)",
            [("20260101_1_aa", "cli", "tides in Brest", AT), ("20260101_2_bb", "telegram", "others", AT)],
        )
        rows = [
            ("20260101_1_aa", "user", "When is the tide high in Brest?", AT, 1),
            ("20260101_1_aa", "assistant", "At six.", AT + 2, 1),
            ("20260101_1_aa", "tool", "a page", AT + 2, 1),
            ("20260101_1_aa", "user", "taken back", AT + 3, 0),
            ("20260101_2_bb", "user", "whose is this?", AT, 1),
        ]
        db.executemany(
            "INSERT INTO messages (session_id, role, content, timestamp, active) VALUES (?, ?, ?, ?, ?)", rows
        )
        db.commit()
    return folder


def openclaw(folder: Path, name: str = "openclaw.json") -> Path:
    """A home of openclaw, or under one of its older names."""
    config = {
        "agents": {"defaults": {"model": {"primary": "openai/gpt-x", "fallbacks": ["anthropic/claude-x"]}}},
        "models": {"providers": {"openai": {"apiKey": "${OPENAI_API_KEY}", "baseUrl": "https://api.openai.com/v1"}}},
        "env": {"OPENAI_API_KEY": SECRETS[0]},
        "channels": {"telegram": {"botToken": SECRETS[1], "allowFrom": [42, "*"]}, "discord": {"token": SECRETS[2]}},
    }
    written(folder / name, f"// written by the wizard\n{json.dumps(config, indent=1)}\n")
    for document in ("SOUL.md", "AGENTS.md", "IDENTITY.md", "HEARTBEAT.md"):
        written(folder / "workspace" / document, f"# {document} of the other program\n")
    written(folder / "workspace" / "memory" / "2026-01-01.md", "A day with fog.\n")
    skill(folder / "workspace" / "skills", "mend-nets")
    lines: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": "b7300bff", "timestamp": "2026-04-08T01:03:43.107Z", "cwd": "/x"},
        {
            "type": "message",
            "id": "1",
            "timestamp": "2026-04-08T01:04:00.000Z",
            "message": {"role": "user", "content": [{"type": "text", "text": "Where is the net?"}]},
        },
        {
            "type": "message",
            "id": "2",
            "timestamp": "2026-04-08T01:04:02.000Z",
            "message": {
                "role": "assistant",
                "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "In the shed."}],
            },
        },
    ]
    file = folder / "agents" / "main" / "sessions" / "b7300bff.jsonl"
    written(file, "".join(f"{json.dumps(line)}\n" for line in lines) + "{cut of")
    jobs = [
        {
            "id": "j1",
            "name": "Reminder",
            "enabled": True,
            "schedule": {"kind": "cron", "expr": "0 8 * * 1", "tz": "Europe/Paris"},
            "payload": {"kind": "systemEvent", "text": "Oil the winch"},
        },
        {
            "id": "j2",
            "name": "past",
            "schedule": {"kind": "at", "at": "2020-01-01T00:00:00Z"},
            "payload": {"kind": "agentTurn", "message": "x"},
        },
    ]
    written(folder / "cron" / "jobs.json", {"version": 1, "jobs": jobs})
    return folder


def family(folder: Path) -> Path:
    """A home of another program of the nanobot family."""
    config = {
        "agents": {"defaults": {"model": "deepseek/deepseek-chat", "workspace": "~/elsewhere/workspace"}},
        "providers": {"deepseek": {"apiKey": SECRETS[0]}},
        "channels": {"telegram": {"enabled": True, "token": SECRETS[1], "allowFrom": ["42"]}},
        "tools": {"mcpServers": {"files": {"command": "npx", "env": {"TOKEN": SECRETS[2]}}}},
    }
    written(folder / "config.json", config)
    written(folder / "workspace" / "SOUL.md", "You are brief.\n")
    written(folder / "workspace" / "memory" / "MEMORY.md", "The cat is called Ida.\n")
    for key, words in (
        ("cli_direct", "hello from here"),
        ("telegram_42", "hello from my phone"),
        ("telegram_7", "a stranger"),
    ):
        meta = {"_type": "metadata", "key": key.replace("_", ":"), "created_at": "2026-02-01T10:00:00"}
        said = {"role": "user", "content": words, "timestamp": "2026-02-01T10:00:01"}
        answer = {"role": "assistant", "content": "hello", "timestamp": "2026-02-01T10:00:03", "tools_used": ["x"]}
        written(
            folder / "workspace" / "sessions" / f"{key}.jsonl",
            "".join(f"{json.dumps(one)}\n" for one in (meta, said, answer)),
        )
    jobs = [
        {
            "id": "f1",
            "name": "water",
            "schedule": {"kind": "every", "everyMs": 7_200_000},
            "payload": {"kind": "agent_turn", "message": "Ask whether the plants have water"},
        }
    ]
    written(folder / "cron" / "jobs.json", {"version": 1, "jobs": jobs})
    return folder
