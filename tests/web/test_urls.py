"""URLs in prose of many languages: each line of the corpus with the URLs that a reader sees in it."""

from timeit import timeit

import pytest

from nanobot.web.urls import extract_urls, with_scheme

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

#: Endings, remarks and notes glued to an address, and addresses without a scheme.
_GLUED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("他说“www.a.cn/新闻”打不开", ("www.a.cn/新闻",)),
    ("https://a.ru/123/;ещё www.b.example.ru", ("https://a.ru/123/", "www.b.example.ru")),
    ("(https://a.example.tr/a_(b)'nin özeti)", ("https://a.example.tr/a_(b)",)),
    ("请打开http://localhost:3000/就能看到仪表盘。", ("http://localhost:3000/",)),
    ("時刻表はhttp://eki.example.jp/です。", ("http://eki.example.jp/",)),
    ("https://ktx.example.kr/에 접속해 보세요", ("https://ktx.example.kr/",)),
    ("หรือhttp://localhost:4000/ก็ได้", ("http://localhost:4000/",)),
    ("https://eki.example.jp/docs/を開いて", ("https://eki.example.jp/docs/",)),
    ("https://eki.example.jp/はじめに", ("https://eki.example.jp/",)),
    ("https://eki.example.jp/docs/はじめに", ("https://eki.example.jp/docs/はじめに",)),
    ("https://例子.公司/下载/app.apk下载。", ("https://例子.公司/下载/app.apk",)),
    ("登录https://政务.中国办理", ("https://政务.中国",)),
    ("参见https://zh.wikipedia.org/wiki/水星_(行星)和https://a.cn/b。",
     ("https://zh.wikipedia.org/wiki/水星_(行星)", "https://a.cn/b")),
    ("https://ja.wikipedia.org/wiki/ジョン・レノンと比べて", ("https://ja.wikipedia.org/wiki/ジョン・レノン",)),
    ("https://namu.wiki/w/서울을 요약해 줘", ("https://namu.wiki/w/서울",)),
    ("药品说明https://yao.example.cn/info(附图)已更新", ("https://yao.example.cn/info",)),
    ("你看过https://yao.example.cn/x?我觉得不错", ("https://yao.example.cn/x",)),
    ("以https://开头的网址", ()),
    ("Tickets https://tickets.example.com/gig🎟️now", ("https://tickets.example.com/gig",)),
    ("https://a.com/1→https://a.com/2", ("https://a.com/1", "https://a.com/2")),
    ("1️⃣https://a.com/one2️⃣https://a.com/two", ("https://a.com/one", "https://a.com/two")),
    ("https://en.wikipedia.org/wiki/Michelson–Morley_experiment", ("https://en.wikipedia.org/wiki/Michelson–Morley_experiment",)),
    ("https://fa.wikipedia.org/wiki/می\u200cگویند را", ("https://fa.wikipedia.org/wiki/می\u200cگویند",)),
    ("Osoite https://juna.example.fi/reitit:stä ja https://yle.example.fi:n sivu",
     ("https://juna.example.fi/reitit", "https://yle.example.fi")),
    ("https://belediye.example.tr'deki ve http://localhost:9000/panel'i aç",
     ("https://belediye.example.tr", "http://localhost:9000/panel")),
    ("A https://mav.example.hu-n és https://mav.example.hu/menetrend-ből",
     ("https://mav.example.hu", "https://mav.example.hu/menetrend")),
    ("https://fr.wikipedia.org/wiki/Côte_d'Ivoire", ("https://fr.wikipedia.org/wiki/Côte_d'Ivoire",)),
    ("https://j.example/3[12][13], https://j.example/4[^2] and https://j.example/5¹",
     ("https://j.example/3", "https://j.example/4", "https://j.example/5")),
    ("[![CI](https://ci.example/b.svg)](https://ci.example/runs)", ("https://ci.example/b.svg", "https://ci.example/runs")),
    ("[url]https://f.example/t/10[/url]", ("https://f.example/t/10",)),
    ("देखें https://उदाहरण.भारत/पृष्ठ।", ("https://उदाहरण.भारत/पृष्ठ",)),
    ("(www.a.example/x_(y)).", ("www.a.example/x_(y)",)),
    ("访问www.a.example即可", ("www.a.example",)),
    ("打开http://a.example/可以看到", ("http://a.example/",)),
    ("www.a.example에서 보기", ("www.a.example",)),
    ("www.a.example.tr'den ve www.b.example.fi:ssä", ("www.a.example.tr", "www.b.example.fi")),
    ("https://a.cn/1，https://b.cn/2、www.c.cn/3三家", ("https://a.cn/1", "https://b.cn/2", "www.c.cn/3")),
    ("www.한국.한국에 가입", ("www.한국.한국",)),
    ("وwww.a.example.eg.", ("www.a.example.eg",)),
    ("mail me@www.a.example, open awww.a.example or /var/www.old/x.html, www.conf, www.page.html, www.1.2", ()),
)  # fmt: skip

CORPUS = (
    tuple(
        (frame.replace("{{", "{").replace("}}", "}").replace("{}", url), (url,))
        for frame in _FRAMES
        for url in _TARGETS
        if "{}" in frame
    )
    + _ALONE
    + _GLUED
)


def test_M4_at_least_98_of_100_lines_give_exactly_their_urls() -> None:
    wrong = [(line, extract_urls(line).urls) for line, wanted in CORPUS if extract_urls(line).urls != wanted]
    assert len(CORPUS) >= 120
    assert len(wrong) <= len(CORPUS) * 0.02, wrong


@pytest.mark.parametrize(("line", "wanted"), _ALONE + _GLUED)
def test_G03_urls_are_found_in_prose_of_any_language(line: str, wanted: tuple[str, ...]) -> None:
    assert extract_urls(line).urls == wanted


def test_G03_G05_words_that_look_like_urls_are_listed_as_malformed() -> None:
    found = extract_urls("try http:// or www.example, or htp://a.com and https://ok.example/x.")
    assert found.urls == ("https://ok.example/x",)
    assert found.malformed == ("http://", "www.example", "htp://a.com")


def test_G03_a_host_behind_www_is_read_over_https_and_a_word_stays() -> None:
    assert with_scheme("www.a.example/x") == "https://www.a.example/x"
    assert with_scheme("http://www.a.example/x") == "http://www.a.example/x"
    assert with_scheme("www.example") == "www.example"


@pytest.mark.parametrize("piece", ["http://a:99999/", "https://a", "www.", "https://a.com/b/북을", "'den", "[1]"])
def test_G03_a_long_text_takes_time_by_its_length_alone(piece: str) -> None:
    text = "https://a.com/?" + piece * 4_000
    assert timeit(lambda: extract_urls(text), number=1) < 10
