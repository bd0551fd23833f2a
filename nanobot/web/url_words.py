"""Words that stand glued to a URL without being a part of it, in languages that write so.

Chinese, Japanese, Korean and Thai put the next word or a particle right behind a URL; Finnish, Swedish, Turkish and
Hungarian hang case endings on it with a colon, an apostrophe or a hyphen. What may also begin a title is left out
or only counts where the script changes behind it (`はじめに` is a title, `は便利` is not).
"""

import re

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
_GOES_ON = re.compile(f"{_CHINESE}|{_JAPANESE}|{_KOREAN}|{_THAI}")

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


def goes_on(run: str) -> bool:
    """Whether `run`, letters of such a script behind a sign of a URL, is the next word of the sentence."""
    return _GOES_ON.match(run) is not None


def belonging(text: str, begin: int, end: int, another: bool) -> int:
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


def without_ending(url: str) -> str:
    """The URL without a case ending or the raised number of a note."""
    found = _RAISED.search(url) or _ENDINGS.search(url)
    if found is None or _VOWEL_I.search(url):
        return url
    return url[: found.start()]
