"""What `nanobot doctor` finds in a home, on a machine and on the way out, each broken for real."""

import asyncio
import json
import re
import time
from contextlib import closing
from email.utils import formatdate
from pathlib import Path

from nanobot.config.proxy import Proxies
from nanobot.doctor import network
from nanobot.doctor.findings import Finding, bounded
from nanobot.session.layout import open_file
from tests.channels.telegram.gateway import OWNER, furnished, running
from tests.cli.harness import Program, Ran, program
from tests.doctor.test_tries import PING
from tests.fakes.chinese import english_left
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.ledger import rows
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.postgres import TestServer

#: A port on which nothing listens.
CLOSED = "http://127.0.0.1:9"


def read(ran: Ran) -> dict[str, tuple[str, str]]:
    assert ran.out, ran.err
    return {one["name"]: (one["state"], f"{one['words']} {one['fix']}") for one in json.loads(ran.out)["checks"]}


def quiet(tmp_path: Path) -> Program:
    """A home without a model, searches and channels, so that nothing is asked of the network."""
    return program(tmp_path, tools={"web": {"enable": False}}, agents={"defaults": {"provider": "lookup"}})


def polls(home: Program) -> bool:
    file = home.home / "gateway.json"
    return file.exists() and json.loads(file.read_text(encoding="utf-8"))["state"] == "polling"


async def test_U58_a_configuration_that_cannot_be_read_is_told_with_its_line_and_all_else_is_looked_at(
    tmp_path: Path,
) -> None:
    home = quiet(tmp_path)
    (home.home / "config.json").write_text('{\n  "tools": {"web": {"enabel": tru}}\n}', encoding="utf-8")
    ran = await home.run("doctor", "--json")
    found = read(ran)
    assert ran.code == 2
    assert found["Configuration"][0] == "bad"
    assert "config.json:2:" in found["Configuration"][1]
    assert found["Disk"][0] == found["Versions"][0] == "ok"
    assert "cannot be read" in found["Not tried"][1]
    assert [one.name for one in home.home.iterdir()] == ["config.json"]


async def test_a_checkup_speaks_chinese_where_the_surroundings_do(tmp_path: Path) -> None:
    ran = await quiet(tmp_path).run("doctor", "--quick", "--all", env={"LANG": "zh_CN.UTF-8"})
    assert "✓ 磁盘：" in ran.out
    assert not english_left(ran.out, "bubblewrap, tried here", "nothing was spent here")


async def test_what_is_to_be_done_is_a_chinese_sentence_with_its_full_stop(tmp_path: Path) -> None:
    async with LlmServer(after=Reply(status=401, body={"error": {"message": "no {key}"}})) as server:
        ran = await program(tmp_path, server).run("doctor", env={"LANG": "zh_CN.UTF-8", "HTTPS_PROXY": CLOSED})
    line, fix = re.findall(r"✗ 模型：(.*)\n +→ (.*)", ran.out)[0]
    assert "no {key}" in line
    assert re.search(r"[一-鿿`]。$", fix)


async def test_U58_without_a_network_one_finding_says_so(tmp_path: Path) -> None:
    telegram = {"enabled": True, "token": "123456:FAKE-token_for-tests-0123456789abcdef"}
    model = {"defaults": {"model": "gpt-5.1", "provider": "openai"}}
    home = program(tmp_path, channels={"telegram": telegram}, agents=model)
    ran = await home.run("doctor", "--json", env={"HTTPS_PROXY": CLOSED, "OPENAI_API_KEY": "sk-nothing-1234567890"})
    found = read(ran)
    assert ran.code == 2
    bad = {name for name, (state, _) in found.items() if state == "bad"}
    assert bad == {"Network"}
    assert "127.0.0.1:9 does not answer" in found["Network"][1]
    assert all(name in found["Network"][1] for name in ("Model", "Search: duckduckgo", "Telegram token", "Proxy"))


async def test_U58_what_is_broken_is_told_once_and_keeps_no_other_check_from_its_finding(tmp_path: Path) -> None:
    home = program(
        tmp_path,
        tools={"web": {"enable": False}},
        agents={"defaults": {"provider": "openai"}},
        providers={"openai": {"apiKey": "${NOBODY_SET_IT}"}},
        channels={"telegram": {"enabled": True, "token": "123"}},
        library={"folders": [str(tmp_path / "gone")]},
        backup={"folder": "/proc/nowhere"},
    )
    (home.home / "nanobot.db").write_bytes(b"no database" * 100)
    ran = await home.run("doctor", "--json")
    found = [one for one in json.loads(ran.out)["checks"] if one["state"] in ("bad", "warn")]
    for words in ("not a bot token", "is damaged", str(tmp_path / "gone"), "/proc", "Put that right, or name another"):
        assert len([one for one in found if words in one["words"]]) == 1, (words, found)
    assert {"Model", "Telegram token", "Budget"}.isdisjoint(one["name"] for one in found)


async def test_a_damaged_database_open_files_and_late_jobs_are_found_and_left_as_they_are(tmp_path: Path) -> None:
    home = quiet(tmp_path)
    path = home.home / "nanobot.db"
    with closing(open_file(path)) as db:
        values = "'remind', 'x', 'r', 'UTC', 'p', 'telegram:1', 1, 'once', '', 0, '', 'd', '2026-01-01', 'l', '', 0"
        db.execute(f"INSERT INTO job VALUES (7, {values})")
        db.commit()
    path.chmod(0o644)
    found = read(await home.run("doctor", "--json"))
    assert found["Database"][0] == "ok"
    assert found["Permissions"][0] == "warn"
    assert "nanobot.db" in found["Permissions"][1]
    assert found["Schedule"][0] == "warn"
    assert "#7" in found["Schedule"][1]
    whole = path.read_bytes()
    path.write_bytes(whole[:8_192] + b"\x00" * 8_192 + whole[16_384:])
    damaged = path.read_bytes()
    ran = await home.run("doctor", "--json")
    assert ran.code == 2
    assert "is damaged" in read(ran)["Database"][1]
    assert path.read_bytes() == damaged
    path.write_bytes(whole)
    (path.parent / "files").mkdir()
    (path.parent / "files/files.db").write_bytes(b"no database" * 100)
    there = read(await home.run("doctor", "--json"))["Database"]
    assert "files.db is damaged: file is not a database" in there[1]


async def test_the_postgresql_of_many_gateways_is_asked(tmp_path: Path, postgres: "TestServer") -> None:
    telegram = {"token": "123456:FAKE-token_for-tests-0123456789abcdef"}
    home = program(tmp_path, tools={"web": {"enable": False}}, agents={"defaults": {"provider": "lookup"}})
    file = home.home / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | {"channels": {"telegram": telegram}}
    for address, state, words in (
        (postgres.fresh(), "ok", "PostgreSQL "),
        ("postgresql://ada:canary-password@127.0.0.1:9/bots", "bad", "cannot be reached"),
    ):
        file.write_text(json.dumps({**config, "gateway": {"ledger": address}}), encoding="utf-8")
        ran = await home.run("doctor", "--json")
        found = read(ran)["Database"]
        assert found[0] == state, found
        assert words in found[1]
        assert "canary-password" not in ran.out


async def test_U65_a_clock_that_is_wrong_is_seen_by_the_date_of_a_server() -> None:
    async def late(_request: Request, respond: Responder) -> None:
        await respond.send(404, headers=[("Date", formatdate(time.time() + 900, usegmt=True))])

    async with HttpServer(late) as server:
        found = await network.clock([CLOSED, server.url], Proxies())
    assert found.state == "bad"
    assert "900 s behind" in found.words or "899 s behind" in found.words
    assert (await network.clock([CLOSED], Proxies())).state == "off"


async def test_made_up_addresses_and_an_ipv6_that_leads_nowhere_are_found() -> None:
    assert network.judged_names({"x.example": ("198.18.0.7",)}, fake_ip=False).state == "warn"
    assert network.judged_names({"x.example": ("198.18.0.7",)}, fake_ip=True).state == "ok"
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        found = await network.ipv6({"x.example": ("::1", "127.0.0.1")}, port)
    finally:
        server.close()
        await server.wait_closed()
    # A machine without any IPv6 has none that could be broken.
    assert found.state == ("warn" if "set up here" in found.words else "off")


async def test_U1_a_running_gateway_is_told_with_the_age_of_its_poll_and_not_disturbed(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=PING) as (telegram, _, _, home), running(home) as gateway:
        await telegram.until(lambda: polls(home))
        ran = await home.run("doctor", "--json")
        found = read(ran)
        assert f"process {gateway.process.pid}, Telegram @nano_test_bot, polling, last poll" in found["Gateway"][1]
        assert found["Telegram updates"][0] == "ok"
        assert telegram.conflicts == 0
        telegram.user("Ada", OWNER).say("/doctor")
        await telegram.shows(OWNER, "bot: Doctor: ")
        told = next(line for line in telegram.visible(OWNER) if "bot: Doctor: " in line)
        assert "Telegram updates" in told.partition("Well: ")[2]
        assert await gateway.stop() == 0, gateway.text
    assert len(found) >= 18


async def test_a_check_that_never_ends_or_breaks_is_a_finding() -> None:
    async def never() -> Finding:
        await asyncio.Event().wait()
        raise AssertionError

    async def breaks() -> Finding:
        raise ZeroDivisionError("by a key of sk-canary-0123456789abcdef")

    (slow,) = await bounded("Slow", never(), 0.01)
    assert (slow.name, slow.state) == ("Slow", "warn")
    assert "no answer within" in slow.words
    (broken,) = await bounded("Broken", breaks(), 5)
    assert broken.state == "bad"
    assert "ZeroDivisionError" in broken.words
    assert "canary" not in broken.words


async def test_sqlite_is_only_read_while_it_is_looked_at(tmp_path: Path) -> None:
    home = quiet(tmp_path)
    path = home.home / "nanobot.db"
    open_file(path).close()
    before = path.stat().st_mtime_ns
    assert read(await home.run("doctor", "--json"))["Database"][0] == "ok"
    assert path.stat().st_mtime_ns == before
    assert rows(path, "PRAGMA quick_check") == [("ok",)]


async def test_what_is_not_well_stands_first_and_what_is_well_in_one_short_paragraph(tmp_path: Path) -> None:
    home = quiet(tmp_path)
    (home.home / "config.json").chmod(0o644)
    told = (await home.run("doctor", "--quick")).out
    first, well, *rest = told.split("\n\n")[0], *told.split("\n\n")[1:]
    assert first.startswith("! ")
    assert "\n    → " in first
    assert not re.search("(?m)^✓", first)
    assert re.match(r"✓ \d+ checks are well: Configuration, ", well)
    assert len(re.findall("(?m)^[✓-] ", "\n".join([well, *rest]))) == 2
    assert "nanobot doctor --all" in told
    every = (await home.run("doctor", "--quick", "--all")).out
    assert re.search("(?m)^✓ Configuration: .+", every)
    assert len(every.splitlines()) > len(told.splitlines()) + 8
