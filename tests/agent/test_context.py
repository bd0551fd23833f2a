"""What the model is told besides the conversation."""

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from nanobot.agent.context import ContextBuilder
from nanobot.bus.events import Address, InboundMessage, Sender
from nanobot.messages import Media, Text
from nanobot.security.trust import unwrap

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
HERE = Address("telegram", "42")


def built(workspace: Path | None = None, timezone: str = "UTC") -> ContextBuilder:
    return ContextBuilder(workspace, zone=ZoneInfo(timezone), clock=lambda: NOON)


def test_the_files_stand_in_a_fixed_order_and_a_missing_one_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    for name in ("memory/MEMORY.md", "USER.md", "SOUL.md"):
        (tmp_path / name).write_text(f"text of {name}", encoding="utf-8")
    (tmp_path / "AGENTS.md").write_text("  \n", encoding="utf-8")
    system = built(tmp_path).system(folder="")
    places = [system.index(f"text of {name}") for name in ("SOUL.md", "USER.md", "memory/MEMORY.md")]
    assert places == sorted(places)
    assert "AGENTS.md" not in system
    assert built(tmp_path).system(folder="") == system
    assert "2026" not in system, "the clock belongs into the tail"


def test_what_somebody_has_written_into_a_file_is_told_from_the_next_turn_on(tmp_path: Path) -> None:
    context, soul = built(tmp_path), tmp_path / "SOUL.md"
    for text in ("Be kind.", "Be calm.", ""):
        if text:
            soul.write_text(text, encoding="utf-8")
        else:
            soul.unlink()
        told = [one for one in ("Be kind.", "Be calm.") if one in context.system(folder="")]
        assert told == [text] * bool(text)


def test_a_file_with_bytes_that_are_no_text_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_bytes(b"kind \xff and brief")
    assert "kind \ufffd and brief" in built(tmp_path).system(folder="")


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
