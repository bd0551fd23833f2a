"""Files and speech: fetched with a limit, kept under names of our own, read where there are words, and missed aloud."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

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
from nanobot.web.client import trusted_client
from tests.channels.telegram.intake_harness import IntakeStage, intake_stage
from tests.fakes.files import pdf_file, pdf_text
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.office_files import paragraph, word_file
from tests.fakes.patience import growing
from tests.fakes.telegram_server import TOKEN, User, bad_gateway, drop_before, refuse, too_many
from tests.fakes.waiting import until
from tests.tables import table

PNG = b"\x89PNG\r\n\x1a\n" + bytes(50)
JPEG = b"\xff\xd8\xff\xe0" + bytes(500)


async def test_a_photo_is_fetched_in_its_largest_size_and_kept_under_a_name_of_ours(tmp_path: Path) -> None:
    async with intake_stage(tmp_path / "media", place="inbox/a.jpg") as at:
        message = await at.take(at.server.user("Ada").send("photo", JPEG, "what is it?"))
        (media,) = message.media
        path = Path(media.path)
        assert (message.content, media.place) == ("what is it?", "inbox/a.jpg")
        assert (media.mime, media.size, path.read_bytes()) == ("image/jpeg", len(JPEG), JPEG)
        assert path.parent == tmp_path / "media"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert at.said == []


async def test_an_album_is_one_message_with_all_its_pictures(at: IntakeStage) -> None:
    updates = at.server.user("Ada").album(JPEG, PNG, JPEG + b"3", caption="compare")
    message = await at.take(*updates)
    assert message.content == "compare"
    assert [media.mime for media in message.media] == ["image/jpeg", "image/png", "image/jpeg"]
    assert [Path(media.path).read_bytes() for media in message.media] == [JPEG, PNG, JPEG + b"3"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b.txt", "..", "x\x00.sh", "evil.p;y", "n" * 300 + ".txt"])
async def test_the_senders_name_of_a_file_is_text_and_no_path(at: IntakeStage, name: str, tmp_path: Path) -> None:
    message = await at.take(at.server.user("Ada").send("document", b"hello", file_name=name))
    (media,) = message.media
    assert Path(media.path).parent == tmp_path / "media"
    assert Path(media.path).name.startswith("document-")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["media"]
    assert len(media.name) <= 120


async def test_a_document_of_text_comes_along_as_text_from_outside(at: IntakeStage, ada: User) -> None:
    code = "def größe():\n    return 1\n"
    message = await at.take(
        ada.send("document", code.encode(), "explain", file_name="größe.py", mime_type="text/x-python")
    )
    assert message.content == "explain"
    assert message.context == f"Text of the file größe.py:\n{code}"
    assert Path(message.media[0].path).suffix == ".py"
    latin = await at.take(ada.send("document", "Grüße aus Köln, schöne Stadt".encode("cp1252"), file_name="n.txt"))
    assert "Grüße aus Köln" in latin.context
    long = await at.take(ada.send("document", b"word " * 20_000, file_name="long.txt"))
    assert "[Cut: the file has more than these 20,000 characters. No tool reads the rest.]" in long.context


async def test_U52_an_office_document_comes_along_as_text(at: IntakeStage, ada: User) -> None:
    message = await at.take(
        ada.send("document", word_file(paragraph("First") + paragraph("Second")), "sum up", file_name="plan.docx")
    )
    assert message.content == "sum up"
    assert message.context == "Text of the file plan.docx:\nFirst\n\nSecond"
    broken = await at.take(ada.send("document", word_file(paragraph("x"))[:-30], file_name="b.docx"))
    assert broken.content.startswith("[The document is here, but its text cannot be read: ")


@table(
    "body name why",
    (b"PK\x03\x04" + bytes(99), "a.zip", "its text cannot be read: it is a ZIP archive."),
    (b" \n ", "a.txt", "it is empty"),
    (b"%PDF-1.7 broken", "a.pdf", "its text cannot be read: "),
)
async def test_a_document_without_text_is_kept_and_said(at: IntakeStage, body: bytes, name: str, why: str) -> None:
    message = await at.take(at.server.user("Ada").send("document", body, file_name=name))
    assert message.content.startswith(f"[The document is here, but {why}")
    assert (message.context, len(message.media)) == (f"The document is called {name}", 1)
    assert at.said[0][1] == f"⚠️ {message.content[1:-1]}".replace("The document is", f"The document {name} is")


async def test_W05_a_scan_goes_along_for_models_that_read_pdf(at: IntakeStage, ada: User) -> None:
    scan = await at.take(ada.send("document", pdf_text([]), file_name="scan.pdf"))
    assert (scan.media[0].mime, scan.media[0].inline) == ("application/pdf", True)
    assert "it is a scan, which only models that read PDF can see" in scan.content
    text = await at.take(ada.send("document", pdf_file(["High water"]), file_name="text.pdf"))
    assert text.media[0].inline is False
    assert "High water" in text.context


async def test_U51_a_picture_is_what_begins_like_one_however_it_was_sent(at: IntakeStage, ada: User) -> None:
    real, called = (
        ada.send("document", body, file_name="a.png", mime_type="image/png") for body in (PNG, b"no picture")
    )
    shown = at.server.user("Bob").send("photo", PNG, "my cat")["message"]
    cases = [
        (real, "image/png", "The document is called a.png"),
        (called, "application/octet-stream", "Text of the file a.png:\nno picture"),
        (ada.send("photo", b"\x00\x01"), "application/octet-stream", ""),
        (ada.say("which breed?", reply_to_message=shown), "image/png", "In reply to Bob:\nmy cat"),
    ]
    for update, mime, context in cases:
        message = await at.take(update)
        assert ([one.mime for one in message.media], message.context) == ([mime], context)


async def test_U52_a_file_over_the_limit_is_refused_before_it_is_asked_for(at: IntakeStage) -> None:
    update = at.server.user("Ada", 7).send("document", b"x", "read this", size=34_000_000, file_name="film.mkv")
    message = await at.take(update)
    reason = (
        "(34 MB) was not read: Telegram gives files up to 20 MB to bots. "
        "A Bot API server of your own (channels.telegram.apiBase) has no such limit."
    )
    assert message.content == f"read this\n\n[The document {reason}]"
    assert message.context == "The document is called film.mkv"
    assert [text for _, text in at.said] == [f"⚠️ The document film.mkv {reason}"]
    assert not at.server.sent("getFile")


async def test_U52_a_server_of_ones_own_gives_larger_files(tmp_path: Path) -> None:
    async with intake_stage(tmp_path, own_server=True) as at:
        message = await at.take(at.server.user("Ada").send("document", b"x", size=34_000_000, file_name="film.mkv"))
        assert len(message.media) == 1
        local = tmp_path / "on the server.bin"
        await asyncio.to_thread(local.write_bytes, b"local")
        at.server.places["disk"] = str(local)
        at.server.files["disk"] = b""
        sent = at.server.user("Ada").send("document", b"")
        body = sent["message"]
        assert isinstance(body, dict)
        body["document"]["file_id"] = "disk"
        (media,) = (await at.take(sent)).media
        assert Path(media.path).read_bytes() == b"local"


async def test_a_file_that_grows_past_the_limit_is_dropped_while_it_comes(tmp_path: Path) -> None:
    async with intake_stage(tmp_path / "media", limit=1_000_000) as at:
        message = await at.take(at.server.user("Ada").send("document", bytes(3_000_000), size=10))
        assert "was not read" in message.content
        assert list((tmp_path / "media").iterdir()) == []


@pytest.mark.parametrize("method", ["getFile", "file"])
async def test_every_failure_leaves_a_line_in_the_turn_and_in_the_chat(method: str, tmp_path: Path) -> None:
    async with intake_stage(tmp_path / "media") as at:
        ada = at.server.user("Ada")
        for fault in (refuse(400, "Bad Request: file is too big"), drop_before(), refuse(404, "Not Found")):
            at.server.fail(method, fault, fault)
            message = await at.take(ada.send("photo", JPEG, "look"))
            at.server.calm()
            assert message.content.startswith("look\n\n[The photo was not read: ")
            assert message.media == ()
            assert TOKEN not in message.content
            assert "://" not in message.content
            assert at.said[-1][1].startswith("⚠️ The photo was not read: ")
        assert list((tmp_path / "media").glob("*")) == []
        for fault in (too_many(1), bad_gateway()):
            at.server.fail(method, fault)
            assert len((await at.take(ada.send("photo", JPEG))).media) == 1, "one failure is tried again"


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "media").write_text("in the way")
    async with intake_stage(tmp_path / "media") as at:
        message = await at.take(at.server.user("Ada").send("photo", JPEG))
        assert "could not be saved here" in message.content


OGG = b"OggS\x00\x02" + bytes(200)
CODE = "import sys; data = open(sys.argv[1], 'rb').read(); print('heard', len(data), 'bytes')"


@asynccontextmanager
async def endpoint(
    answer: object, status: int = 200, *, key: str = "k-1", language: str = ""
) -> AsyncIterator[tuple[EndpointTranscriber, HttpServer]]:
    async def serve(request: Request, respond: Responder) -> None:
        del request
        await respond.json(answer, status)

    async with HttpServer(serve) as server, trusted_client() as client:
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


async def test_U50_without_a_way_to_do_it_the_chat_and_the_turn_say_how_to_enable_it(at: IntakeStage) -> None:
    message = await at.take(at.server.user("Ada").send("voice", OGG))
    assert message.content == f"[The voice message was not written down. {HOW_TO_ENABLE}]"
    assert at.said[0][1] == f"⚠️ The voice message was not written down. {HOW_TO_ENABLE}"
    assert len(message.media) == 1


async def test_in_a_private_mode_chat_no_sound_leaves_the_machine(tmp_path: Path) -> None:
    chats = ChatSettings()
    await chats.set("telegram:7", "privacy", "on")
    async with trusted_client() as client:
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
async def test_an_endpoint_that_fails_is_named_with_why(answer: object, status: int, said: str, tmp_path: Path) -> None:
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
    async with trusted_client() as client:
        gone = EndpointTranscriber(SpeechService("http://127.0.0.1:9/v1"), client)
        assert "could not be reached" in (await gone.transcribe(sound, "audio/ogg")).problem
    assert "cannot be read" in (await transcriber.transcribe(tmp_path / "gone", "")).problem


@table(
    "command said",
    (("/no/such/whisper",), "/no/such/whisper cannot be started"),
    ((sys.executable, "-c", "import sys; sys.exit('no model file')"), "failed with code 1: no model file"),
    ((sys.executable, "-c", "pass"), "No words were heard"),
)
async def test_a_program_that_fails_is_named_with_why(command: tuple[str, ...], said: str, tmp_path: Path) -> None:
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
