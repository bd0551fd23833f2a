"""What a question asks for, told from its words alone."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from nanobot.utils.text import squeeze

Kind = Literal["person", "time", "place", "number", "reason", "other"]
Wish = Literal["docs", "web", "greeting", "impossible", "about", "empty"]

#: Question words by what they ask for; languages mixed, because a word of one seldom means something else in another.
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    (
        "number",
        (
            r"\bhow (?:many|much|long|old|far|near|close|tall|high|big|large|fast|quick\w*|often|heavy|deep|wide"
            r"|strong"
            r"|hot|cold|warm|loud|soon|early|late|expensive|thick)\b"
            r"|\b(?:what|which) (?:\w+ ){0,2}(?:percent(?:age)?|price|cost|score|rate|amount|number|share|fee"
            r"|fine|value|age"
            r"|size|range|speed|temperature|distance|height|length|capacity|diameter)\b"
            r"|\bwie (?:viele?|lange|alt|hoch|groß|weit|oft|häufig|teuer|schnell|schwer|tief|breit|heiß|kalt|warm"
            r"|laut|stark)\b"
            r"|\bquelle (?:taille|hauteur|longueur|distance|température|durée|profondeur)\b|\bwieviele?\b|\bcombien\b"
            r"|\bcu[aá]nt[oa]s?\b"
            r"|\bquant[oiae]s?\b|\bсколько\b|\bberapa\b|いくら|いくつ|何(?:人|名|個|回|歳|年間|時間|分間|本|枚|度"
            r"|円|話|台|匹|頭|冊|席|軒|キロ|メートル)|どれくらい|どのくらい|多少"
            r"|多[高长長远遠大重深久快]"
            r"|幾|几[个人岁次天年名件]|몇|얼마"
        ),
    ),
    (
        "time",
        (
            r"\bwhen\b|\b(?:what|which) (?:\w+ )?(?:year|date|day|month|time|decade|century)\b|\bwann\b"
            r"|\bquand\b|\bcu[aá]ndo\b"
            r"|\bquando\b|\bкогда\b|\bkapan\b|\b(?:в каком году|quel(?:le)? (?:jour|mois|année|date|heure)"
            r"|qu[eé] (?:d[ií]a|mes|año|hora)|qual dia|que data|che (?:anno|mese|giorno|ora)|welche[mnrs]? (?:jahr"
            r"|monat|tag)"
            r"|как(?:ой|ого) (?:год|день|месяц)\w*|во сколько)\b|いつ"
            r"|何(?:年|月|日|時)"
            r"|曜日|什么时候|何时|哪[年天]|几[点月号]|星期几|언제"
        ),
    ),
    (
        "person",
        (
            r"\bwho(?:m|se|'s)?\b|\bwe[rnm]\b|\bqui\b|\bqui[eé]n(?:es)?\b|\bquem\b|\bchi\b|\bкто\b|\bкого\b"
            r"|\bsiapa\b|誰|だれ|どなた|谁|哪位|什么人"
            r"|누가|누구|\bwhat(?:'s| is| was) the name\b"
        ),
    ),
    (
        "place",
        (
            r"\bwhere\b|\b(?:what|which|in what|in which) (?:city|country|state|town|place|county|region"
            r"|village)\b|\bwo\b"
            r"|\bwohin\b|\boù\b|\bd[oó]nde\b|\bonde\b|\bdove\b|\bгде\b|\bкуда\b|\b(?:di )?mana\b|\bwoher\b"
            r"|\bd'où\b|\bad[oó]nde\b"
            r"|\bоткуда\b|どこ|どちら|哪里|哪儿|在哪|何处|什么地方|어디"
        ),
    ),
    (
        "reason",
        (
            r"\bwhy\b|\bhow come\b|\bwarum\b|\bwieso\b|\bpourquoi\b|\bpor qu[eéê]\b|\bperch[eé]\b|\bпочему\b|\bзачем\b"
            r"|\bmengapa\b|\bkenapa\b"
            r"|\bweshalb\b|\bweswegen\b|\bpour quelle raison\b|なぜ|どうして|理由|为什么|为何|为啥|왜"
        ),
    ),
)
_ASKS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _PATTERNS)

#: Words that make a question and say nothing of its subject.
_EMPTY = frozenset(
    """who whom whose when where why how what which much many long old did does do doing done is are was were be been am
    has have had can could would should will shall may might must the a an of to in on at for by with from and or that
    this these those it its there as about into
    i you we they he she my your our their tell me us please show give explain find look search
    if than then so more not up out over there one any some them him her
    nicht bei für mit von vom zu zum zur im am an auf aus den dem des eines einer einem einen wird wurde werden wurden
    man sich es er sie ich wir mein meine dort hier noch auch um nach vor als
    wer wen wem wann wo warum wieso wie was welche welcher welches der die das ist sind war hat haben ein eine
    au aux sur par pour dans avec à ce cette ces se ne pas plus on il elle y qu qu'est-ce qu'est est-ce cela ça été
    qui que quoi quel quelle quels quelles quand où pourquoi comment combien est sont le la les un une des du de
    a al con por para se su sus lo un una hay está están fue ha han su y o
    quién quien qué cuándo cuando dónde donde cuánto cuántos cuantos cómo como cuál cual es son fue el los las en por
    quem quando onde qual quais quanto quantos quantas foi são o os as um uma do da dos das no na em para
    a al alla alle con per su nel nella si ha hanno un uno una ci in quanto
    chi che cosa dove perché quale quali il lo gli è sono di del della
    из за от до для у к о об при за со же как то где были есть
    кто что когда где почему зачем сколько как какой какая какие какое и в на с по о это был была было ли
    siapa apa kapan mana mengapa kenapa bagaimana berapa yang di dan ke dari adalah""".split()
)

_FILLER = re.compile(
    r"^(?:(?:hi|hello|hey|ok(?:ay)?|so|well|thanks|hallo|bonjour|salut|hola|ol[aá]|oi|ciao|привет"
    r"|здравствуйте)\b[\s,!.]*"
    r"(?:there\b[\s,!.]*|nanobot\b[\s,!.:]*)?)?"
    r"(?:(?:please|bitte|s'il vous plaît|por favor|per favore|пожалуйста)[\s,]+)?"
    r"(?:(?:can|could|would|will) (?:you|u) (?:please )?(?:tell|find|look|search|check|explain|show|help|give)(?: me)?"
    r"(?: up| out| for)?(?: about| on)?|(?:i(?:'d| would) (?:like|love) to know|i want to know|i(?:'m"
    r"| am) (?:curious|wondering)"
    r"(?: about)?|i wonder|do you know|tell me(?: about)?|show me|find out|look up|search (?:the web )?for"
    r"|google|please"
    r"|(?:kannst|könntest) du mir (?:bitte )?sagen|weißt du|sag mir|pouvez-vous me dire|peux-tu me dire|dis-moi"
    r"|(?:me )?puedes decir(?:me)?|dime|(?:você )?pode me dizer|me diga|mi puoi dire|dimmi|скажи(?:те)?(?: мне)?"
    r"|подскажи(?:те)?))?"
    r"[\s,:]*",
    re.IGNORECASE,
)
_TAIL_FILLER = re.compile(
    r"[\s,]*(?:please|thanks|thank you|bitte|danke|s'il (?:vous|te) plaît|por favor|gracias|obrigad[oa]|grazie"
    r"|пожалуйста"
    r"|спасибо)?[\s?!.。？！¿¡]*$",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"^(?:hi|hello|hey|hiya|yo|good (?:morning|evening|afternoon|night)|thanks?(?: you| a lot| so much)?|thx|bye"
    r"|goodbye|ok(?:ay)?"
    r"|cool|great|nice|hallo|moin|guten (?:tag|morgen|abend)|danke|bonjour|salut|merci|hola|buenos d[ií]as"
    r"|gracias|ol[aá]|oi"
    r"|bom dia|obrigad[oa]|ciao|grazie|привет|здравствуйте|спасибо|halo|terima kasih|こんにちは|ありがとう|你好"
    r"|谢谢|안녕(?:하세요)?"
    r"|how are you|what's up|test)(?:[\s,]+(?:there|nanobot|you|all))?[\s,!.?。！]*$",
    re.IGNORECASE,
)
_IMPOSSIBLE = re.compile(
    r"^(?:please |can you |could you |would you |bitte |nanobot,? )*(?:"
    r"(?:write|compose|draft|translate|rewrite|rephrase|paraphrase|proofread|refactor|debug|remind|calculate"
    r"|pretend|imagine"
    r"|schreib|schreibe|übersetze?|écris|traduis|escribe|traduce|escreva|traduza|scrivi|traduci|напиши|переведи)(?= )"
    r"|(?:code|implement|program|draw|sing|schedule|compute|send|delete|run|execute|make|create|generate)"
    r" (?:me|us|a|an|the|this|my|some|it)\b|tell me a (?:joke|story|poem)\b|(?:let's|let us) (?:chat|talk|play)\b)",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"^(?:who|what) (?:exactly )?are you\b|^what can you do\b|^what do you do\b|^are you (?:an? )?(?:ai|bot"
    r"|human|llm|language model|"
    r"chatgpt|model)\b|^wer bist du\b|^was kannst du\b|^qui es-tu\b|^qui[eé]n eres\b|^quem [eé] você\b"
    r"|^chi sei\b|^кто ты\b"
    r"|^что ты умеешь\b|^あなたは誰|^你是谁|^help[\s?!.]*$",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\bnanobot\b|\blookup (?:provider|mode)\b|\b(?:soul|agents|user|memory|heartbeat)\.md\b|\bnanobot_\w+"
    r"|\bconfig\.json\b"
    r"|\btools\.web\b|\bagents\.defaults\b|\bchannels\.telegram\b|^/\w+$",
    re.IGNORECASE,
)
_SET_UP = re.compile(
    r"\b(?:connect|add|configure|set ?up|set|install|change|switch|use|enable|disable|start|stop|restart|update"
    r"|upgrade|uninstall"
    r"|choose|select|turn (?:on|off)|reset|resume|cancel|allow|restrict|pair|run|verbind\w*|einricht\w*"
    r"|hinzufüg\w*|ändere?"
    r"|connecter|ajouter|configurer|conectar|añadir|agregar|adicionar|configurar|collegare|aggiungere|configurare"
    r"|подключить|добавить|настроить|сменить|menghubungkan)\b|接続|追加|設定|连接|添加|设置|연결|추가|설정",
    re.IGNORECASE,
)
_OWN_THINGS = re.compile(
    r"\b(?:telegram(?!['’]s)|a? ?(?:language )?model|modell?o?|modèle|api keys?|llm|provider|ollama|workspace"
    r"|the (?:config|session|bot|agent|"
    r"search engine|search provider|web search|gateway|terminal|timezone)|sessions?|slash commands?|searxng"
    r"|brave search|tavily|kagi"
    r"|jina|openrouter|anthropic key|openai key|mcp servers?|allow ?list|fallback models?|модель|ключ"
    r"|телеграм\w*)\b|テレグラム|モデル|模型|모델",
    re.IGNORECASE,
)
_SELF = re.compile(
    r"^(?:how (?:do|can|should|would) (?:i|we|you)|where (?:do|can|is|are) (?:i|my|the|your)|can i|do i"
    r"|is it possible to|how to"
    r"|what (?:is|are) (?:my|your|the)|which|wie (?:kann|verbinde|füge|richte)|comment|c[oó]mo|come|как)\b|方法"
    r"|どう|如何|怎么|어떻게",
    re.IGNORECASE,
)
_URL = re.compile(r"https?://[^\s<>\"'，。、）」】]+", re.IGNORECASE)
_GOES_ON = re.compile(r"(?:and|but|und|et|y|e|и|а)\s", re.IGNORECASE)
_IDLE_IT = re.compile(r"\bis it (?:true|possible|safe|legal|ok|okay|worth|better|bad|good)\b", re.IGNORECASE)
_FOLLOWS = re.compile(
    r"\b(?:he|she|it|they|him|her|them|his|hers|its|their|theirs|er"
    r"|ihn|elle|ils"
    r"|él|ella|ele|ela|lui|lei|он|она|они|его|её)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question taken apart. `topic` are the words to rank by, `query` is for a search engine, `urls` were pasted."""

    text: str
    query: str
    topic: str
    kind: Kind
    wish: Wish
    urls: tuple[str, ...] = ()
    language: str = "en"


def understand(text: str, before: str = "") -> Question:
    """Take a question apart. `before` is the question asked before it, for one that follows on."""
    urls = tuple(dict.fromkeys(url.rstrip(".,;:!?)]}'\"") for url in _URL.findall(text)))
    bare = squeeze(_URL.sub(" ", text))
    stripped = _stripped(bare)
    topic = _topic(stripped)
    if before and not urls and _wish(bare, urls) == "web" and _follows(bare, topic):
        earlier = _topic(_stripped(squeeze(_URL.sub(" ", before))))
        topic = squeeze(f"{earlier} {topic}")
        stripped = squeeze(f"{earlier} {stripped}")
    kind: Kind = next((kind for kind, pattern in _ASKS if pattern.search(bare)), "other")
    return Question(text, stripped[:300], topic, kind, _wish(bare, urls), urls, language(bare))


def _stripped(text: str) -> str:
    """A question without greetings and courtesies, fit for a search engine."""
    cut = _TAIL_FILLER.sub("", _FILLER.sub("", text, count=1))
    return cut.lstrip("¿¡ ") if len(cut) >= 2 else text


def _topic(text: str) -> str:
    if re.search("[\u3040-\u30ff]", text):
        text = _frames()["ja"].sub(" ", text)
    elif re.search("[\u4e00-\u9fff]", text):
        text = _frames()["zh"].sub(" ", text)
    return " ".join(word for word in text.split() if word.casefold().strip("?!.,:;\"'“”«»¿¡()") not in _EMPTY)


@cache
def _frames() -> dict[str, re.Pattern[str]]:
    """Question words and particles of the scripts that write no blanks."""
    return {
        "ja": re.compile(
            "何(?=[はがをでにのも]|です)|誰|だれ|どこ|いつ|なぜ|どうして|どれくらい|どのくらい|いくら|どんな"
            "|(?:でし|まし)た(?:か|[？?])|(?:です|ます)か?|ください|について|(?<=[^\u3040-\u309f])[はがをにのでとへも]"
            "|(?<=[\u3040-\u309f]{2})[はがをのに](?=[^\u3040-\u309f])"
        ),
        "zh": re.compile(
            "为什么|为何|什么时候|什么|谁|哪[里儿年个些天位]|多少|怎么样?|如何|几(?=[个点月岁次])|[的了是吗呢在有被把要]"
        ),
    }


def _follows(text: str, topic: str) -> bool:
    words = text.split()
    names = [word for word in words[1:] if word[:1].isupper() or word[:1].isdigit()]
    if len(words) > 9 or _IDLE_IT.search(text):
        return False
    return bool(_GOES_ON.match(text)) or (not names and (bool(_FOLLOWS.search(text)) or not topic))


def _wish(text: str, urls: tuple[str, ...]) -> Wish:
    if urls:
        return "web"
    if not re.search(r"\w", text):
        return "empty"
    if _GREETING.match(text):
        return "greeting"
    if _ABOUT.match(text):
        return "about"
    if _OWN.search(text) or (_SELF.search(text) and _SET_UP.search(text) and _OWN_THINGS.search(text)):
        return "docs"
    return "impossible" if _IMPOSSIBLE.match(text) else "web"


_LANGUAGES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (code, re.compile(pattern, re.IGNORECASE))
    for code, pattern in (
        ("ja", "[\u3040-\u30ff]"),
        ("ko", "[\uac00-\ud7af]"),
        ("zh", "[\u4e00-\u9fff]"),
        ("ru", "[\u0400-\u04ff]"),
        ("de", r"\b(?:wer|wann|wo|warum|wie|welche[rs]?|der|die|das|ist|und|nicht|ein|eine|wurde)\b"),
        ("fr", r"\b(?:qui|quand|où|pourquoi|comment|combien|quel(?:le)?s?|est|les|des|une|du)\b"),
        ("pt", r"\b(?:quem|onde|quantos|quantas|qual|quais|são|não|você|uma|do|da|dos|no|na|foi|em)\b"),
        ("es", r"\b(?:qui[eé]n|cu[aá]ndo|d[oó]nde|por qué|cu[aá]ntos|cu[aá]l|qué|los|las|el|del|una|fue)\b"),
        ("it", r"\b(?:chi|quando|dove|perché|quanti|quale|che|il|gli|della|sono|è|di)\b"),
        ("id", r"\b(?:siapa|kapan|mana|mengapa|kenapa|bagaimana|berapa|yang|apa|dan)\b"),
    )
)
_ENGLISH = re.compile(r"\b(?:the|who|when|where|why|how|what|which|is|are|was|did|does|of|and|to)\b", re.IGNORECASE)


def language(text: str) -> str:
    """The language of a question as an ISO 639 code; English where nothing tells."""
    for code, pattern in _LANGUAGES[:4]:
        if pattern.search(text):
            return code
    counts = [(len(pattern.findall(text)), code) for code, pattern in _LANGUAGES[4:]]
    most, code = max(counts, key=lambda item: item[0])
    return code if most > len(_ENGLISH.findall(text)) else "en"
