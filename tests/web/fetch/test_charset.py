"""From bytes to text: the order of witnesses, and the guess."""

import pytest

from nanobot.web.fetch.charset import decode, known_codec
from tests.tables import table

WORDS = {
    "zh": "今天的天气很好，我们一起去公园散步吧。他说这个问题已经解决了。",
    "tw": "今天的天氣很好，我們一起去公園散步吧。他說這個問題已經解決了。",
    "ja": "今日は天気がいいので、公園へ散歩に行きました。東京タワーも見えます。",
    "ko": "오늘은 날씨가 좋아서 공원에 산책하러 갔습니다. 서울은 아름다운 도시입니다.",
    "ru": "Сегодня хорошая погода, и мы пошли гулять в парк. Москва столица России.",
    "uk": "Київ — столиця України. Сьогодні гарна погода.",
    "fr": "Le café était déjà fermé, l’élève a mangé des crêpes à la fête.",
    "de": "Die Bäume grünen, und die Straße führt über die Brücke nach München.",
    "es": "El niño comió una manzana mañana, ¿verdad? Sí, señor.",
    "pl": "Zażółć gęślą jaźń, proszę państwa, który jest dziś łatwy.",
    "el": "Καλημέρα σας, ο καιρός είναι πολύ καλός σήμερα στην Αθήνα.",
    "tr": "Bugün hava çok güzel, İstanbul’da yürüyüşe çıktık. Şimdi öğle yemeği.",
    "he": "שלום לכולם, מזג האוויר היום יפה מאוד",
    "ar": "مرحبا بالجميع، الطقس اليوم جميل جدا",
    "th": "สวัสดีครับ วันนี้อากาศดีมาก เราไปเดินเล่นกัน",
}
DECLARED = [
    ("zh", "gbk"),
    ("zh", "gb2312"),
    ("zh", "gb18030"),
    ("tw", "big5"),
    ("ja", "shift_jis"),
    ("ja", "euc-jp"),
    ("ja", "iso-2022-jp"),
    ("ko", "euc-kr"),
    ("ru", "windows-1251"),
    ("ru", "koi8-r"),
    ("ru", "ibm866"),
    ("ru", "iso-8859-5"),
    ("fr", "windows-1252"),
    ("de", "iso-8859-1"),
    ("pl", "windows-1250"),
    ("pl", "iso-8859-2"),
    ("el", "windows-1253"),
    ("el", "iso-8859-7"),
    ("tr", "windows-1254"),
    ("he", "windows-1255"),
    ("ar", "windows-1256"),
    ("th", "windows-874"),
    ("uk", "utf-8"),
]


@pytest.mark.parametrize(("language", "charset"), DECLARED)
def test_K27_G32_a_declared_encoding_is_read_exactly(language: str, charset: str) -> None:
    assert known_codec(charset), "the guess would hide a label that is not known"
    words = WORDS[language].replace("’", "'").replace("—", "-")
    body = f'<meta charset="{charset}"><p>{words}</p>'.encode(charset.replace("windows-874", "cp874"))
    assert words in decode(body).text
    assert words in decode(words.encode(charset.replace("windows-874", "cp874")), charset.upper()).text


@pytest.mark.parametrize(
    ("language", "charset"),
    [
        (lang, name)
        for lang, name in DECLARED
        if name not in ("iso-2022-jp", "ibm866") and not name.startswith("iso-8859")
    ],
)
def test_G32_an_undeclared_encoding_is_guessed_by_its_letters(language: str, charset: str) -> None:
    body = WORDS[language].encode(charset.replace("windows-874", "cp874"), "ignore")
    assert decode(b"<p>" + body + b"</p>").text == f"<p>{body.decode(charset.replace('windows-874', 'cp874'))}</p>"


@table(
    "words codec",
    (WORDS["ja"], "iso2022_jp"),
    (WORDS["ru"], "cp866"),
    (WORDS["ru"], "iso8859_5"),
    (WORDS["pl"], "iso8859_2"),
    ("Příliš žluťoučký kůň úpěl ďábelské ódy, když šel přes město.", "iso8859_2"),
    ("Příliš žluťoučký kůň úpěl ďábelské ódy, když šel přes město.", "cp1250"),
    ("Árvíztűrő tükörfúrógép, jó napot kívánok, hová megy őzike?", "iso8859_2"),
    ("Šezdeset i četiri žene došle su u Čakovec, đaci također.", "iso8859_2"),
    ("Işık ve gölge, ağaç altında oturan çocuk", "cp1254"),
    ("Það er gott veður í dag og við förum í göngutúr.", "cp1252"),
    ("A ação não é só uma questão de opinião, São João.", "cp1252"),
    ("Grüße aus Köln", "cp1252"),
    *((WORDS[language], codec) for language in ("ru", "ja", "de", "ar") for codec in ("utf-16-be", "utf-16-le")),
)
def test_G32_a_page_that_declares_nothing_and_has_no_mark_is_read(words: str, codec: str) -> None:
    page = f"<html><body><p>{words}</p></body></html>".encode(codec, "ignore")
    assert decode(page).text == page.decode(codec)


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_K27_a_byte_order_mark_wins_over_every_word(codec: str) -> None:
    mark = b"\xfe\xff" if codec == "utf-16-be" else b""
    assert decode(mark + "żółć <meta charset=gbk>".encode(codec), "big5").text.startswith("żółć")


def test_K27_utf_8_is_believed_before_a_wrong_declaration() -> None:
    assert decode('<meta charset="iso-8859-1">żółć'.encode(), "gbk").text.endswith("żółć")


def test_K27_the_page_is_believed_before_the_header_and_xml_may_declare_too() -> None:
    assert decode('<meta charset="windows-1251">Москва'.encode("cp1251"), "iso-8859-1").text.endswith("Москва")
    assert decode('<?xml version="1.0" encoding="koi8-r"?><a>Москва</a>'.encode("koi8-r")).text.endswith("Москва</a>")


def test_a_cut_in_mid_letter_does_not_change_the_guess() -> None:
    body = ("ж" * 500).encode()[:-1]
    assert decode(body, "windows-1252", cut=True).text == "ж" * 499


def test_a_few_broken_bytes_do_not_turn_utf_8_into_something_else() -> None:
    decoded = decode(("żółć " * 50).encode() + b"\xff\xfe" + "żółć".encode())
    assert decoded.text.startswith("żółć")
    assert 0 < decoded.replaced < 0.05


@pytest.mark.parametrize("label", ["punycode", "utf-7", "idna", "rot13", "zlib", "unicode_escape", "hex", "", "x" * 99])
def test_a_servers_word_reaches_no_other_codec(label: str) -> None:
    assert known_codec(label) == ""
    assert decode(b"caf\xe9", label).text == "café"
