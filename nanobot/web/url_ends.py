"""Where a URL in prose ends: its host, then what may stand in a path, a query and a fragment.

Chinese, Japanese, Korean and Thai put the next word or a particle right behind a URL; Finnish, Swedish, Turkish and
Hungarian hang case endings on it with a colon, an apostrophe or a hyphen. Of the words below, what may also begin a
title is left out or only counts where the script changes behind it (`はじめに` is a title, `は便利` is not). A library
for links, linkify-it-py 2.2, finds the URLs of 118 of the 235 sentences in `tests/web/test_urls.py`, this module all.
"""

import re
import unicodedata
from urllib.parse import urlsplit

#: A URL begins here; of an address without a scheme the host says whether it is one.
START = re.compile(r"https?://|www\.", re.IGNORECASE)
#: Letters of scripts without blanks, and Hangul, whose particles follow a word at once; full-width forms with them.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17d3\u17d7-\u17ff\u3005-\u3007\u3021-\u3029\u3041-\u309f"
    "\u30a1-\u30fa\u30fc-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc\U00020000-\U0003ffff"
)
#: A character of a host's name: letters and digits with the marks of scripts that write vowels as marks.
NAME = (
    "\\w\u0300-\u036f\u0591-\u05bd\u05c1-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0963\u0966-\u0df3\u0e31-\u0e4e\u0eb1-\u0ecd"
    "\u102b-\u103e\u1056-\u109d\u17b4-\u17d3"
)
RUN = re.compile(f"(?:[{UNSPACED}]|(?<=[{UNSPACED}])\u30fb(?=[{UNSPACED}]))+")

#: Top-level domains in these scripts (IANA's root zone, and the names kept for tests), longest first.
TOP_LEVEL = re.compile(
    "组织机构|中文网|新加坡|中国|中國|公司|网络|網絡|网址|网店|网站|香港|台湾|台灣|澳門|澳门|政务|政府|公益|慈善|机构|在线|手机|移动|信息|"
    "商城|商店|商标|集团|我爱你|世界|企业|健康|娱乐|游戏|書籍|书籍|购物|通販|招聘|时尚|佛山|广东|八卦|珠宝|食品|餐厅|飞利浦|家電|"
    "大拿|天主教|嘉里大酒店|嘉里|亚马逊|联通|谷歌|点看|微博|淡马锡|诺基亚|电讯盈科|测试|測試|みんな|コム|ストア|セール|ファッション|"
    "グーグル|クラウド|ポイント|アマゾン|テスト|한국|닷컴|닷넷|삼성|테스트|ไทย|คอม|ລາວ"
)

_CHINESE = (
    "可以|可用|可能|即可|就能|就可|就是|就会|便可|查看|查询|查詢|打开|打開|访问|訪問|瀏覽|浏览|办理|辦理|请|請|是(?!非)|的|了(?!不起)|吧|吗|嗎|呢|"
    "啊|呀|里面|裡面|里的|里有|裡的|上的|上有|上面|中的|中有|这|這|那个|那個|那篇|那里|看看|看一|看下|看到|進行|进行|获取|獲取|已经|已經|"
    "已更|已失|已关|无法|無法|不能|不是|不行|打不|没有|沒有|有没|有沒|怎么|怎麼|什么|什麼|如何|为什|為什|能不|能否|还是|還是|还有|還有|以及|或者|"
    "然后|然後|之后|之後|但是|因为|因為|所以|如果|帮我|幫我|告诉|告訴|给我|給我|总结一|總結一|翻译成|翻譯成|显示|顯示|需要|应该|應該|现在|現在|目前|"
    "都(?=是|在|有|能|可|不)|也(?=是|在|有|能|可|不)|在(?=线下|这|那|哪|什)"
)
_JAPANESE = (
    "を|です|でした|でしょ|によ[るれりっ]|につい|にあ[るりっ]|があ[るりっ]|という|といっ|といい|となっ|となりま|である|であり|でき[まるた]|"
    "だ(?:$|よ|ね|が|と|そ|った)|にな[るりっ]|(?:[はがにでのともへや]|から(?!揚)|まで|より|など|だけ|にて|には|では|とは|への|での|からの|って|にも|とか)"
    "(?=[^ぁ-ん]|$)|および|または|それと"
)
_KOREAN = (
    "(?:에|에게|을|를|은|는|이|가|의|로|으로|와|과|도|만|까지|부터|처럼|보다|이나|나|이며|이고|이다|다|인데|라는|이라는|라고|이라고|라면|이라면|"
    "예요|이에요|야|이야|및|또는|하고|랑|이랑|라도|이라도|등|등을|등의)$|에서|에는|에도|에선|으로|입니|였[다습]|이었|로부터"
)
_THAI = "ได้|ครับ|ค่ะ|แล้ว|เพื่อ|และ|หรือ|ที่นี่|นี้|ให้หน่อย|ก็|เลย|สำหรับ|ไหม|จากนั้น"
#: How a sentence goes on behind a slash or another sign that ends no word.
_SENTENCE = re.compile(f"{_CHINESE}|{_JAPANESE}|{_KOREAN}|{_THAI}")

_INSIDE = re.compile(
    "を(?:ご|参照|見|読|開|確認|クリック|チェック|要約|調べ|まとめ|説明|訳|使|お|閲覧|比|探|教|引用)|にアクセス|によると|によれば|について|にあ[るりっ]|"
    "(?:です|でした)(?=$|[かがよね])|から(?:引用|取得|抜粋)|と(?:比べ|比較)|で(?:確認|調べ)|の(?:内容|記事|ページ|要約|概要)(?=[をはがに]|$)|"
    "[这這](?:个|個|篇|里|裡|一|页|頁)|是什[么麼]|怎[么麼]样|的(?:主要)?(?:内容|內容|文章|页面|頁面|介绍|介紹|链接|連結|条目|條目|要点|摘要)|"
    "[里裡](?:说|說|写|寫|提|面)|[讲講说說写寫]了|有(?:什[么麼]|[没沒]有)"
)
_KOREAN_OBJECT = re.compile(
    r"(?:[을를](?=\s+(?:보|봐|읽|참고|참조|요약|확인|열|번역|정리|설명|방문|클릭|살펴|검색|비교|분석))|에(?=\s+(?:접속|들어|나와|있|따르))|"
    r"의(?=\s+(?:내용|요약|핵심|주요|제목))|에서(?=\s)|[와과](?=\s+(?:https?://|www\.)))"
)
_JOINS = re.compile(
    "(?:和|与|與|及|以及|跟|或|或者|还有|還有|と|や|か|及び|および|または|와|과|및|또는|랑|และ|หรือ|กับ|\u30fb)$"
)

#: Case endings, each with what stands before it.
_ENDINGS = re.compile(
    # Finnish and Swedish: a:n, a:ssä, a:s
    r"(?<=[^\W_/]):(?:n|s|t|a|ä|ssa|ssä|sta|stä|lla|llä|lta|ltä|lle|ksi|na|nä|ta|tä|tta|ttä|ään|aan|iin|een|hin|hen|han|stakin|kin|ns|t?en)$"
    # Turkish, and English: a'den, a'ya, a's
    r"|(?<=[^\W_]{2}|[^\W_]\))'(?:s|[dt][ae](?:n|ki\w{0,6})?|[yn]?[dt][ae]n?|(?:[yn](?=[aeıiuü]))?[aeıiuü]|n?[ıiuü]n|y?l[ae]|l[ae]r\w{0,5}|d[ıiuü]r|n[dt][ae]n?)$"
    # Hungarian: a-ról, a-ból
    r"|(?<=[^\W_])-(?:r[óő]l|b[óő]l|t[óő]l|h[oeö]z|n[ae]k|k?ént|ön)$"
    # Hungarian, Hebrew and others behind a slash, where no word of an address begins with a hyphen
    r"|(?<=/)[-:'][^\W\d_]{1,8}$"
)
_VOWEL_I = re.compile(r"[aeıioöuü]'[aeıiuü]$")
#: Numbers of notes, raised; those of square and cubic metres are none.
_RAISED = re.compile(r"(?<![/_=][kcm]m)(?<![/_=]m)(?<!mc)[²³]$|[¹⁰⁴-⁹]+$")

_LOGIN = re.compile(r"[A-Za-z0-9._~!$&*+=:%-]{1,200}@(?=[\w\[])")
_IPV6 = re.compile(r"\[[0-9A-Fa-f:.]+\]")
_LABEL = re.compile(f"[{NAME}]+(?:-+[{NAME}]+)*")
_TOP = re.compile(f"[A-Za-z0-9_]+|[{NAME}]+")
_NEXT = re.compile(r"https?://", re.IGNORECASE)
_PORT = re.compile(r":\d+")
_SWITCH = re.compile(f"(?<=[0-9A-Za-z])[{UNSPACED}]")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_ENTITY = re.compile(r"&(?:lt|gt|quot|apos|nbsp|#\d+|#x[0-9a-f]+);", re.IGNORECASE)
#: The path, query or name goes on behind a run of letters.
_GOES_ON = re.compile(r"[/=&%_+-]|[.?#][0-9A-Za-z]")
_KEYCAP = re.compile("[0-9#*]\ufe0f?\u20e3")
_OPENERS = {")": "(", "]": "[", "}": "{"}
#: What may enclose a URL: each opener with what closes it.
_CLOSERS = dict(
    zip(
        "\u201c\u2018\"'`<\u300c\u300e\u300a\u3010\u00ab(\uff08[",
        "\u201d\u2019\"'`>\u300d\u300f\u300b\u3011\u00bb)\uff09]",
        strict=True,
    )
)
_KEPT_MARKS = "\u00b7\u00a7\u00b6\u05be\u05f3\u05f4"
_TRAILING = ".,;:!?'*~\u00b7"
_FOOTNOTE = re.compile(r"(?<!=)\[(?:\^\w{1,20}|\^?\d{1,3}(?:[,;-]\d{1,3})*|[a-z])\]$")
_MOST_LABEL = 63
#: Marks and endings that are taken off one URL.
_MOST_NOTES = 20
_WHOLE_LABEL = re.compile(f"[{NAME}-]+")
#: What looks as if a URL was meant.
_MEANT = re.compile(r"(?<!\w)(?:https?:\S*|[a-z]{2,8}:/{1,2}\S+|www\.\S+)", re.IGNORECASE)
_SENTENCE_MARKS = ".,;:!?'*~"
#: Endings of file names that are no top-level domains.
_FILE = re.compile(
    r"html?|php\d?|aspx?|jsp|css|js|json|xml|ya?ml|toml|ini|cfg|conf|config|log|txt|pdf|docx?|xlsx?|pptx?|csv|tar|t?gz|"
    r"bz2|rar|exe|dll|png|jpe?g|gif|svg|bak|old|tmp|d"
)
_MOST_MALFORMED = 20


def find_urls(text: str) -> tuple[list[str], list[str]]:
    """The URLs of `text`, each once, as written; and up to 20 words that look like URLs and are none."""
    urls: dict[str, None] = {}
    gaps: list[str] = []
    at = 0
    for start in START.finditer(text):
        if start.start() < at or not _may_begin(text, start):
            continue
        url = _url_at(text, start)
        if url:
            urls[url] = None
            gaps.append(text[at : start.start()])
            at = start.start() + len(url)
    gaps.append(text[at:])
    wrong = dict.fromkeys(word[0].rstrip(_SENTENCE_MARKS) for gap in gaps for word in _MEANT.finditer(gap))
    return [*urls], [*wrong][:_MOST_MALFORMED]


def _url_at(text: str, start: re.Match[str]) -> str:
    """The URL that begins at `start`; empty where there is none."""
    begin = start.start()
    bare = start[0].lower() == "www."
    end = _end_of_host(text, begin if bare else start.end(), login=not bare)
    host = text[begin:end]
    if (bare and not is_real_host(host)) or not _is_http_url(f"https://{host}" if bare else host):
        return ""
    return _trimmed(text[begin : _end_of_tail(text, begin, end)], text[max(0, begin - 2) : begin])


def is_real_host(name: str) -> bool:
    """Whether `name`, which begins with `www.`, has a host behind it that may exist: no file, no number."""
    try:
        labels = (urlsplit(f"https://{name}").hostname or "").removesuffix(".").split(".")
    except ValueError:
        return False
    top = labels[-1]
    return len(labels) > 2 and len(top) > 1 and not top[0].isdigit() and not _FILE.fullmatch(top)


def _is_http_url(url: str) -> bool:
    """Whether `url` names a host over http or https, with a port that exists."""
    try:
        parts = urlsplit(url)
        _port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        return False
    labels = host.removesuffix(".").split(".")
    return ":" in host or (all(map(_WHOLE_LABEL.fullmatch, labels)) and (len(labels) > 1 or host.isascii()))


def _may_begin(text: str, start: re.Match[str]) -> bool:
    """Whether a URL may begin at `start`: `www.` inside a word, an e-mail address or another address begins none."""
    if start[0].lower() != "www.":
        return True
    before = text[max(0, start.start() - 2) : start.start()]
    if before[-1:] in tuple("._-"):
        before = before[:-1] if not before[:-1].endswith(tuple("._-")) else ""
    return not (before and before[-1].isascii() and (before[-1].isalnum() or before[-1] in "@/\\"))


def _end_of_host(text: str, at: int, *, login: bool = True) -> int:
    """The end of the host and port that begin at `at`; `at` itself where there is none."""
    here = _LOGIN.match(text, at) if login else None
    begin = here.end() if here else at
    six = _IPV6.match(text, begin)
    end = six.end() if six else _end_of_labels(text, begin)
    port = _PORT.match(text, end) if end > begin else None
    return port.end() if port else end


def _end_of_labels(text: str, begin: int) -> int:
    end, at, labels = begin, begin, 0
    while label := _LABEL.match(text, at, _next_url(text, at, begin)):
        to = _end_of_label(text, label, labels)
        if to > at:
            end = to
        if to < label.end() or text[to : to + 1] != ".":
            break
        labels += label[0].lower() != "www"
        at = to + 1
    return end


def _next_url(text: str, at: int, begin: int) -> int:
    """Where the next URL with a scheme begins: `a.comhttps://b.com` are two."""
    following = _NEXT.search(text, max(at, begin + 1), at + _MOST_LABEL + 9)
    return following.start() if following else len(text)


def _end_of_label(text: str, label: re.Match[str], before: int) -> int:
    """The end of one label, `before` is how many stand before it without `www`; its begin where it is no label."""
    last = not re.match(r"\.\w", text[label.end() :])
    if _UNSPACED.match(label[0]):
        top = TOP_LEVEL.match(label[0]) if last and before else None
        return label.end() if not (last and before) else label.start() + (top.end() if top else 0)
    switch = _SWITCH.search(label[0])
    if switch and (last or before or label[0].startswith("localhost")):
        return label.start() + switch.start()
    if not last or not before or label[0].lower().startswith("xn--"):
        return label.end()
    # A top-level domain has no hyphen and is of one script: what follows is an ending of the sentence's language.
    whole = _TOP.match(label[0])
    return label.start() + (whole.end() if whole else 0)


def _end_of_tail(text: str, begin: int, at: int) -> int:
    """The end of path, query and fragment, which begin at `at`; the URL begins at `begin`."""
    if text[at : at + 1] not in ("/", "?", "#"):
        return at
    opened: list[tuple[str, int]] = []
    tail = at
    while at < len(text):
        run = RUN.match(text, at)
        if run:
            end = _end_of_run(text, begin, tail, run)
            at = max(at, end)
            if end < run.end():
                break
            continue
        char = text[at]
        if _stops(text, at) or _begins_another(text, at) or (char in "([{" and _is_aside(text, tail, at)):
            break
        if char in "([{":
            opened.append((char, at))
        elif char in _OPENERS:
            if not opened or opened[-1][0] != _OPENERS[char]:
                break
            opened.pop()
        at += 1
    return opened[0][1] if opened else at


def _end_of_run(text: str, begin: int, tail: int, run: re.Match[str]) -> int:
    """How far a run of letters of a script without blanks belongs to the URL."""
    at, end = run.span()
    before = text[at - 1]
    if before not in "/=.#?&-_+(:~%":
        return end if before.isalpha() and not before.isascii() else at
    quoted = begin > 0 and end < len(text) and _CLOSERS.get(text[begin - 1]) == text[end]
    if quoted or _GOES_ON.match(text, end):
        return end
    own_host = not text[begin:tail].isascii()
    if before in ".?&" or (at == tail + 1 and not own_host) or _SENTENCE.match(run[0]):
        return at
    following = START.match(text, end + (text[end : end + 1] == "\u30fb"))
    return _belonging(text, at, end, following is not None)


def _stops(text: str, at: int) -> bool:
    char = text[at]
    if char in ",;!" and text[at - 1].isascii() and _is_letter(text[at + 1 : at + 2]):
        return True
    if char.isascii():
        return char <= " " or char in '<>"`|\\^\x7f' or bool(_ENTITY.match(text, at) or _KEYCAP.match(text, at))
    kind = unicodedata.category(char)
    if char in "\u200c\u200d":
        return not (_is_letter(text[at - 1]) and _is_letter(text[at + 1 : at + 2]))
    if char == "\u2013":
        following = text[at + 1 : at + 2]
        return not (text[at - 1].isalnum() and (following.isupper() or following.isdigit()))
    if kind[0] in "ZC" or kind == "Sk":
        return True
    if kind[0] == "P":
        return char not in _KEPT_MARKS
    return kind in ("So", "Sm") and (char >= "\u2100" or char in "\u00a9\u00ae") and text[at + 1 : at + 2] != "/"


def _is_letter(char: str) -> bool:
    """Whether this is a letter or a mark of one, and none of ASCII."""
    return char != "" and not char.isascii() and unicodedata.category(char)[0] in "LM"


def _is_aside(text: str, tail: int, at: int) -> bool:
    """Whether a bracket opens something beside the URL: a remark, a note, the end of a tag, the words of a link."""
    before, following = text[at - 1], text[at + 1 : at + 2]
    if text[at] == "[":
        return following == "/" or (before != "/" and not re.search(r"[?#]", text[tail:at]))
    return text[at] == "(" and before.isascii() and before not in "_/=-+,(" and bool(_UNSPACED.match(following))


def _begins_another(text: str, at: int) -> bool:
    """Whether a second URL begins here; one in a path or a query belongs to the first."""
    start = START.match(text, at)
    if start is None or text[at - 1] in "/=:":
        return False
    return start[0].lower() != "www." or not (text[at - 1].isalnum() or text[at - 1] in ".-_@%")


def _trimmed(url: str, before: str) -> str:
    """The URL without the punctuation of its sentence; `before` are the two characters in front of it."""
    marks = _TRAILING + ("_" if before[-1:] == "_" else "") + ("=" if before == "==" else "")
    if before[-1:] == "'":
        url = url.partition("'")[0]
    for _ in range(_MOST_NOTES):
        shorter = _without_ending(_FOOTNOTE.sub("", url.rstrip(marks)))
        if shorter == url:
            break
        url = shorter
    return url


def _belonging(text: str, begin: int, end: int, another: bool) -> int:
    """Where in the run `begin` to `end` of `text` the sentence goes on; `another` says that a URL follows the run."""
    inside = _INSIDE.search(text, begin + 1, end)
    if inside:
        return inside.start()
    for at in (end - 2, end - 1):
        ending = _KOREAN_OBJECT.match(text, at) if at > begin else None
        if ending and ending.end() == end:
            return at
    joined = _JOINS.search(text[begin:end]) if another else None
    return begin + joined.start() if joined else end


def _without_ending(url: str) -> str:
    """The URL without a case ending or the raised number of a note."""
    found = _RAISED.search(url) or _ENDINGS.search(url)
    if found is None or _VOWEL_I.search(url):
        return url
    return url[: found.start()]
