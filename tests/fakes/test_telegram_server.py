"""The fake server as the real client library sees it."""

import asyncio

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import BadRequest, Conflict, Forbidden, NetworkError, RetryAfter, TimedOut

from tests.fakes.telegram_server import TOKEN, TelegramServer, apply_then_drop, too_many


def client(server: TelegramServer) -> Bot:
    return Bot(TOKEN, base_url=f"{server.url}/bot", base_file_url=f"{server.url}/file/bot")


async def test_updates_stay_until_they_are_confirmed_and_the_older_poll_gets_409() -> None:
    async with TelegramServer() as server, client(server) as bot:
        ada = server.user("Ada")
        ada.say("one")
        first = await bot.get_updates(timeout=1)
        assert [update.message.text for update in first if update.message] == ["one"]
        assert [u.update_id for u in await bot.get_updates(timeout=1)] == [u.update_id for u in first]
        waiting = asyncio.create_task(bot.get_updates(offset=first[-1].update_id + 1, timeout=50))
        await server.until(lambda: len(server.sent("getUpdates")) == 3)
        second = Bot(TOKEN, base_url=f"{server.url}/bot")
        async with second:
            newer = asyncio.create_task(second.get_updates(offset=first[-1].update_id + 1, timeout=50))
            with pytest.raises(Conflict):
                await waiting
            ada.say("two")
            assert [update.message.text for update in await newer if update.message] == ["two"]
        assert server.confirmed == [first[-1].update_id]


async def test_messages_edits_buttons_and_refusals_are_those_of_the_real_server() -> None:
    async with TelegramServer() as server, client(server) as bot:
        ada = server.user("Ada")
        keys = InlineKeyboardMarkup([[InlineKeyboardButton("Stop", callback_data="stop:1")]])
        sent = await bot.send_message(ada.chat, "working", reply_markup=keys, disable_notification=True)
        assert server.visible(ada.chat) == ["bot: working [Stop]"]
        ada.press("Stop")
        query = (await bot.get_updates(timeout=1))[0].callback_query
        assert query is not None
        assert query.data == "stop:1"
        await bot.edit_message_text("done", ada.chat, sent.message_id)
        assert server.visible(ada.chat) == ["bot: done"]
        with pytest.raises(BadRequest, match="not modified"):
            await bot.edit_message_text("done", ada.chat, sent.message_id)
        with pytest.raises(BadRequest, match="too long"):
            await bot.send_message(ada.chat, "x" * 4097)
        server.blocked.add(ada.chat)
        with pytest.raises(Forbidden):
            await bot.send_message(ada.chat, "x")


async def test_faults_happen_as_scripted() -> None:
    async with TelegramServer() as server, client(server) as bot:
        ada = server.user("Ada")
        server.fail("sendMessage", apply_then_drop(), too_many(7))
        with pytest.raises((NetworkError, TimedOut)):
            await bot.send_message(ada.chat, "arrived")
        assert server.visible(ada.chat) == ["bot: arrived"]
        with pytest.raises(RetryAfter):
            await bot.send_message(ada.chat, "not yet")
        await bot.send_message(ada.chat, "now")
        assert server.visible(ada.chat) == ["bot: arrived", "bot: now"]
