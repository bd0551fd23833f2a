"""What `nanobot doctor --fix` puts right, and that a report for others holds nothing private."""

import json
from contextlib import closing
from pathlib import Path

from nanobot.session.layout import open_file
from tests.cli.harness import program
from tests.doctor.test_checks import quiet, read
from tests.fakes.ledger import rows

#: What must stand in no report: keys, a token, words of a chat, people, folders and servers.
PLANTED = {
    "key": "sk-canary-0123456789abcdef",
    "token": "987654:CANARY-token_for-tests-0123456789abc",
    "search": "BSAcanary0123456789abcdef",
    "header": "canary-header-value-77",
    "said": "my canary diagnosis",
    "person": "ada_canary",
    "folder": "/srv/canary-letters",
    "server": "canary-server",
    "prompt": "canary words of a preset",
    "log": "Canary Lovelace",
    "host": "canary-pc.example",
    "proxy": "canary-proxy.invalid",
    "misplaced": "canary_of_a_key",
}


async def test_what_is_safe_is_put_right_and_nothing_else_is_touched(tmp_path: Path) -> None:
    home = quiet(tmp_path)
    database = home.home / "nanobot.db"
    with closing(open_file(database)) as db:
        db.execute("INSERT INTO note VALUES ('kept', 'as it is')")
        db.commit()
    for path in (home.home, database, home.home / "config.json"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    before = (home.home / "config.json").read_bytes()
    ran = await home.run("doctor", "--fix", "--json")
    found = read(ran)
    assert found["Permissions"][0] == found["Database"][0] == "ok"
    assert [path.stat().st_mode & 0o077 for path in (home.home, database, home.home / "config.json")] == [0, 0, 0]
    assert (home.home / "config.json").read_bytes() == before
    assert "can be read by you alone now" in ran.err
    assert rows(database, "SELECT * FROM note") == [("kept", "as it is")]
    again = await home.run("doctor", "--fix", "--json")
    assert again.err == ""


async def test_U26_a_report_for_others_holds_no_secret_and_nothing_of_people(tmp_path: Path) -> None:
    agents = {"defaults": {"model": "fake", "provider": "openai"}}
    home = program(
        tmp_path,
        agents=agents,
        providers={
            "openai": {
                "apiKey": PLANTED["key"],
                "apiBase": f"https://{PLANTED['host']}/v1",
                "extraHeaders": {"X-Own": PLANTED["header"]},
            }
        },
        modelPresets={"mine": {"model": PLANTED["prompt"]}},
        channels={"telegram": {"enabled": True, "token": PLANTED["token"], "allowFrom": [PLANTED["person"], "4711"]}},
        tools={
            "web": {"search": {"provider": "brave", "apiKey": PLANTED["search"]}},
            "mcpServers": {PLANTED["server"]: {"command": "no-such-program-here", "args": [PLANTED["folder"]]}},
        },
        library={"folders": [PLANTED["folder"]], PLANTED["misplaced"]: 1},
    )
    with closing(open_file(home.home / "nanobot.db")) as db:
        db.execute("INSERT INTO note VALUES ('telegram:1:person:7', ?)", (PLANTED["person"],))
        names = "INSERT INTO session (id, key, title, created_at, updated_at)"
        db.execute(f"{names} VALUES ('s1', 'telegram:7', ?, '2026', '2026')", (PLANTED["said"],))
        db.commit()
    (home.home / "logs").mkdir(mode=0o700)
    log = f"2026-11-22 10:00:00 WARNING nanobot.agent.loop [t1] {PLANTED['log']} said {PLANTED['said']}\n"
    (home.home / "logs" / "nanobot.log").write_text(log * 3, encoding="utf-8")
    report = tmp_path / "report.txt"
    proxies = {"HTTPS_PROXY": f"http://{PLANTED['proxy']}:9", "ALL_PROXY": "http://[no-address"}
    ran = await home.run("doctor", "--bundle", str(report), env=proxies)
    assert ran.code == 2, ran.err
    text = report.read_text(encoding="utf-8")
    assert report.stat().st_mode & 0o077 == 0
    found = [name for name, value in PLANTED.items() if value in text]
    assert found == [], text
    assert str(tmp_path) not in text
    assert "/home/" not in text
    assert "3 × WARNING nanobot.agent.loop" in text
    assert '"provider": "openai"' in text
    assert all(name in text for name in ("Configuration", "Network", "Database", "Versions", "MCP: server 1"))
    assert str(report) in ran.out
    refused = await home.run("doctor", "--bundle", str(report))
    assert refused.code == 2
    assert "exists" in refused.err


async def test_a_report_for_others_names_no_server_service_or_chat_of_the_owner(tmp_path: Path) -> None:
    words = "llmhouse ghostly llmhouse-13b joe hunterpw llm.doe.invalid xteam 4711001 puser ppass 127.9.8.7 searcher-pw"
    words += " searx.doe.invalid diary-of-jane 4242pin mtok1234 mcp.doe.invalid mcpbearer dbuser"
    words += " dbpass db.doe.invalid nanodb janes"
    custom = {
        "apiKey": "plain-words-1",
        "apiBase": "http://joe:hunterpw@llm.doe.invalid:8/v1",
        "extraHeaders": {"X": "xteam"},
    }
    home = program(
        tmp_path,
        agents={"defaults": {"model": "llmhouse-13b", "provider": "llmhouse"}},
        providers={"llmhouse": custom, "ghostly": {"apiKey": "plain-words-2"}},
        channels={
            "telegram": {
                "enabled": True,
                "token": PLANTED["token"],
                "allowFrom": ["4711001"],
                "proxy": "socks5://puser:ppass@127.9.8.7:1",
            }
        },
        tools={
            "web": {"search": {"provider": "searxng", "baseUrl": "http://su:searcher-pw@searx.doe.invalid/"}},
            "mcpServers": {
                "diary-of-jane": {"command": "no-such-program", "env": {"PIN": "4242pin"}},
                "away": {
                    "url": "https://mcp.doe.invalid/sse?token=mtok1234",
                    "headers": {"Authorization": "Bearer mcpbearer"},
                },
            },
        },
        gateway={"ledger": "postgresql://dbuser:dbpass@db.doe.invalid/nanodb"},
        plugins={"enabled": ["janes"]},
    )
    whole, broken = tmp_path / "whole.txt", tmp_path / "broken.txt"
    await home.run("doctor", "--bundle", str(whole))
    file = home.home / "config.json"
    wrong = {
        "providers": {"llmhouse": {"apiKey": 1}},
        "tools": {"mcpServers": {"diary-of-jane": {"enabled": "4242pin"}}},
    }
    file.write_text(json.dumps(wrong), encoding="utf-8")
    await home.run("doctor", "--bundle", str(broken))
    text = whole.read_text(encoding="utf-8") + broken.read_text(encoding="utf-8")
    assert [word for word in (*words.split(), "plain-words") if word in text] == [], text
    assert "no provider of that name is known" in text
    assert '"provider": "searxng"' in text


async def test_the_findings_are_one_json_object_and_the_exit_code_tells_the_worst(tmp_path: Path) -> None:
    home = quiet(tmp_path)
    ran = await home.run("doctor", "--json")
    told = json.loads(ran.out)
    worst = {one["state"] for one in told["checks"]}
    assert ran.code == (2 if "bad" in worst else 1 if "warn" in worst else 0)
    assert told["ok"] == (ran.code == 0)
