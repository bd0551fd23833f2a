"""URLs in prose of many languages: each line of the corpus with the URLs that a reader sees in it."""

import pytest

from nanobot.web.urls import extract_urls

A = "https://example.com/a"
B = "http://b.example.org/x?y=1&z=2"
WIKI = "https://en.wikipedia.org/wiki/Python_(programming_language)"

#: Sentences around one URL, `{}`. Each is filled with every URL of `_TARGETS`.
_FRAMES = (
    "{}", "Read {} please", "Read {}.", "Have you read {}?", "Look: {}!", "first {}, then rest", "this ({})", "({}).",
    "[{}]", "<{}>", '"{}"', "'{}'", "`{}`", "**{}**", "*{}*", "_{}_", "~~{}~~", "[text]({})", '[text]({} "Title")',
    "![alt]({})", "[1]: {}", "| {} | cell |", "|{}|", "> {}", "- {}\n- next", '<a href="{}">x</a>', "href='{}'",
    "{};", "{}:", "{}...", "{}…", "see {}[1]", "请看{}。", "请访问{}，谢谢", "（{}）", "「{}」",
    "『{}』を読む", "《{}》", "【{}】",
    "链接：{}；", "{}、次", "{}！", "“{}”", "‘{}’", "«{}»", "„{}“",
    "{}를 요약해 주세요", "{}의 내용", "{}を読んでください",
    "{}查看详情", "看看{}这个网页", "อ่าน{}ให้หน่อย", "اقرأ {}، من فضلك", "ما هذا {}؟",
    "पढ़ें {}।", "Прочитай {}, пожалуйста",
    "¿Has leído {}?", "{}\u200b next", "{}\tnext", "{} — done", "{}—done", "🔗{} ok", '{{"url": "{}"}}',
)  # fmt: skip
_TARGETS = (A, B, WIKI)

_ALONE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("https://zh.wikipedia.org/wiki/北京", ("https://zh.wikipedia.org/wiki/北京",)),
    ("看https://zh.wikipedia.org/wiki/北京大学。", ("https://zh.wikipedia.org/wiki/北京大学",)),
    ("https://ja.wikipedia.org/wiki/東京タワー、", ("https://ja.wikipedia.org/wiki/東京タワー",)),
    ("https://ko.wikipedia.org/wiki/서울 을", ("https://ko.wikipedia.org/wiki/서울",)),
    ("https://ru.wikipedia.org/wiki/Москва.", ("https://ru.wikipedia.org/wiki/Москва",)),
    ("https://de.wikipedia.org/wiki/Käse, ja", ("https://de.wikipedia.org/wiki/Käse",)),
    ("https://例え.jp/道", ("https://例え.jp/道",)),
    ("https://例子.中国/路径，好", ("https://例子.中国/路径",)),
    ("https://example.com请看", ("https://example.com",)),
    ("https://example.com:8080请看", ("https://example.com:8080",)),
    ("https://example.com/?q=天气&n=1", ("https://example.com/?q=天气&n=1",)),
    ("https://a.com/x,https://b.com/y", ("https://a.com/x", "https://b.com/y")),
    ("https://a.com/x;https://b.com/y", ("https://a.com/x", "https://b.com/y")),
    ("https://a.com/x、https://b.com/y", ("https://a.com/x", "https://b.com/y")),
    ("https://a.com/x和https://b.com/y", ("https://a.com/x", "https://b.com/y")),
    ("https://a.comhttps://b.com", ("https://a.com", "https://b.com")),
    ("https://web.archive.org/web/2020/https://a.com/", ("https://web.archive.org/web/2020/https://a.com/",)),
    ("https://a.com/?u=https://b.com/y.", ("https://a.com/?u=https://b.com/y",)),
    ("[https://a.com/x](https://a.com/x)", ("https://a.com/x",)),
    ("[a](https://a.com/w_(x)) and (https://b.com)", ("https://a.com/w_(x)", "https://b.com")),
    ("(see https://a.com/w_(x)).", ("https://a.com/w_(x)",)),
    ("https://a.com(see this)", ("https://a.com",)),
    ("https://a.com/?f[]=1&f[]=2", ("https://a.com/?f[]=1&f[]=2",)),
    ("http://[2001:db8::1]:8080/x.", ("http://[2001:db8::1]:8080/x",)),
    ("http://127.0.0.1:9000/a", ("http://127.0.0.1:9000/a",)),
    ("http://localhost/x", ("http://localhost/x",)),
    ("HTTPS://Example.COM/A", ("HTTPS://Example.COM/A",)),
    ("https://a.com/#top.", ("https://a.com/#top",)),
    ("https://a.com/x#frag?", ("https://a.com/x#frag",)),
    ("https://a.com/v1.2.3.", ("https://a.com/v1.2.3",)),
    ("https://a.com/a_b_", ("https://a.com/a_b_",)),
    ("https://a.com/a-b-c/", ("https://a.com/a-b-c/",)),
    ("https://a.com/%E5%8C%97, x", ("https://a.com/%E5%8C%97",)),
    ("https://a.com/@user/post!", ("https://a.com/@user/post",)),
    ("https://user:pw@a.com/x", ("https://user:pw@a.com/x",)),
    ("https://a.com's page", ("https://a.com",)),
    ("https://a.com/x~y", ("https://a.com/x~y",)),
    ("https://a.com/x+y=z", ("https://a.com/x+y=z",)),
    ("&lt;https://a.com/x&gt;", ("https://a.com/x",)),
    ("https://a.com/x https://a.com/x", ("https://a.com/x",)),
    ("https://a.com/1\nhttps://a.com/2", ("https://a.com/1", "https://a.com/2")),
    ("no link here", ()),
    ("http:// and https://", ()),
    ("mail me@example.com", ()),
    ("ftp://a.com/x", ()),
    ("http://a.com:99999/", ()),
)  # fmt: skip

CORPUS = (
    tuple(
        (frame.replace("{{", "{").replace("}}", "}").replace("{}", url), (url,))
        for frame in _FRAMES
        for url in _TARGETS
        if "{}" in frame
    )
    + _ALONE
)


def test_M4_at_least_98_of_100_lines_give_exactly_their_urls() -> None:
    wrong = [(line, extract_urls(line).urls) for line, wanted in CORPUS if extract_urls(line).urls != wanted]
    assert len(CORPUS) >= 120
    assert len(wrong) <= len(CORPUS) * 0.02, wrong


@pytest.mark.parametrize(("line", "wanted"), _ALONE)
def test_G03_urls_are_found_in_prose_of_any_language(line: str, wanted: tuple[str, ...]) -> None:
    assert extract_urls(line).urls == wanted


def test_G05_words_that_look_like_urls_are_listed_as_malformed() -> None:
    found = extract_urls("try http:// or www.example.com, or htp://a.com and https://ok.example/x.")
    assert found.urls == ("https://ok.example/x",)
    assert found.malformed == ("http://", "www.example.com", "htp://a.com")
