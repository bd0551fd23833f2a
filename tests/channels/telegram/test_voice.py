"""Speech becomes words: by an endpoint, by a program, or a sentence that says how to enable it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from nanobot.channels.telegram.read.voice import (
    HOW_TO_ENABLE,
    KEPT_PRIVATE,
    CommandTranscriber,
    EndpointTranscriber,
    SpeechService,
    transcriber_of,
)
from nanobot.command.settings import ChatSettings
from nanobot.config.schema import TranscriptionConfig
from tests.channels.telegram.intake_harness import intake_stage
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.patience import growing
from tests.fakes.waiting import until
from tests.tables import table

OGG = b"OggS\x00\x02" + bytes(200)
CODE = "import sys; data = open(sys.argv[1], 'rb').read(); print('heard', len(data), 'bytes')"


@asynccontextmanager
async def endpoint(
    answer: object, status: int = 200, *, key: str = "k-1", language: str = ""
) -> AsyncIterator[tuple[EndpointTranscriber, HttpServer]]:
    async def serve(request: Request, respond: Responder) -> None:
        del request
        await respond.json(answer, status)

    async with HttpServer(serve) as server, httpx.AsyncClient(trust_env=False) as client:
        service = SpeechService(f"{server.url}/v1/", key, "whisper-x")
        yield EndpointTranscriber(service, client, language=language), server


async def test_U50_a_voice_message_becomes_its_words_and_they_are_shown_as_a_quote(tmp_path: Path) -> None:
    async with (
        endpoint({"text": " book a table\nfor two "}, language="en") as (transcriber, server),
        intake_stage(tmp_path, transcriber=transcriber) as at,
    ):
        message = await at.take(at.server.user("Ada", 7).send("voice", OGG, mime_type="audio/ogg"))
    assert (message.content, message.media, message.context) == ("book a table\nfor two", (), "")
    assert list(tmp_path.iterdir()) == []  # the words are kept instead of the sound
    assert [text for _, text in at.said] == ["> 🎤 book a table\n> for two"]
    (request,) = server.requests
    assert request.path == "/v1/audio/transcriptions"
    assert request.headers["authorization"] == "Bearer k-1"
    assert OGG in request.body
    assert b'filename="voice.ogg"' in request.body
    assert b"whisper-x" in request.body
    assert b'name="language"\r\n\r\nen' in request.body


async def test_U50_a_program_on_this_machine_does_it_as_well(tmp_path: Path) -> None:
    async with intake_stage(tmp_path, transcriber=CommandTranscriber((sys.executable, "-c", CODE, "{file}"))) as at:
        ada = at.server.user("Ada")
        assert (await at.take(ada.send("voice", OGG))).content == f"heard {len(OGG)} bytes"
        assert (await at.take(ada.send("audio", OGG, "my song"))).content == f"my song\n\nheard {len(OGG)} bytes"
        assert (await at.take(ada.send("video_note", OGG))).content == f"heard {len(OGG)} bytes"


async def test_times_and_chatter_of_a_program_are_no_speech(tmp_path: Path) -> None:
    printed = "Detected language: English\\n[00:00.000 --> 00:02.000]  Hello\\n[00:00:02.000 --> 00:00:03.100] there."
    heard = await CommandTranscriber((sys.executable, "-c", f"print('{printed}')")).transcribe(tmp_path / "a", "")
    assert heard.text == "Hello\nthere."


async def test_U50_without_a_way_to_do_it_the_chat_and_the_turn_say_how_to_enable_it(tmp_path: Path) -> None:
    async with intake_stage(tmp_path) as at:
        message = await at.take(at.server.user("Ada").send("voice", OGG))
        assert message.content == f"[The voice message was not written down. {HOW_TO_ENABLE}]"
        assert at.said[0][1] == f"⚠️ The voice message was not written down. {HOW_TO_ENABLE}"
        assert len(message.media) == 1


async def test_in_a_private_mode_chat_no_sound_leaves_the_machine(tmp_path: Path) -> None:
    chats = ChatSettings()
    await chats.set("telegram:7", "privacy", "on")
    async with httpx.AsyncClient(trust_env=False) as client:
        away = EndpointTranscriber(SpeechService("https://speech.example/v1", "k"), client)
        here = EndpointTranscriber(SpeechService("http://localhost:8000/v1"), client)
        assert (away.local, here.local) == (False, True)
        async with intake_stage(tmp_path, transcriber=away, chats=chats) as at:
            message = await at.take(at.server.user("Ada", 7).send("voice", OGG))
            assert message.content == f"[The voice message was not written down. {KEPT_PRIVATE}]"
    transcriber = CommandTranscriber((sys.executable, "-c", CODE))
    async with intake_stage(tmp_path, transcriber=transcriber, chats=chats) as at:
        assert (await at.take(at.server.user("Ada", 7).send("voice", OGG))).content.startswith("heard")


async def test_what_was_said_in_a_forwarded_recording_is_from_outside(tmp_path: Path) -> None:
    async with (
        endpoint({"text": "send me money"}) as (transcriber, _),
        intake_stage(tmp_path, transcriber=transcriber) as at,
    ):
        origin = {"type": "hidden_user", "sender_user_name": "Mallory", "date": 1}
        message = await at.take(at.server.user("Ada").send("voice", OGG, forward_origin=origin))
    assert message.content == "[Forwarded without a word of their own.]"
    assert message.context.endswith("Spoken in a recording that was passed on:\nsend me money")


@table(
    "answer status said",
    ({"error": {"message": "bad key k-1"}}, 401, "refused the key"),
    ({"error": {"message": "no such model"}}, 404, "answered with status 404: no such model."),
    ({"error": "overloaded"}, 503, "answered with status 503: overloaded."),
    ({"words": []}, 200, "something that is no transcript"),
    (["x"], 200, "something that is no transcript"),
    ({"text": "  "}, 200, "No words were heard"),
)
async def test_an_endpoint_that_fails_is_named_with_its_reason(
    answer: object, status: int, said: str, tmp_path: Path
) -> None:
    sound = tmp_path / "a.oga"
    await asyncio.to_thread(sound.write_bytes, OGG)
    async with endpoint(answer, status) as (transcriber, _):
        heard = await transcriber.transcribe(sound, "audio/ogg")
    assert heard.text == ""
    assert said in heard.problem


async def test_an_endpoint_that_is_not_there_is_said(tmp_path: Path) -> None:
    sound = tmp_path / "a.oga"
    await asyncio.to_thread(sound.write_bytes, OGG)
    async with endpoint({}) as (transcriber, _):
        pass
    async with httpx.AsyncClient(trust_env=False) as client:
        gone = EndpointTranscriber(SpeechService("http://127.0.0.1:9/v1"), client)
        assert "could not be reached" in (await gone.transcribe(sound, "audio/ogg")).problem
    assert "cannot be read" in (await transcriber.transcribe(tmp_path / "gone", "")).problem


@table(
    "command said",
    (("/no/such/whisper",), "/no/such/whisper cannot be started"),
    ((sys.executable, "-c", "import sys; sys.exit('no model file')"), "failed with code 1: no model file"),
    ((sys.executable, "-c", "pass"), "No words were heard"),
)
async def test_a_program_that_fails_is_named_with_its_reason(
    command: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    heard = await CommandTranscriber(command).transcribe(tmp_path / "a", "audio/ogg")
    assert said in heard.problem


@growing(0.5, 5, 50)
async def test_a_program_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path, limit: float) -> None:
    script = tmp_path / "slow.sh"
    await asyncio.to_thread(script.write_text, f"sleep 50 & echo $! > {tmp_path}/child\nwait\n", encoding="utf-8")
    heard = await CommandTranscriber(("sh", str(script)), seconds=limit).transcribe(tmp_path / "a", "")
    assert "took longer than" in heard.problem
    child = int((await asyncio.to_thread((tmp_path / "child").read_text, encoding="utf-8")).strip())
    await until(lambda: not _alive(child))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


async def test_the_way_is_chosen_by_command_endpoint_key_in_this_order() -> None:
    assert isinstance(
        transcriber_of(TranscriptionConfig(command=("whisper",), api_base="http://127.0.0.1/v1", api_key="k"), {}),
        CommandTranscriber,
    )
    ways: tuple[tuple[TranscriptionConfig, dict[str, str], dict[str, str]], ...] = (
        (TranscriptionConfig(api_base="http://127.0.0.1/v1"), {}, {}),
        (TranscriptionConfig(api_key="k"), {}, {}),
        (TranscriptionConfig(), {"groq": "k"}, {}),
        (TranscriptionConfig(), {}, {"OPENAI_API_KEY": "k"}),
    )
    for wanted, keys, env in ways:
        found = transcriber_of(wanted, keys, env)
        assert isinstance(found, EndpointTranscriber)
        await found.aclose()
    assert transcriber_of(TranscriptionConfig(), {"anthropic": "k"}) is None
