"""Marks of an answer on Telegram: mended once, questioned where that fails, and what they rest on behind a button."""

import json
from pathlib import Path

from nanobot.providers.scripted import Call
from tests.channels.telegram.gateway import furnished, running
from tests.fakes.llm_server import Reply
from tests.fakes.website import Answer, Website

PAGE = (
    "<html><head><title>Merrow</title></head><body><article><h1>Merrow</h1>"
    "<p>The tower of Merrow is 1,204 feet tall and made of oak.</p></article></body></html>"
)
BUTTON = "What the pages say"


async def test_G14_a_button_under_the_answer_shows_what_each_mark_rests_on(tmp_path: Path) -> None:
    async with Website({"/": Answer(PAGE)}) as site:
        replies = (
            Reply(Call("web_fetch", {"url": f"{site.url}/"})),
            Reply("It is 1,402 feet tall [1] and made of oak [1]."),
            Reply("It is 1,302 feet tall [1] and made of oak [1]."),  # mends nothing
        )
        async with furnished(tmp_path, *replies) as (_, llm, ada, home):
            async with running(home.change(tools={"ssrfWhitelist": ["127.0.0.1/32"]})):
                ada.say(f"how tall? {site.url}/")
                missing = "1,402 feet: not on [1], which has 1,204 feet"
                answer = await ada.sees(BUTTON)
                assert answer.startswith("bot: It is 1,402 feet tall [1?] and made of oak [1].")
                assert f"❓ {missing}" in answer
                assert missing in json.dumps(llm.requests[2].body), "the list went back to the model"
            async with running(home):  # also after a restart
                shown = await ada.presses(BUTTON, "✗")
            assert f"✗ {missing}" in shown
            assert "→ The tower of Merrow is 1,204 feet tall and made of oak." in shown
