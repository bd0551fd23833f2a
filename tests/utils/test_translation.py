"""The language of the fixed sentences: which one is meant, and what stands in it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanobot.utils import translation
from nanobot.utils.translation import N_, Later, _, _n, heard, known, language, settle, speak, speaking, told, yes_or_no
from tests.fakes.chinese import english_left
from tests.tables import table


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    with speaking(""):
        yield
    settle({}, "auto")


@table(
    "tag code",
    ("zh-hans", "zh"),
    ("zh_CN.UTF-8", "zh"),
    ("zh-TW", "zh"),
    ("ZH", "zh"),
    ("de", "en"),
    ("C.UTF-8", "en"),
    ("en-GB", "en"),
    ("", ""),
)
def test_a_tag_of_a_language_is_known_however_it_is_written(tag: str, code: str) -> None:
    assert known(tag) == code


@table(
    "env code",
    ({"LANG": "zh_CN.UTF-8"}, "zh"),
    ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
    ({"LANG": "de_DE", "LANGUAGE": "zh_CN:en"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "de:zh:en"}, "zh"),
    ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en_GB:zh"}, "en"),
    ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "zh_CN:zh", "LC_ALL": "C"}, "en"),
    ({"LC_ALL": "zh_CN", "LANG": "C"}, "zh"),
    ({"LANG": "\udcff:::zh\x00..@"}, "en"),
    ({}, "en"),
)
def test_the_first_variable_that_is_set_tells_the_language_of_the_surroundings(env: dict[str, str], code: str) -> None:
    settle(env)
    assert language() == code


def test_the_configuration_stands_above_the_surroundings_and_above_what_people_speak() -> None:
    settle({"LANG": "zh_CN.UTF-8"}, "en")
    speak("zh-hans")
    assert language() == "en"


def test_where_somebody_spoke_last_tells_the_language_of_what_nobody_asked_for() -> None:
    assert heard("zh-hans", "telegram:42")
    assert not any(heard(tag, "telegram:42") for tag in ("zh-hans", ""))
    speak("", "telegram:42")
    assert language() == "zh"
    speak("", "telegram:43")
    assert language() == "en"
    assert heard("de", "telegram:42")


def test_a_sentence_without_a_translation_stays_as_it_is_with_its_values() -> None:
    with speaking("zh"):
        assert _("Nobody says {this}.", this=1) == "Nobody says 1."
        assert _n("{number} elk", "{number} elks", 2) == "2 elks"
    assert _n("{number} elk", "{number} elks", 1) == "1 elk"


def test_a_catalogue_is_read_as_gettext_writes_it() -> None:
    text = (
        'msgid ""\nmsgstr "Plural-Forms: nplurals=1; plural=0;\\n"\n\n#: a.py\nmsgid ""\n"two\\n"\n"lines"\n'
        'msgstr "\u4e24\u884c"\n\nmsgid "{number} \\"file\\""\nmsgid_plural "{number} files"\n'
        'msgstr[0] "{number} \u4e2a\u6587\u4ef6"\n'
    )
    assert translation.read(text) == {
        "": "Plural-Forms: nplurals=1; plural=0;\n",
        "two\nlines": "\u4e24\u884c",
        '{number} "file"\0{number} files': "{number} \u4e2a\u6587\u4ef6",
    }


def test_of_a_damaged_catalogue_the_sentences_are_english_and_those_of_the_others_are_not(tmp_path: Path) -> None:
    shutil.copytree(translation.folder().parent, tmp_path / "nanobot", ignore=shutil.ignore_patterns("__pycache__"))
    catalogues = tmp_path / "nanobot" / "locale" / "zh_CN" / "LC_MESSAGES"
    damaged = catalogues.joinpath("cli.po").read_bytes()
    wrong = 'msgid "There is no command {word!r}. {instead}"\nmsgstr "{wort} {0.x} {"\n'
    env = {**os.environ, "LANG": "zh_CN.UTF-8", "LC_ALL": "", "LANGUAGE": "", "NANOBOT_HOME": str(tmp_path / "home")}
    for made in (b"\xff" + damaged, damaged + b'\nmsgid "a\\qb"\nmsgstr ""\n', wrong.encode()):
        catalogues.joinpath("cli.po").write_bytes(made)
        words = [sys.executable, "-m", "nanobot", "reset"]
        done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, encoding="utf-8", check=False)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert "There is no command 'reset'. \u5728\u5bf9\u8bdd\u4e2d" in done.stderr


@table(
    "text left",
    ("没有定时任务。\nNo job is set.\n", ["No job is set."]),
    ("已设置：Tell me the news, then", ["已设置：Tell me the news, then"]),
    ("用 `nanobot schedule add text` 添加，或发送 /watch list all，见 https://a.example/some/path 。", []),
    ("已保存到 /home/me/notes of mine.txt，模型 gpt-4 turbo", []),
    ("Opus 4 Python 已启动", []),
)
def test_what_is_left_in_english_is_found_and_what_is_typed_is_not(text: str, left: list[str]) -> None:
    assert english_left(text) == left


def test_words_that_somebody_else_wrote_are_not_english_that_was_left() -> None:
    assert not english_left("提醒：Buy milk and bread", "Buy milk and bread")


def test_what_was_said_before_anybody_read_it_is_told_in_the_language_of_who_does() -> None:
    why = Later(N_("a key is in the environment ({variable})"), variable="OPENAI_API_KEY")
    more = Later(N_("{why}; for the one on this machine write {here!r}"), why=why, here="gpt")
    assert more == "a key is in the environment (OPENAI_API_KEY); for the one on this machine write 'gpt'"
    assert told(more) == more
    with speaking("zh"):
        assert told(more) == "环境变量中有密钥（OPENAI_API_KEY）；要用这台机器上的模型，请写 'gpt'"
        assert told("gpt") == "gpt"


@table(
"answer kind",
("是", "yes"), ("好的。", "yes"), (" Ｙ\n", "yes"), ("Yes!", "yes"), ("仅此一次", "yes"), ("始终", "always"),
        ("不要", "no"), ("好像不对", ""), ("", ""),
)  # fmt: skip
def test_a_yes_is_understood_in_any_of_our_languages(answer: str, kind: str) -> None:
    assert yes_or_no(answer) == kind
