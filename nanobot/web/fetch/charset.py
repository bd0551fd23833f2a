"""From the bytes of a page to its text: which of some thirty encodings it is in.

The order is byte order mark, strict UTF-8, the page's own declaration, the HTTP header, a guess by letters. A server's
word never reaches Python's codec table: only the labels below do (from the WHATWG Encoding standard).
"""

import codecs
import encodings
import re
from encodings.aliases import aliases

from msgspec import Struct

_SAMPLE = 24_000

#: What is read, by Python's names; a server's word reaches no other codec.
_READ = frozenset(
    "utf-8 utf-16-le utf-16-be gb18030 big5hkscs euc_jp cp932 iso2022_jp cp949 cp866 koi8_r koi8_u mac_roman "
    "mac_cyrillic iso8859_2 iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7 iso8859_8 iso8859_10 iso8859_13 "
    "iso8859_14 iso8859_15 iso8859_16 cp874 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258".split()
)
#: Labels that Python does not know, and those that browsers read as a larger encoding (WHATWG Encoding standard).
_MEANT = {
    name: codec
    for codec, names in {
        "utf-8": "utf_8 ascii unicode_1_1_utf_8",
        "utf-16-le": "utf_16_le utf_16 ucs_2 unicode",
        "utf-16-be": "utf_16_be",
        "gb18030": "gbk gb2312 gb_2312 gb_2312_80",
        "big5hkscs": "big5 cn_big5 x_big5",
        "cp932": "shift_jis ms_kanji windows_31j",
        "cp949": "euc_kr windows_949 ks_c_5601_1989 cseuckr",
        "koi8_r": "koi8 koi",
        "koi8_u": "koi8_ru",
        "mac_roman": "mac",
        "mac_cyrillic": "mac_ukrainian",
        "iso8859_8": "iso_8859_8_i",
        "cp874": "windows_874 tis_620 iso8859_11",
        "cp1252": "latin_1 iso8859_1",
        "cp1254": "iso8859_9",
    }.items()
    for name in names.split()
}
#: How ISO-2022-JP changes to letters of two bytes; plain text never says that.
_ESCAPES = re.compile(rb"\x1b\$[@B]")
#: Letters of two scripts in one word: the wrong encoding.
_MIXED = "[A-Za-z][\u0370-\u1fff]|[\u0370-\u1fff][A-Za-z]"
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<meta[^<>]{0,400}?charset\s*=\s*[\"']?\s*([\w:.-]{2,40})", re.IGNORECASE)
_XML = re.compile(rb"\A\s*<\?xml[^<>]{0,200}?encoding\s*=\s*[\"']([\w:.-]{2,40})", re.IGNORECASE)

_RUSSIAN = "оеаинтсрвлкмдпуяызьбгчйхжю"
#: The letters of one language each, so that a wrong encoding, which shows those of several, scores less.
_CENTRAL = ("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áéíóöőúüű", "áäčďéíĺľňóôŕšťúýž", "čćđšž", "ăâîşţ")
_WESTERN = ("éèàâêëîïôùûç", "äöüß", "áéíóúüñ¿¡", "áàâãçéêíóôõú", "åäöé", "åæøé", "àèéìòù", "áðéíóúýþæö")
_QUOTES = "’‘“”„–—…«»°§"
#: Frequent letters of each guessable encoding's languages: a right guess is full of them, a wrong one is not.
_FREQUENT: dict[str, str] = {
    "gb18030": (
        "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小"
        "么心多天而能好都然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长知"
        "民样现分将外但身些与高意进把法此实回二理美点月明其种声全工己话儿者向情部正名定女问力机给等几很业最间"
        "新什打便位因重被走电四第门相次东政海口使教西再平真听世气信北少关并内加化由却代军产入先山五太水万市眼"
        "体别处总才场师书比住员九笑性通目华报立马命张活难神数件安表原车白应路期叫死常提感金何更反合放做系计或"
        "司利受光王果亲界及今京务制解各任至清物台象记边共风战干接它许八特觉望直服毛林题建南度统色字请交爱让认"
        "算论百吃义科怎元社术结六功指思非流每青管夫连远资队跟带花快条院变联言权往展该领传近留红治决周保达办运"
        "武半候七必城父强步完革深区"
    ),
    "big5hkscs": (
        "的一是不了在人有我他這中大來上國個到說們為子和你地出道也時年得就那要下以生會自著去之過家學對可裡後小"
        "麼心多天而能好都然沒日於起還發成事只作當想看文無開手十用主行方又如前所本見經頭面公同三已老從動兩長知"
        "民樣現分將外但身些與高意進把法此實回二理美點月明其種聲全工己話兒者向情部正名定女問力機給等幾很業最間"
        "新什打便位因重被走電四第門相次東政海口使教西再平真聽世氣信北少關並內加化由卻代軍產入先山五太水萬市眼"
        "體別處總才場師書比住員性通目華報立馬命張活難神數件安表原車白應路期叫死常提感金何更反合放做系計或司利"
        "受光王果親界及今京務制解各任至清物台象記邊共風戰接許八特覺望直服林題建南度統色字請交愛讓認算論百義科"
        "怎元社術結六功指思非流每青管夫連遠資隊跟帶花快條院變聯言權往展該領傳近留紅治決周保達辦運武半候七必城"
        "父強步完革深區"
    ),
    "cp1251": _RUSSIAN,
    "koi8_r": _RUSSIAN,
    "cp866": _RUSSIAN,
    "iso8859_5": _RUSSIAN,
    "cp1253": "αβγδεζηθικλμνξοπρστυφχψωςάέήίόύώ",
    "cp1254": "çğıöşüİÇĞÖŞÜâî’“”",
    "cp1255": "אבגדהוזחטיכלמנסעפצקרשתםןץףך",
    "cp1256": "ابتثجحخدذرزسشصضطظعغفقكلمنهويةىأإئءآ،",
    "cp874": "กขคงจชซญณดตถทธนบปผพฟภมยรลวศษสหอฮะาิีึืุูเแโใไ่้๊๋์ั็ำ",
}
_LANGUAGES = {"cp1252": _WESTERN, "cp1250": _CENTRAL, "iso8859_2": _CENTRAL}
_MULTIBYTE = ("euc_jp", "cp932", "cp949", "gb18030", "big5hkscs")


class Decoded(Struct, frozen=True):
    """`replaced` is the share of characters that could not be read, 0 to 1."""

    text: str
    charset: str
    replaced: float = 0.0


def load_codecs() -> None:
    """Load every encoding that `decode` may use, for a process that can open no file later."""
    for codec in _READ:
        codecs.lookup(codec)


def is_plain(body: bytes, *, cut: bool = False) -> bool:
    """Whether `decode` takes `body` for UTF-8, so that no other encoding has to be there."""
    try:
        codecs.utf_8_decode(body, "strict", not cut)
    except UnicodeDecodeError:
        return False
    return not (b"\0" in body or b"\x1b" in body)


def decode(body: bytes, header: str = "", *, cut: bool = False) -> Decoded:
    """The text of `body`. `header` is the charset of the Content-Type; `cut` tells that the body ends in mid-stream."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return _finish(body[len(mark) :], codec)
    named = known_codec(header)
    declared = known_codec(_declaration(body[:4096]))
    if _ESCAPES.search(body[:_SAMPLE]) and body[:_SAMPLE].isascii():
        return _finish(body, "iso2022_jp")
    if named.startswith("utf-16") and b"\0" in body[:_SAMPLE]:
        return _finish(body, named)
    if wide := _without_mark(body[:_SAMPLE]):
        return _finish(body, wide)
    try:
        text = codecs.getincrementaldecoder("utf-8")("strict").decode(body, final=not cut)
        return Decoded(text, "utf-8")
    except UnicodeDecodeError:
        pass
    if declared and not declared.startswith("utf-"):
        return _finish(body, declared)
    if named and not named.startswith("utf-"):
        return _finish(body, named)
    if _mostly_utf8(body):
        return _finish(body, "utf-8")
    return _finish(body, guess(body))


def known_codec(label: str) -> str:
    """Python's codec for a label of the allow-list, else an empty string."""
    name = encodings.normalize_encoding(label.strip(" \t\"'").lower().removeprefix("x-"))
    name = aliases.get(name, name)
    codec = _MEANT.get(name, name)
    return codec if codec in _READ else ""


def guess(body: bytes) -> str:
    """The likeliest codec of bytes that are not UTF-8, judged by the first letters beyond ASCII."""
    start = next((index for index, byte in enumerate(body) if byte > 127), 0)
    sample = body[start : start + _SAMPLE]
    best, top = "cp1252", 0.0
    for codec in dict.fromkeys((*_MULTIBYTE, *_FREQUENT, *_LANGUAGES)):
        score = _score(sample, codec)
        if score > top:
            best, top = codec, score
    return best


def _score(sample: bytes, codec: str) -> float:
    """How much the sample looks like text in `codec`, 0 to 1."""
    text = sample.decode(codec, "replace")
    letters = [char for char in text if ord(char) > 127]
    if not letters:
        return 0.0
    bad = sum(char == "\ufffd" or "\x80" <= char <= "\x9f" or "\ue000" <= char <= "\uf8ff" for char in letters)
    if bad > 1 + len(letters) * 0.02:
        return 0.0
    if codec in ("euc_jp", "cp932"):
        good = sum("\u3041" <= char <= "\u30ff" for char in letters)
        half = sum("\uff61" <= char <= "\uff9f" for char in letters)
        return (1.6 * good - 2 * half) / len(letters)
    if codec == "cp949":
        return sum("\uac00" <= char <= "\ud7a3" for char in letters) / len(letters) * 0.9 * _common_hangul(letters)
    if codec in _LANGUAGES:
        most = max(sum(char.lower() in some + _QUOTES for char in letters) for some in _LANGUAGES[codec])
        return (1.1 if codec == "cp1252" else 1.0) * most / len(letters)
    if len(re.findall(_MIXED, text)) > 0.3 * len(letters):
        return 0.0
    frequent = set(_FREQUENT[codec])
    return (1.5 if codec in _MULTIBYTE else 1.0) * sum(char in frequent for char in letters) / len(letters)


def _common_hangul(letters: list[str]) -> float:
    """Near 1 for Korean prose, whose particles are few and frequent; small for other bytes read as Hangul."""
    frequent = set("이다는을의에가고하로를은한지도서기사어시리인대자그나일정해있보아전수것들만")
    return min(1.0, 4 * sum(char in frequent for char in letters) / len(letters))


def _without_mark(sample: bytes) -> str:
    """UTF-16 that begins with no mark: text of any script has blanks, digits and markup, each with a NUL."""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if len(sample) < 8 or max(even, odd) < len(sample) / 40 or min(even, odd) > max(even, odd) / 10:
        return ""
    return "utf-16-be" if even > odd else "utf-16-le"


def _mostly_utf8(body: bytes) -> bool:
    """True for UTF-8 with a few broken places: most sequences beyond ASCII are well formed."""
    text = body[:200_000].decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(ord(char) > 127 for char in text) - bad
    return good > 4 * bad


def _declaration(head: bytes) -> str:
    match = _XML.search(head) or _META.search(head)
    return match[1].decode("ascii", "ignore") if match else ""


def _finish(body: bytes, codec: str) -> Decoded:
    text = body.decode(codec, "replace")
    bad = text.count("\ufffd")
    return Decoded(text, codec, bad / len(text) if text else 0.0)
