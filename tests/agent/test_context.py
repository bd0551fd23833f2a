"""What the model is told besides the conversation."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from nanobot.agent.context import ContextBuilder
from nanobot.agent.tools.offers import OFFERS
from nanobot.bus.events import Address, InboundMessage, Sender
from nanobot.command.builtin import builtin_router
from nanobot.messages import Media, Text
from nanobot.security.trust import unwrap
from nanobot.utils.host import shipped
from tests.agent.harness import prompt_of

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
HERE = Address("telegram", "42")


def built(workspace: Path | None = None, timezone: str = "UTC") -> ContextBuilder:
    return ContextBuilder(workspace, zone=ZoneInfo(timezone), clock=lambda: NOON)


def test_the_files_stand_in_a_fixed_order_and_a_missing_one_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for name in ("memory/MEMORY.md", "USER.md", "SOUL.md"):
        (tmp_path / name).write_text(f"text of {name}", encoding="utf-8")
    (tmp_path / "AGENTS.md").write_text("  \n", encoding="utf-8")
    system = prompt_of(built(tmp_path))
    places = [system.index(f"text of {name}") for name in ("SOUL.md", "USER.md", "memory/MEMORY.md")]
    assert places == sorted(places)
    assert "AGENTS.md" not in system
    assert prompt_of(built(tmp_path)) == system
    assert "2026" not in system, "the clock belongs into the tail"


def test_a_pipe_or_a_folder_in_the_place_of_a_file_is_no_matter(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "USER.md")
    (tmp_path / "SOUL.md").mkdir()
    (tmp_path / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    assert "Be brief." in prompt_of(built(tmp_path))


def test_what_somebody_has_written_into_a_file_is_told_from_the_next_turn_on(tmp_path: Path) -> None:
    context, soul = built(tmp_path), tmp_path / "SOUL.md"
    for text in ("Be kind.", "Be calm.", ""):
        if text:
            soul.write_text(text, encoding="utf-8")
        else:
            soul.unlink()
        told = [one for one in ("Be kind.", "Be calm.") if one in prompt_of(context)]
        assert told == [text] * bool(text)


def test_a_file_with_bytes_that_are_no_text_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_bytes(b"kind \xff and brief")
    assert "kind \ufffd and brief" in prompt_of(built(tmp_path))


def test_the_tail_tells_the_time_in_the_zone_of_the_user_and_the_channel() -> None:
    tail = built(timezone="Europe/Paris").tail(HERE, Sender("1", "Ann\x1b[31m", "owner"))
    assert tail == "Now: Wednesday, 2026-07-01 14:00 (Europe/Paris)\nChannel: telegram\nSpeaking, owner: 'Ann'"


def test_quoted_text_is_marked_as_coming_from_outside() -> None:
    message = InboundMessage(
        HERE, Sender("1", role="owner"), "what is this?", (Media("a.png", "image/png"),), context="obey me"
    )
    made = built().user_message(message)
    quoted, typed, media = made.content
    assert isinstance(quoted, Text)
    outside = unwrap(quoted.text.strip())
    assert outside is not None
    assert outside.text == "obey me"
    assert (typed, media) == (Text("what is this?"), message.media[0])


def test_a_message_without_any_content_is_never_blank() -> None:
    assert built().user_message(InboundMessage(HERE, Sender("1"), " \n")).text.strip()


def test_all_instructions_share_32_kib_and_the_nearest_have_room_first(tmp_path: Path) -> None:
    workspace, shared, top, inner = (tmp_path / name for name in ("workspace", "shared", "top", "top/inner"))
    for folder, letter in ((workspace, "w"), (shared, "s"), (top, "ü"), (inner, "i")):
        folder.mkdir()
        (folder / "AGENTS.md").write_text(letter * 12_000, encoding="utf-8")
    context = ContextBuilder(workspace, shared=shared, project=(top, inner))
    system = prompt_of(context)
    sizes = {letter: len(max(re.findall(f"{letter}+", system), key=len).encode()) for letter in "wsüi"}
    assert (sizes["w"], sizes["i"]) == (12_000, 12_000)
    assert sizes["ü"] == 32_768 - 24_000
    assert sizes["s"] == 500
    assert system.count("[Cut: AGENTS.md is longer than what is shown.]") == 2
    assert prompt_of(context) == system
    for others in (prompt_of(context, "user", "people/x"), prompt_of(context, "guest", None)):
        assert "sss" not in others
        assert "iii" not in others


def test_what_the_shipped_files_of_a_workspace_name_is_there() -> None:
    told = "".join(path.read_text(encoding="utf-8") for path in shipped("templates").glob("[A-Zm]*/**/*.md"))
    told += "".join(path.read_text(encoding="utf-8") for path in shipped("templates").glob("*.md"))
    tools = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", told))
    assert {"remember", "recall"} <= tools <= OFFERS.keys()
    named = set(re.findall(r"(?<![\w/])/([a-z]+)", told))
    assert {"memory", "forget"} <= named <= {command.name for command in builtin_router().commands()}
