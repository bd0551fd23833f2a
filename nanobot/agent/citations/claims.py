"""What an answer claims at each of its marks: the words that the mark stands for, and what in them can be checked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nanobot.agent.citations.figure import Figure, normal
from nanobot.agent.citations.reading import figures, firm
from nanobot.utils.marks import Mark, find_marks, own_list
from nanobot.utils.passages import sentence_spans
from nanobot.utils.ranking import terms

_STOP: dict[str, frozenset[str]] = {
    "en": frozenset(
        "the a an and or of to in on at by for from with as is are was were be been has have "
        "had it its this that these those "
        "which who whom whose what when where why how not no than then there their they he she "
        "his her him we you i also but so "
        "if into over under after before about between during such can could may might will "
        "would should do does did more most "
        "one all any some only other both each however according while still very much many said says".split()
    ),
    "de": frozenset(
        "der die das den dem des ein eine einen einem einer und oder von zu zum zur im in am "
        "an auf bei für mit aus als ist sind war "
        "waren wird werden wurde wurden hat haben hatte nicht nach auch es er sie sich dass "
        "wie sowie durch über unter laut bis".split()
    ),
    "fr": frozenset(
        "le la les un une des du de et ou à au aux en dans sur par pour avec est sont était "
        "été ont il elle ils qui que ne pas fut furent ce cette "
        "ces se sa son ses plus selon comme depuis".split()
    ),
    "es": frozenset(
        "el la los las un una unos de del y o a al en por para con es son era fue fueron ha "
        "han que no se su sus más como según desde "
        "entre este esta".split()
    ),
    "it": frozenset(
        "il lo la gli le un una di del della dei e o a al in nel nella su per con è sono era "
        "fu ha hanno che non si più".split()
    ),
    "pt": frozenset(
        "o a os as um uma de do da dos das e ou em no na nos nas por para com é são era foi "
        "que não se mais como".split()
    ),
}
_ALL_STOP = frozenset(word for words in _STOP.values() for word in words)
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏ]+")
#: `l'armée` is a word with an article.
_ELIDED = re.compile(
    r"(?<![^\W_])(?:[ldjnsctm]|qu|un|dell|nell|all|sull|dall|lorsqu|jusqu|puisqu|quest|gl)['’](?=[^\W\d_]{2})",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://\S+|\(/[^()\s]*\)")
_SCRIPTS = (
    ("kana", re.compile("[\u3040-\u30ff]")),
    ("hangul", re.compile("[\uac00-\ud7af]")),
    ("han", re.compile("[\u4e00-\u9fff]")),
    ("cyrillic", re.compile("[\u0400-\u04ff]")),
    ("arabic", re.compile("[\u0600-\u06ff]")),
    ("greek", re.compile("[\u0370-\u03ff]")),
)
_QUOTES = re.compile(
    r"“([^“”\n]{1,2000})”|„([^“”„\n]{1,2000})[“”]|«\s?([^«»\n]{1,2000}?)\s?»|「([^「」\n]{1,2000})」|『([^『』\n]{1,2000})』"
    r"|(?<![\w\"])\"([^\"\n]{1,2000})\"(?!\w)|(?<!\w)‘([^‘’\n]{1,2000})’(?!\w)"
)
_LETTER = "[A-Za-z0-9À-ɏͰ-ϿЀ-ӿ'’]"
_NAME = rf"[A-ZÀ-ÖØ-ÞŁŚŠŽА-ЯЁΑ-Ω]{_LETTER}*(?:-{_LETTER}+)*"
_NAMES = re.compile(rf"(?<![\w'’]){_NAME}(?:\s(?:of|de|da|del|van|von|der|den|bin|al|la|le)?\s?{_NAME})*")
#: Family names that a run of two to four characters with them in front makes a person of.
_SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许邓冯韩曹曾彭肖蔡潘田董袁于余叶蒋杜苏魏程吕丁沈任姚"
    "卢傅钟姜崔谭廖范汪陆金石戴贾韦夏邱方侯邹熊孟秦白江阎薛尹段雷黎史龙陶贺顾毛郝龚邵万钱严赖覃洪武莫孔張"
    "劉陳楊趙吳孫馬羅鄭謝許鄧馮韓呂蘇盧鍾譚陸賈韋"
)
_CJK_NAMES = re.compile(
    r"[\u30a1-\u30fa][\u30a1-\u30fc]+・[\u30a1-\u30fc・]{2,}|[\u30a1-\u30fa][\u30a1-\u30fc]{2,}(?=氏|さん|選手|監督|大統領|首相|市|州|島|大学)|"
    r"(?:(?![省市区區县縣个個])[\u4e00-\u9fff]){2,3}(?:市|省|县|縣|大学|大學|公司|银行|銀行|集团|集團)"
)
_PERSON = re.compile(
    rf"(?:(?<![\u4e00-\u9fff])|(?<=[由被是和与與为為对對向者人家员員长長]))[{_SURNAMES}][\u4e00-\u9fff]{{1,2}}(?=[，,、是在说說表认認任于的和与與（等出])"
)
_CJK_PLACES = re.compile(
    "(?<=[是在由从自于到])[\u4e00-\u9fff]{4,8}(?:发射中心|医院|机场|体育场|体育馆|博物馆|研究所|出版社)"
    "|(?:日本|韩国|韓国|美国|英国|法国|德国|俄罗斯|意大利|西班牙|葡萄牙|加拿大|澳大利亚|印度|巴西|荷兰|瑞士|瑞典|挪威|芬兰|波兰|土耳其"
    "|埃及|肯尼亚|埃塞俄比亚|南非|越南|泰国|新加坡|马来西亚|印度尼西亚|菲律宾|墨西哥|阿根廷|新西兰|乌克兰|希腊|中国|摩洛哥|乌干达|坦桑尼亚|尼日利亚|以色列|伊朗|伊拉克|沙特|巴基斯坦|古巴|智利|哥伦比亚|秘鲁|匈牙利|捷克|罗马尼亚|塞尔维亚|克罗地亚"
    "|爱尔兰|冰岛|蒙古|朝鲜|缅甸|柬埔寨|老挝|尼泊尔|哈萨克斯坦)(?![語语文人元])"
)
_ROLE = (
    "长|師|师|員|员|家|手|者|士|官|授|医|総|総裁|总裁|总统|主席|总理|经理|教练|冠军|亚军|季军|导演|主演|编剧|作者|记者|教授|总监|首席|"
    "社長|館長|所長|市長|首相|大臣|監督|選手|作家|博士|代表|会長|院長|校長|知事|教諭|店主|優勝"
)
#: Who holds an office: `设计师是王建华`, `館長は高橋直子である`.
_OFFICE = re.compile(
    rf"(?:{_ROLE})(?:是|为|由|叫|名叫|：|:|は|が)?([\u3005\u4e00-\u9fff]{{2,4}})"
    r"(?=氏|さん|である|です|だ|が|は|、|表示|说|称|认为|指出|作出|介绍|担任|\s|$|[，,。;；）)])"
)
_OPENING = re.compile(r"(?:\A|[.!?:。！？：|>“„\"«\n])[\s*+>|-]*\Z|\A[\s*+>|-]*\Z")
_TITLED = frozenset(
    "president prime minister chancellor king queen prince princess pope dr mr mrs ms prof "
    "professor sir lady lord chief executive "
    "director ceo cto cfo chairman chairwoman senator governor mayor judge general captain "
    "secretary monday tuesday wednesday thursday "
    "friday saturday sunday january february march april may june july august september "
    "october november december spring summer autumn "
    "winter north south east west northern southern eastern western today yesterday tomorrow "
    "yes no note source sources answer "
    "internet web earth english french german chinese japanese spanish italian russian "
    "american british european i ok".split()
)
#: `in der 17. Minute` goes on behind its full stop.
_ORDINAL_END = re.compile(r"\b(?:der|die|das|dem|den|des|am|im|vom|zum|zur|beim|seit|bis) \d{1,2}\.\s?\Z")
_STRIP_MARKUP = re.compile(r"\*{1,3}|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)|`|^\s*#{1,6}\s|^\s*>\s?|~~", re.MULTILINE)
#: Fewer words than these are no statement of their own.
_LEAST_TERMS = 2
#: Characters of a claim that are read, the last ones, and figures of it that are checked.
_LONGEST = 2_000
_MOST_FIGURES = 60
_LEAST_QUOTED = 4
#: Of so many words at least this share is common ones, or the language is none of those known here.
_TELLING, _COMMON = 12, 0.08
_LEAST_SIGNS = 6


@dataclass(frozen=True, slots=True)
class Claim:
    """What stands at a group of marks. `numbers` are the sources that it names.

    `quotes` must stand on a page word for word; `figures`, whose places are in `text`, must be there; `names` are
    proper names; `words` are the folded words that carry the statement. `language` is a code, or a script, or empty.
    """

    marks: tuple[Mark, ...]
    text: str
    quotes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    names: tuple[str, ...] = ()
    words: frozenset[str] = field(default_factory=frozenset)
    language: str = ""

    @property
    def context(self) -> frozenset[str]:
        """The words of the claim besides those of its figures, such as `million` and `metres`."""
        left = self.text
        for figure in reversed(self.figures):
            left = f"{left[: figure.start]} {left[figure.end :]}"
        return words_of(left)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(number for mark in self.marks for number in mark.numbers))


def read_claims(text: str) -> list[Claim]:
    """The claims of an answer, one per group of neighbouring marks; a list of sources at its end claims nothing."""
    end = own_list(text)
    body = text if end is None else text[:end]
    groups = _groups(body, find_marks(body))
    quoted = [match.span() for match in _QUOTES.finditer(body)]
    spans = _sentences(body, quoted)
    claims = []
    for at, group in enumerate(groups):
        before = groups[at - 1][-1].end if at else 0
        after = groups[at + 1][0].start if at + 1 < len(groups) else len(body)
        claims.append(_claim(group, _words_of(body, group, spans, (before, after)), body))
    return claims


def language_of(text: str) -> str:
    """The script of `text` where it is none of Latin letters, else its language as far as common words tell."""
    sample = text[:20_000]
    letters = sum(map(str.isalpha, sample)) or 1
    for name, pattern in _SCRIPTS:
        share = len(pattern.findall(sample)) / letters
        if share > (0.1 if name == "kana" else 0.3):
            return name
    said = _ADDRESS.sub(" ", sample[:8_000])
    running = "\n".join(line for line in said.split("\n") if "|" not in line)  # a table has no common words
    found = [word.casefold() for word in _LATIN_WORD.findall(running)]
    counts = sorted(((sum(word in words for word in found), code) for code, words in _STOP.items()), reverse=True)
    (most, code), (second, _) = counts[0], counts[1]
    if len(found) >= _TELLING and most < len(found) * _COMMON:
        return "other"
    return code if most >= 2 and most > second * 1.3 else ""


def words_of(text: str) -> frozenset[str]:
    """The folded words of `text` that carry meaning: no common words, no figures."""
    text = _ELIDED.sub("", text)
    kept = " ".join(word for word in re.findall(r"[^\W\d_]+(?:['’]\w+)?", text) if word.casefold() not in _ALL_STOP)
    return frozenset(term for term in terms(kept) if len(term) > 1)


def plain(text: str) -> str:
    """`text` without marks of Markdown, compatibility-normalised."""
    return normal(_STRIP_MARKUP.sub("", text))


def _groups(text: str, marks: Sequence[Mark]) -> list[tuple[Mark, ...]]:
    """Marks with nothing but blanks and commas between them belong together."""
    groups: list[tuple[Mark, ...]] = []
    for mark in marks:
        if groups and re.fullmatch(r"[ ,，、;]{0,3}", text[groups[-1][-1].end : mark.start]):
            groups[-1] = (*groups[-1], mark)
        else:
            groups.append((mark,))
    return groups


def _sentences(text: str, quoted: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The sentences of `text` as spans that touch; none ends inside a quotation, and a line break always ends one."""
    ends = [end for _, end in sentence_spans(text)]
    kept = [
        end
        for end in ends
        if not any(start < end < stop for start, stop in quoted)
        and not _ORDINAL_END.search(text[max(0, end - 12) : end])
    ]
    starts = [0, *kept]
    return [(start, end) for start, end in zip(starts, [*kept, len(text)], strict=False) if start < end]


def _words_of(text: str, group: tuple[Mark, ...], spans: Sequence[tuple[int, int]], border: tuple[int, int]) -> str:
    """The words that a group of marks stands for: its sentence from the last mark on, or the one that just ended.

    Where nothing is said before the mark (`According to [1], …`), what follows it counts.
    """
    start, end = group[0].start, group[-1].end
    at = next((n for n, (first, last) in enumerate(spans) if first <= start < last), len(spans) - 1)
    first, last = spans[at] if spans else (0, len(text))
    ahead = text[max(first, border[0]) : start]
    if not ahead.strip(" \t\n.,;:)*_-–>") and at and "\n" not in text[spans[at - 1][1] - 1 : start]:
        ahead = text[max(spans[at - 1][0], border[0]) : start]
    behind = text[end : min(last, border[1])]
    if len(words_of(ahead)) < _LEAST_TERMS and not figures(plain(ahead)) and len(words_of(behind)) >= _LEAST_TERMS:
        return f"{ahead} {behind}"
    if len(words_of(ahead)) < _LEAST_TERMS and first < border[0]:
        return f"{text[first:start]}"
    return ahead


def _claim(group: tuple[Mark, ...], words: str, body: str) -> Claim:
    raw = _without_marks(words[-_LONGEST:])
    said = plain(raw)
    quotes = tuple(quote for quote in _quotes(raw) if quote)
    numbers = figures(said, _MOST_FIGURES)
    return Claim(
        group,
        said,
        quotes,
        tuple(figure for figure in numbers if firm(figure, said)),
        _names(said, numbers),
        words_of(said),
        language_of(said) or language_of(body),
    )


def _without_marks(text: str) -> str:
    for mark in reversed(find_marks(text)):
        text = text[: mark.start] + text[mark.end :]
    return text


def _quotes(text: str) -> list[str]:
    """The quotations that are long enough to be looked up, without what the writer put into or left out of them."""
    found: list[str] = []
    for match in _QUOTES.finditer(text):
        said = next(group for group in match.groups() if group)
        for piece in re.split(r"\[[^\]]*\]|…|\.\.\.|\(\.\.\.\)", plain(said)):
            signs = len(re.findall("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]", piece))
            if len(re.findall(r"\w+", piece)) >= _LEAST_QUOTED or signs >= _LEAST_SIGNS:
                found.append(piece)
    return found


def _names(text: str, numbers: Sequence[Figure]) -> tuple[str, ...]:
    """Proper names: capitalised words that do not merely begin a sentence, katakana, Chinese persons and places."""
    found: list[str] = []
    for match in _NAMES.finditer(text):
        opens = bool(_OPENING.search(text[: match.start()]))
        words = match[0].split()
        if any(number.start <= match.start() < number.end for number in numbers):
            continue  # a unit or a month
        if opens and len(words) == 1 and not (words[0].isupper() and len(words[0]) > 1):
            continue
        if opens and words[0].casefold() in _ALL_STOP | _TITLED:
            words = words[1:]
        while words and words[0].casefold() in _TITLED | _ALL_STOP:
            words = words[1:]
        while words and words[-1].casefold() in _TITLED | _ALL_STOP:
            words = words[:-1]
        if words:
            found.append(" ".join(words))
    for pattern in (_CJK_NAMES, _CJK_PLACES, _PERSON, _OFFICE):
        matches = [match for match in pattern.finditer(text) if not _overlaps(match, numbers)]
        found.extend(match[match.re.groups] for match in matches)
    return tuple(dict.fromkeys(found))


def _overlaps(match: "re.Match[str]", numbers: Sequence[Figure]) -> bool:
    return any(number.start < match.end() and match.start() < number.end for number in numbers)
