"""What a body is: bytes first, header second, name last."""

import json

from nanobot.web.fetch.content import Kind, content_type, csv_table, image_info, sniff
from nanobot.web.fetch.json_text import pretty_json
from tests.tables import table

RSS = b'<?xml version="1.0"?><rss><channel/></rss>'


@table(
    "mime body url kind",
    ("text/html", b"<!DOCTYPE html><p>x", "", "html"),
    ("text/plain", b"<!doctype html>\n<html>", "", "html"),
    ("", b"\xef\xbb\xbf  <html lang=en>", "", "html"),
    ("application/xhtml+xml", b'<?xml version="1.0"?><html xmlns="x">', "", "html"),
    ("text/html", b'{"a": [1, 2]}', "", "json"),
    ("text/plain", b"[1, 2]", "", "json"),
    ("application/ld+json", b'{"a": cut', "", "json"),
    ("application/json", b'"word"', "", "json"),
    ("text/plain", b"[not] json", "", "text"),
    ("text/plain", b"{a} {b}", "", "text"),
    ("text/html", b"just words", "", "text"),
    ("text/html", b"words <b>and</b> <p>marks", "", "html"),
    ("application/rss+xml", RSS, "", "xml"),
    ("text/html", RSS, "", "xml"),
    ("text/markdown", b"# T", "", "markdown"),
    ("text/plain", b"# T", "https://a.example/README.md?x=1", "markdown"),
    ("application/octet-stream", b"# T", "https://a.example/R.MD", "markdown"),
    ("text/csv", b"a,b", "", "csv"),
    ("text/plain", b"a,b", "https://a.example/t.csv", "csv"),
    ("text/x-python", b"<p> = 1", "", "text"),
    ("text/plain", b"<p>example", "https://a.example/page.py", "text"),
    ("text/html", b"\x89PNG\r\n\x1a\n....", "", "image"),
    ("image/png", b"<html>not a picture", "", "html"),
    ("text/html", b"%PDF-1.4", "", "pdf"),
    ("text/plain", b"\x7fELF\x02\x01", "", "binary"),
    ("text/plain", b"ab\0\0\0cd" * 50, "", "binary"),
    ("text/plain", "text".encode("utf-16"), "", "text"),
    ("text/html", "<!doctype html><p>Wörter".encode("utf-16-le"), "", "html"),
    ("text/html", "<!doctype html><p>Wörter".encode("utf-16"), "", "html"),
    ("text/html", "\ufeff\n<html><p>Wörter".encode("utf-16-be"), "", "html"),
    ("text/html", b" \n\t ", "", "empty"),
)
def test_N41_the_first_bytes_decide_what_a_body_is(mime: str, body: bytes, url: str, kind: Kind) -> None:
    assert sniff(mime, body, url) == kind


def test_a_content_type_is_taken_apart_however_it_is_written() -> None:
    assert content_type('Text/HTML; boundary=x; Charset="UTF-8"').charset == "UTF-8"
    assert content_type("text/html;charset=gbk").mime == "text/html"
    assert content_type("").mime == ""


def test_json_is_indented_unless_it_is_deep_or_broken() -> None:
    assert pretty_json('{"a":[1]}') == json.dumps({"a": [1]}, indent=2)
    deep = "[" * 100 + "]" * 100
    assert pretty_json(deep) == deep
    assert pretty_json("{") == "{"


def test_a_table_keeps_its_cells_apart_and_prose_is_left_alone() -> None:
    assert csv_table('a;b\n"x;1";y|z\n3\n') == "| a | b |\n| --- | --- |\n| x;1 | y\\|z |\n| 3 |  |"
    assert csv_table("one line, only") == "one line, only"


def test_the_size_of_a_picture_is_read_from_its_head() -> None:
    gif = image_info(b"GIF89a\x10\x00\x20\x00rest")
    jpeg = image_info(b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x40\x00\x30\x03")
    assert gif is not None
    assert (gif.width, gif.height) == (16, 32)
    assert jpeg is not None
    assert (jpeg.width, jpeg.height) == (48, 64)
    assert image_info(b"RIFF....WAVE") is None
