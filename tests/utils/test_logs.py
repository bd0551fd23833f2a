"""No secret reaches a log, whatever way it takes."""

import logging
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from loguru import logger

from nanobot.utils.logs import configure_logging, scrub
from tests.tables import table

#: Stands for a secret of the configuration; unlike any known form of key.
CANARY = "canary value/with+odd=characters"
TOKEN = "8123456789:AAF-abcdefghijklmnopqrstuvwxyz01234"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "logs" / "nanobot.log"
    root, names = logging.getLogger(), ("", "httpx", "httpcore", "telegram")
    levels = {name: logging.getLogger(name).level for name in names}
    before = list(root.handlers)
    configure_logging(path, [CANARY, "tiny"], verbose=True)
    yield path
    logger.remove()
    logger.configure(patcher=lambda _: None)
    for handler in [handler for handler in root.handlers if handler not in before]:
        root.removeHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def fail_with(secret: str) -> None:
    held = {"api_key": secret}
    raise ValueError(f"refused: {held}")


@pytest.mark.parametrize(
    "secret", [CANARY, TOKEN, f"https://api.telegram.org/bot{TOKEN}/getMe", "sk-proj-0123456789abcd"]
)
def test_a_canary_takes_every_way_into_the_log_and_never_arrives(
    log: Path, capsys: pytest.CaptureFixture[str], secret: str
) -> None:
    library = logging.getLogger("some.library")
    logger.info(f"in the text {secret} end")
    logger.info("as an argument {} end", secret)
    logger.bind(key=secret).info("bound")
    library.warning("as an argument %s end", secret)
    library.warning("in an address https://api.example/?id=%s end", quote(secret))
    library.warning("as a mapping %s end", {"key": secret})
    try:
        fail_with(secret)
    except ValueError:
        logger.exception("loguru traceback")
        library.exception("library traceback")
    written = log.read_text(encoding="utf-8") + capsys.readouterr().err
    for form in (secret, quote(secret), TOKEN, CANARY):
        assert form not in written
    assert written.count("end") >= 10
    assert written.count("fail_with") >= 4


def test_a_sink_that_somebody_else_adds_gets_clean_messages(log: Path) -> None:
    lines: list[str] = []
    logger.add(lines.append, format="{message}")
    logger.info("a {}", CANARY)
    assert lines == ["a [secret]\n"]


def test_libraries_that_log_addresses_are_quiet(log: Path) -> None:
    logging.getLogger("httpx").info("HTTP Request: GET https://example.org/private")
    logging.getLogger("httpx").warning("slow")
    text = log.read_text(encoding="utf-8")
    assert "private" not in text
    assert "slow" in text


def test_the_log_is_private(log: Path) -> None:
    logger.info("hello")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_a_full_log_is_set_aside_and_stays_private(log: Path) -> None:
    log.write_bytes(b"x" * 5_000_001)
    logger.info("first of the new one")
    assert "first of the new one" in log.read_text(encoding="utf-8")
    assert log.with_name("nanobot.log.1").stat().st_size == 5_000_001
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_log_that_somebody_takes_away_goes_on_in_a_new_file(log: Path) -> None:
    logger.info("into the first")
    log.rename(log.with_name("kept.log"))
    logger.info("into the second")
    assert "into the second" in log.read_text(encoding="utf-8")
    assert "into the second" not in log.with_name("kept.log").read_text(encoding="utf-8")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@table(
    "text clean",
    ("Authorization: Bearer abcdefgh.ijklmnop", "Authorization: Bearer [secret]"),
    ("Authorization: BAS\u0130C dXNlcjpwYXNz", "Authorization: BAS\u0130C [secret]"),
    ("http://me:hunter2@proxy.example:8080/", "http://me:[secret]@proxy.example:8080/"),
    ("GET /search?q=cats&api_key=abc123&n=5", "GET /search?q=cats&api_key=[secret]&n=5"),
    ("key sk-ant-api03-abcdefghijk was refused", "key [secret] was refused"),
    (f"/bot{TOKEN}/getUpdates", "/[secret]/getUpdates"),
    ("a bot that reads: the asked-for page at 12:30", "a bot that reads: the asked-for page at 12:30"),
    ("task-force risk-based fc-barcelona-supporters", "task-force risk-based fc-barcelona-supporters"),
    ("tvly-dev-0123456789abcdef was used up", "[secret] was used up"),
    ("the bearer of news, 2026-01-31T10:00:00", "the bearer of news, 2026-01-31T10:00:00"),
)
def test_G38_N10_what_looks_like_a_secret_is_hidden_and_prose_is_not(text: str, clean: str) -> None:
    assert scrub(text) == clean


def test_a_log_on_a_full_disk_loses_lines_and_shows_no_traceback(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.unlink(missing_ok=True)
    log.symlink_to("/dev/full")
    logger.info("a line")
    assert "Traceback" not in capsys.readouterr().err


def test_where_no_log_can_be_written_all_else_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").write_text("no folder", encoding="utf-8")
    configure_logging(tmp_path / "logs" / "nanobot.log")
    logger.info("a line")
    assert capsys.readouterr().err == ""
