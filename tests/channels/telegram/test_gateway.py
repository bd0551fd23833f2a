"""The whole program on Telegram: what a person sees, what survives, and what is never shown."""

import asyncio
import json
import re
import socket
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from nanobot.channels.telegram.access.gate import CLAIMED, STRANGER, UNCLAIMED
from nanobot.channels.telegram.access.people import MOST_WRONG
from nanobot.providers.scripted import Wait
from tests.channels.telegram.gateway import OWNER, Gateway, configured, furnished, running, serving, start
from tests.cli.harness import BOUND, Program
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.proxies import SocksProxy
from tests.fakes.telegram_server import TOKEN, Json, TelegramServer, bad_gateway, drop_before, too_many
from tests.fakes.waiting import until


async def said(telegram: TelegramServer, gateway: Gateway, chat: int, text: str) -> None:
    try:
        await telegram.until(lambda: any(text in line for line in telegram.visible(chat)))
    except TimeoutError:
        raise AssertionError(f"{text!r} is not in {telegram.visible(chat)}\n{gateway.text}") from None


def _seen(telegram: TelegramServer, line: str, count: int) -> bool:
    return telegram.visible(OWNER).count(line) == count


async def test_a_message_is_answered_and_the_gateway_stops_in_order(tmp_path: Path) -> None:
    async with furnished(tmp_path, "Hello **Ada**.") as (telegram, _, ada, home):
        ada.say("hi")
        async with running(home, cold=True) as gateway:
            await said(telegram, gateway, ada.chat, "Hello Ada.")
            health = json.loads((home.home / "gateway.json").read_text(encoding="utf-8"))
            assert (health["pid"], health["bot"]) == (gateway.process.pid, "nano_test_bot")
            status = await home.run("status")
            assert f"Gateway: process {gateway.process.pid}" in status.out
            assert await gateway.stop() == 0, gateway.text
        assert telegram.visible(ada.chat) == ["Ada: hi", "bot: Hello Ada."]
        assert "Traceback" not in gateway.text
        assert "Gateway: not running" in (await home.run("status")).out


async def test_a_gateway_that_was_killed_is_not_said_to_be_polling(tmp_path: Path) -> None:
    async with furnished(tmp_path, "Fine.") as (telegram, _, ada, home):
        ada.say("hi")
        async with running(home) as gateway:
            await said(telegram, gateway, ada.chat, "Fine.")
            await gateway.kill()
        told = json.loads((home.home / "gateway.json").read_text(encoding="utf-8"))
        assert f"Gateway: not running, process {told['pid']} was killed" in (await home.run("status")).out
        # A process of another namespace, such as a container's, cannot be judged from here.
        told["process"] = f"another {told['process']}"
        (home.home / "gateway.json").write_text(json.dumps(told), encoding="utf-8")
        assert f"Gateway: process {told['pid']}, " in (await home.run("status")).out


async def test_no_stranger_and_no_update_stops_the_bot_and_the_next_is_answered(tmp_path: Path) -> None:
    nameless: Json = {
        "type": "user",
        "date": 1_760_000_000,
        "sender_user": {"id": 5, "is_bot": False, "first_name": ""},
    }
    async with furnished(tmp_path, after="Fine.") as (telegram, llm, ada, home):
        eve, mia = telegram.user("Eve"), telegram.user("Mia")
        odd: Json = {"message_id": 7, "date": 1_760_000_000, "chat": None, "text": "in no chat"}
        for count in (1, 2):
            there = partial(_seen, telegram, "bot: Fine.", count)
            eve.say("passed on", forward_origin=nameless)
            eve.say("a reply", external_reply={"origin": nameless})
            mia.say("", venue={"location": None, "title": "Café", "address": "Street 1"})
            telegram.push("message", {**odd, "from": eve.as_json()})
            telegram.push("message", {"message_id": "seven", "chat": 12, "date": {"no": "date"}})
            telegram.push("callback_query", {"id": 5})
            ada.say("how are you?", forward_origin=nameless)
            async with running(home) as gateway:
                await telegram.until(there)
                assert await gateway.stop() == 0, gateway.text
        states = home.rows("SELECT state, reason FROM inbox ORDER BY seq")
        assert [state for state, _ in states] == [*["done"] * 2, *["dead"] * 4, "done"] * 2
        assert all("cannot be read" in str(reason) for state, reason in states if state == "dead")
        assert telegram.visible(eve.chat).count(f"bot: {STRANGER}") == 1
        assert telegram.visible(mia.chat).count(f"bot: {STRANGER}") == 1
        assert len([line for line in telegram.visible(OWNER) if "I set a message aside" in line]) == 1
    assert len(llm.requests) == 2


async def test_the_link_that_is_printed_makes_the_owner_and_brute_force_does_not(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="At your service.", allowFrom=[-1001234]) as (telegram, llm, _, home):
        eve, bob, ada = telegram.user("Eve"), telegram.user("Bob"), telegram.user("Ada")
        async with running(home) as gateway:
            await _printed(gateway, "start=")
            link = re.search(r"https://t\.me/nano_test_bot\?start=(\S+)", gateway.text)
            assert link is not None
            assert "█" in gateway.text, "and as a code to scan"
            assert "allowFrom: -1001234 is no id of a person" in gateway.text, "which owns nothing"
            eve.say("hello, are you free?")
            await said(telegram, gateway, eve.chat, UNCLAIMED.replace("`", ""))
            for number in range(MOST_WRONG):
                eve.say(f"/start {number:022}")
            eve.say(f"/start {link[1]}")
            ada.say(f"/start {link[1]}")
            await said(telegram, gateway, ada.chat, CLAIMED)
            ada.say("what now?")
            await said(telegram, gateway, ada.chat, "At your service.")
            assert len(llm.requests) == 1, "no model was asked for a stranger"
            bob.say("/pair")
            await said(telegram, gateway, bob.chat, "Your code is")
            code = re.search(r"\w{4}-\w{4}", telegram.visible(bob.chat)[-1])
            assert code is not None
            assert code[0] not in _all_files(home, ()), "kept as a hash alone"
            ada.say(f"/pair {code[0]}")
            await said(telegram, gateway, bob.chat, "You have been let in")
            bob.say("hello")
            await said(telegram, gateway, bob.chat, "At your service.")
        assert all("At your service" not in line and CLAIMED not in line for line in telegram.visible(eve.chat))
        assert not telegram.sent("getFile")
        stored = ("config.json", "nanobot.db", "nanobot.db-wal")
        assert link[1] not in _all_files(home, stored), "only the message that used it up holds the code"


async def test_refused_commands_of_a_guest_hold_up_no_answer(tmp_path: Path) -> None:
    async with serving(tmp_path, after="Sunny.") as (telegram, _, _, gateway):
        eve, ada = telegram.member("Eve", -100), telegram.member("Ada", -100, user_id=OWNER)
        ada.say("/group@nano_test_bot on")
        await said(telegram, gateway, -100, "I answer in this group now")
        before = len(ada.seen)
        for command in ["status", "help"] * 20:  # one that is refused, one that guests may use
            eve.say(f"/{command}@nano_test_bot")
        ada.calls_bot("how is the weather?")
        await said(telegram, gateway, -100, "bot: Sunny.")
    bots = [line for line in ada.seen[before:] if line.startswith("bot: ")]
    assert len(bots) <= 1 + 3, "few of them are answered at all"
    assert "bot: Sunny." in bots


async def test_the_stop_of_a_guest_counts_also_where_no_more_of_their_commands_are_answered(tmp_path: Path) -> None:
    hanging = Reply("Once upon a time. " * 9, Wait(asyncio.Event()))
    async with serving(tmp_path, hanging) as (telegram, _, _, gateway):
        eve, ada = telegram.member("Eve", -100), telegram.member("Ada", -100, user_id=OWNER)
        ada.say("/group@nano_test_bot on")
        await said(telegram, gateway, -100, "I answer in this group now")
        eve.calls_bot("tell me a story")
        await said(telegram, gateway, -100, "Once upon a time.")
        for _again in range(5):
            eve.say("/help@nano_test_bot")
        eve.say("/stop@nano_test_bot")
        await said(telegram, gateway, -100, "⏹ stopped")


async def test_a_second_gateway_is_refused_with_the_number_of_the_first(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Yes.") as (telegram, llm, ada, home):
        (tmp_path / "two").mkdir()
        other = configured(tmp_path / "two", telegram, llm)
        runtime = {"XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
        async with running(home, env=runtime) as gateway:
            ada.say("there?")
            await said(telegram, gateway, ada.chat, "Yes.")
            same_home = await start(home, env=runtime)
            assert await same_home.ended() == 1
            (told,) = same_home.text.splitlines()
            assert f"process {gateway.process.pid}" in told
            same_token = await start(other, env=runtime)
            assert await same_token.ended() == 1
            assert f"process {gateway.process.pid}" in same_token.text
            assert "Traceback" not in same_home.text + same_token.text, same_home.text + same_token.text
            assert telegram.conflicts == 0
            await ada.asks("still there?", lambda: telegram.visible(ada.chat).count("bot: Yes.") == 2)
            assert await gateway.stop() == 0


async def test_a_gateway_that_cannot_reach_telegram_says_so_on_its_terminal(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="The answer.") as (telegram, _, ada, home):
        telegram.cut()
        async with running(home) as gateway:
            await telegram.until(lambda: len(telegram.calls) > 1)
            telegram.mend()
            await ada.asks("question", lambda: "bot: The answer." in telegram.visible(ada.chat))
        told = [line for line in gateway.text.splitlines() if line.startswith(telegram.url)]
        assert len(told) == 2, gateway.text
        assert re.search(r"Telegram cannot be reached \(.+\)\. Next try in \d+ s\.$", told[0])
        assert told[1] == f"{telegram.url}: messages arrive again."


async def test_a_gateway_whose_postgresql_is_away_says_so_once(tmp_path: Path) -> None:
    tried, often = 0, asyncio.Event()

    def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tried
        tried += 1
        writer.close()
        if tried > 4:
            often.set()

    away = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    address = f"postgresql://ada:canary-password@127.0.0.1:{away.sockets[0].getsockname()[1]}/bots"
    async with away, TelegramServer() as telegram, LlmServer() as llm:
        home = configured(tmp_path, telegram, llm).change(gateway={"ledger": address})
        async with running(home) as gateway:
            await asyncio.wait_for(often.wait(), BOUND)
            await gateway.stop()
    told = [line for line in gateway.text.splitlines() if line.startswith("The database bots at 127.0.0.1")]
    assert len(told) == 1, gateway.text
    assert "cannot be reached" in told[0]
    assert "canary-password" not in gateway.text


async def test_a_refused_token_ends_the_gateway_with_what_to_do(tmp_path: Path) -> None:
    async with TelegramServer(token="999999:another-token-than-ours-000000000000") as telegram, LlmServer() as llm:
        gateway = await start(configured(tmp_path, telegram, llm))
        assert await gateway.ended() == 1
        assert "@BotFather" in gateway.text
        assert "channels.telegram.token" in gateway.text
        assert TOKEN not in gateway.text


async def test_the_token_is_in_no_log_error_traceback_or_file(tmp_path: Path) -> None:
    canary = "sk-canary-0123456789abcdef"
    refused = Reply(status=401, body={"error": {"message": canary}})
    async with furnished(tmp_path, refused, after="Ok.") as (telegram, _, ada, home):
        telegram.fail("getMe", drop_before())
        telegram.fail("getUpdates", bad_gateway())
        telegram.fail("sendMessage", drop_before(), too_many(1))
        home.change(providers={"custom": {"apiKey": canary}})
        async with running(home, "--debug") as gateway:
            await ada.asks("one", lambda: len(telegram.sent("sendMessage")) >= 3)
            telegram.push("message", {"message_id": TOKEN})
            ada.say(f"my token is {TOKEN}; two")
            await said(telegram, gateway, ada.chat, "Ok.")
            telegram.token = "999999:the-owner-has-asked-for-a-new-one-0000"
            ada.say("three")  # ends the poll that is held open
            await gateway.ended()
        whole = gateway.text + _all_files(home, besides=("config.json", "nanobot.db", "nanobot.db-wal"))
        for secret in (TOKEN, TOKEN.partition(":")[2], canary):
            assert secret not in whole
        kept = home.rows("SELECT reason FROM inbox") + home.rows("SELECT reason FROM outbox")
        assert TOKEN not in str(kept)
        assert "DEBUG" in gateway.text


async def test_a_group_that_becomes_a_supergroup_keeps_its_permission_and_its_conversation(tmp_path: Path) -> None:
    async with furnished(tmp_path, "First.", "Second.") as (telegram, llm, _, home):
        ada = telegram.member("Ada", -55, user_id=OWNER, kind="group")
        async with running(home) as gateway:
            ada.say("/group@nano_test_bot on")
            await said(telegram, gateway, -55, "I answer in this group now")
            ada.calls_bot("remember the blue door")
            await said(telegram, gateway, -55, "First.")
            ada.say("", migrate_to_chat_id=-10055)
            moved = telegram.member("Ada", -10055, user_id=OWNER)
            moved.calls_bot("which door?")
            await said(telegram, gateway, -10055, "Second.")
        assert "remember the blue door" in json.dumps(llm.requests[1].body)


async def test_what_was_sent_while_nanobot_was_away_is_answered_with_a_word_about_it(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Here.") as (telegram, _, ada, home):
        three_hours = 3 * 3_600
        now = int(time.time())
        ada.say("hello?", date=now - three_hours)
        ada.say("anybody?", date=now - three_hours + 60)
        async with running(home) as gateway:
            await said(telegram, gateway, ada.chat, "Here.")
            await telegram.until(lambda: len(telegram.confirmed) == 2)
        seen = telegram.visible(ada.chat)
        assert [line for line in seen if "I was away" in line] == [
            "bot: I was away. Your message of 3 h ago has reached me only now."
        ]


async def test_every_route_to_telegram_goes_through_the_configured_proxy(tmp_path: Path) -> None:
    reached: list[str] = []
    async with TelegramServer() as telegram, LlmServer(after="Through.") as llm:

        async def relay(request: Request, respond: Responder) -> None:
            reached.append(request.target)
            await telegram._serve(
                Request(request.method, request.target.partition("telegram.test")[2], request.headers, request.body),
                respond,
            )

        async with HttpServer(relay) as proxy:
            ada = telegram.user("Ada", OWNER)
            ada.say("hi")
            home = configured(tmp_path, telegram, llm, apiBase="http://telegram.test", proxy=proxy.url)
            dead = {"HTTPS_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "socks4://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
            async with running(home, env=dead) as gateway:
                await said(telegram, gateway, ada.chat, "Through.")
        assert {target.rpartition("/")[2] for target in reached} >= {"getMe", "getUpdates", "sendMessage"}


async def test_a_proxy_that_goes_away_and_comes_back_costs_no_message(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(after="Through.") as llm, SocksProxy(telegram.port) as proxy:
        ada = telegram.user("Ada", OWNER)
        ada.say("one")
        home = configured(tmp_path, telegram, llm, apiBase="http://telegram.test", proxy=f"socks5h://{proxy.address}")
        async with running(home) as gateway:
            await said(telegram, gateway, ada.chat, "Through.")
            assert set(proxy.asked) == {("telegram.test", 80)}, "the name is resolved by the proxy"
            assert proxy._server is not None
            proxy._server.close()
            held = socket.socket()  # or a connection of another test is given the port before the proxy is back
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", proxy.port))
            await proxy.__aexit__(None, None, None)
            ada.say("two")
            await asyncio.sleep(1.0)  # the outage lasts a while; nothing tells of a poll that fails
            back = SocksProxy(telegram.port)
            back._server = await asyncio.start_server(back._serve, sock=held)
            await telegram.until(lambda: telegram.visible(ada.chat).count("bot: Through.") == 2)
            assert await gateway.stop() == 0
            await back.__aexit__(None, None, None)
        assert telegram.conflicts == 0


async def test_a_webhook_takes_updates_with_the_secret_word_and_no_others(tmp_path: Path) -> None:
    port = _free_port()
    hook = {"url": "https://bot.example.org/hook", "port": port, "secret": "a-word-of-our-own"}
    async with serving(tmp_path, after="Delivered.", webhook=hook) as (telegram, _, ada, gateway):
        await telegram.until(lambda: bool(telegram.sent("setWebhook")))
        call = telegram.sent("setWebhook")[0]
        assert call.params["secret_token"] == "a-word-of-our-own"
        update = ada.say("by webhook")
        body = json.dumps(update).encode()
        word = "X-Telegram-Bot-Api-Secret-Token: a-word-of-our-own\r\n"
        assert await _post(port, "/hook", body) == 403
        assert await _post(port, "/hook", body, word.replace("own", "owm")) == 403
        assert await _post(port, "/other", body, word) == 404
        assert await _post(port, "/hook", b"{", word) == 400
        assert await _post(port, "/hook", body, word) == 200
        assert await _post(port, "/hook", body, word) == 200, "a second delivery is the same update"
        await said(telegram, gateway, ada.chat, "Delivered.")
    assert not telegram.sent("getUpdates")
    assert telegram.visible(ada.chat).count("bot: Delivered.") == 1


async def _printed(gateway: Gateway, text: str) -> None:
    await until(lambda: text in gateway.text)


async def _post(port: int, path: str, body: bytes, header: str = "") -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{header}Content-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _all_files(home: Program, besides: tuple[str, ...] = ("config.json",)) -> str:
    files = [path for path in home.home.parent.rglob("*") if path.is_file() and path.name not in besides]
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def _connections(pid: int) -> tuple[set[int], set[int]]:
    """The ports on which a process and its children listen, and those that they are connected to."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    pids = [pid, *map(int, children.read_text(encoding="ascii").split() if children.exists() else ())]
    own: set[str] = set()
    for file in [file for one in pids for file in Path(f"/proc/{one}").glob("fd/*")]:
        with suppress(OSError):  # closed while we look
            own.add(str(file.readlink()))
    listens: set[int] = set()
    talks: set[int] = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text(encoding="ascii").splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if f"socket:[{fields[9]}]" in own and fields[3] == "0A":
                listens.add(int(fields[1].split(":")[1], 16))
            elif f"socket:[{fields[9]}]" in own:
                talks.add(int(fields[2].split(":")[1], 16))
    return listens, talks


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the system does not tell the sockets of a process")
async def test_the_gateway_listens_nowhere_talks_to_its_bot_and_its_model_and_tells_no_key(tmp_path: Path) -> None:
    canary, gate = "sk-canary-0123456789abcdef", asyncio.Event()
    async with furnished(tmp_path, Reply(Wait(gate), "Hello."), after="None.") as (telegram, llm, ada, home):
        home.change(providers={"custom": {"apiKey": canary}})
        async with running(home, env={"BRAVE_API_KEY": canary}) as gateway:
            ada.say("which keys do you have?")
            await llm.asked(1)
            listens, talks = await asyncio.to_thread(_connections, gateway.process.pid)
            assert listens == set()
            assert talks == {telegram.port, llm.port}
            gate.set()
            await said(telegram, gateway, ada.chat, "bot: Hello.")
        asked = b"".join(request.raw for request in llm.requests).decode()
        assert not any(secret in asked for secret in (canary, TOKEN, TOKEN.partition(":")[2]))
        left = [path for path in tmp_path.rglob("*") if path.is_file() and home.home not in path.parents]
        assert left == [], "the lock of the bot is gone with the gateway"
