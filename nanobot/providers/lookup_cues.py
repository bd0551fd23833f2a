"""What an answer looks like: names for who, figures with a unit for how far, causes for why."""

import re
from functools import cache

from nanobot.providers.lookup_words import Kind
from nanobot.utils.ranking import terms

_MONTH = (
    r"jan(?:uary|\.)?|feb(?:ruary|\.)?|mar(?:ch|\.)|apr(?:il|\.)?|may|june?|july?|aug(?:ust|\.)?|sept?(?:ember|\.)?"
    r"|oct(?:ober|\.)?|nov(?:ember|\.)?|dec(?:ember|\.)?|januar|februar|märz|mai|juni|juli|oktober|dezember"
    r"|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre|enero|febrero|marzo|abril"
    r"|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|janeiro|fevereiro|março|maio|junho|julho"
    r"|setembro|outubro|novembro|dezembro|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre"
    r"|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря"
)
_DAY = (
    r"mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?|(?:mon|diens|donners|frei|sams|sonn)tags?"
    r"|mittwochs?|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábados?"
    r"|domingos?|lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|понедельник\w*|вторник\w*|сред[аеуы]"
    r"|четверг\w*|пятниц\w+|суббот\w+|воскресень\w+|[月火水木金土日]曜"
)
_NUMBER_WORDS = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-\w+)?|dozens?|hundreds?|thousands?|millions?|billions?|half"
    r"|third"
    r"|quarter|once|twice|single|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|hundert|tausend|deux|trois"
    r"|quatre|cinq|sept|huit|neuf|dix|douze|cent|mille|dos|tres|cuatro|cinco|siete|ocho|nueve|diez|doce|cien|mil|dois"
    r"|três|due|tre|quattro|cinque|sei|sette|otto|nove|dieci|dodici|cento|два|две|три|четыре|пять|шесть|семь|восемь"
    r"|девять|десять|сто|сорок"
)
_SIGNS: dict[Kind, str] = {
    "time": (
        rf"\b(?:{_MONTH}|{_DAY})\b|\b(?:1\d|20)\d\d\b|\b\d{{1,2}}[:.]\d\d\b|\b\d{{1,2}} ?[ap]\.?m\b"
        r"|\b(?:yesterday|today|tomorrow|last|next|ago|spring|summer|autumn|winter|noon|midnight)\b|\d ?[年月日時]"
        r"|[月火水木金土日]曜|\d ?[년월일시]"
    ),
    "number": rf"\d|\b(?:{_NUMBER_WORDS})\b|[一二三四五六七八九十百千万億]",
    "reason": (
        r"\b(?:because|due to|since|so that|as a result|in order to|owing|thanks to|after|caused?|reasons?|why"
        r"|for fear"
        r"|therefore|weil|da|denn|wegen|aufgrund|damit|parce|car|afin|à cause|en raison|puisque|porque|pois|já que"
        r"|debido"
        r"|para que|ya que|perché|perche|poiché|a causa|karena|sebab)\b|потому|из-за|поскольку|так как|чтобы"
        r"|ため|ので|から|理由|因为|由于|因|때문|이유"
    ),
    "person": (
        r"[A-ZÀ-ÞА-Я][\w'’.-]+(?: (?:de|van|von|da|dos|bin|al|el|y|\w\.))* [A-ZÀ-ÞА-Я][\w'’-]+"
        r"|[\u3040-\u9fff\uac00-\ud7af]"
    ),
    "place": (
        r"\b(?:in|at|near|from|to|of|outside|on|em|no|na|en|à|au|im|am|bei|nach|di|a|al|в|на|из|из|au)\s+"
        r"(?:the\s+|la\s+|le\s+|el\s+|der\s+|dem\s+)?[A-ZÀ-ÞА-Я]|[\u3040-\u9fff\uac00-\ud7af]"
    ),
}
#: What is measured: how it is asked, and how the figure of an answer ends.
_MEASURES: tuple[tuple[str, str], ...] = (
    (
        (
            r"\b(?:how (?:hot|cold|warm)|what temperature|wie (?:heiß|kalt|warm)|quelle température|qué temperatura"
            r"|che temperatura|какая температура)\b|何度|温度"
        ),
        r"\d ?°|\bdegrees\b|\bGrad\b|\bdegrés\b|\bgrados\b|\bgradi\b|градус|度",
    ),
    (
        (
            r"\b(?:how (?:heavy|much does .* weigh)|weigh|weight|wie schwer|wiegt|poids|pèse|pesa|peso|вес|весит)\b"
            r"|重さ|多重"
        ),
        (
            r"\d ?(?:kg|g|t|lb|mg)\b|\b(?:tonnes?|tons?|kilo\w*|grams?|pounds?|Tonnen|Kilo\w*|Gramm|tonelad\w+|kg"
            r"|тонн\w*)\b"
        ),
    ),
    (
        (
            r"\b(?:cost|price|fee|fare|fine|spent|dear|expensive|cheap|salary|kostet|\w*kosten|\w*preis|\w*gebühr"
            r"|teuer|coûte|prix"
            r"|tarif|cuesta|precio|vale|costa|prezzo|custa|preço|стоит|стоимость|цена)\b"
            r"|how much (?:is|are|was|were|money|did|does)\b|いくら|多少钱|얼마"
        ),
        (
            r"[$€£¥]|\b(?:euros?|dollars?|pounds?|cents?|crowns?|francs?|crores?|lakhs?|kronor|kroner|yen|yuan"
            r"|rubles?|Cent"
            r"|Franken|pesos?|reais|lire|centimes?|free|nothing|million|billion|kostenlos|gratuite?|gratis)\b|руб"
            r"|[円元원]|免费|無料"
        ),
    ),
    (
        (
            r"\b(?:how (?:high|tall|deep|far|near|close|wide|big|broad)|height|depth|distance|wie (?:hoch"
            r"|tief|weit|breit)"
            r"|hauteur|profondeur|distance|altura|profundidad|distancia|altezza|alto|profond[oa]|высот[аы]|глубина"
            r"|какой высоты)\b|高さ|多高|多远"
        ),
        (
            r"\d ?(?:km|m|cm|mm|ft|mi|AU|miles?)\b|\b(?:kilomet\w+|met(?:re|er)s?|Metern?|mètres?|metros?|metri"
            r"|miles?|feet"
            r"|foot|inch(?:es)?|acres?|hectares?|astronomical|light-years?)\b|метр|километр|миль|[米里]|メートル|キロ"
        ),
    ),
    (
        (
            r"\b(?:how (?:long|quick\w*|soon|old)|how many (?:seconds?|minutes?|hours?|days?|weeks?|months?|years?)"
            r"|duration"
            r"|wie (?:lange|alt)|combien de temps|quel âge|durée|cuánto (?:tiempo|dura)|cuántos (?:años|días)"
            r"|quanto (?:tempo|dura)|quanti (?:anni|giorni)|сколько (?:времени|лет|дней)|как долго)\b|何(?:年間|時間"
            r"|分|日間|歳)|多久|多长时间"
        ),
        (
            r"\b(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|decades?|centur\w+|Sekunden?|Minuten?"
            r"|Stunden?|Tagen?"
            r"|Wochen?|Monaten?|Jahren?|Jahre|secondes?|heures?|jours?|semaines?|mois|ans?|années?|minutos?|horas?"
            r"|días?|semanas?"
            r"|meses|años?|minuti|ore|giorni|settiman\w|mesi|ann[io])\b|минут|час|д[нь]\w*|недел|месяц|лет|год"
            r"|[年月日天]|時間|分"
        ),
    ),
    (
        (
            r"\b(?:(?:what|which|how large an?) (?:area|surface)|area (?:of|does|is)|welche fläche|wie groß|superficie"
            r"|площадь)\b|面積|面积"
        ),
        (
            r"\b(?:hectares?|acres?|square|km²|m²|Hektar|Quadrat\w+|hectáreas|ettari|carrés?|cuadrados|quadrati)\b"
            r"|[mk]²|гектар|公顷|平方|ヘクタール"
        ),
    ),
    (
        (
            r"\b(?:power (?:consumption|draw|use)|how much (?:power|electricity)|wattage|stromverbrauch"
            r"|consommation)\b|消費電力|功率"
        ),
        r"\d ?k?W\b|\b(?:\w*watts?|volts?|amps?|amperes?|kWh)\b|ватт|ワット|瓦",
    ),
    (
        r"\b(?:how long (?:is|are|was|were)|(?:what|which) length|wie lang|quelle longueur|qué longitud)\b|長さ|多长",
        (
            r"\b(?:km|cm|mm|ft|k?ilomet\w+|met(?:re|er)s?|Metern?|mètres?|metros?|miles?|feet|foot|inch(?:es)?|yards?"
            r"|seconds?"
            r"|minutes?|hours?|days?|weeks?|months?|years?|pages?|Minuten|Stunden|Tage|Wochen|minutos|horas|heures)\b"
            r"|\d ?m\b|\d[\d.]*-inch|メートル|キロ|[米里]|分|時間"
        ),
    ),
    (
        r"\b(?:how (?:loud|noisy)|wie laut|noise)\b",
        r"\b(?:decibels?|dB|Dezibel|décibels?|decibelios|decibel)\b",
    ),
    (
        r"\b(?:how strong|(?:what|which) (?:share|percentage|proportion)|alcohol|wie stark)\b|何パーセント|百分之几",
        r"\d ?%|\bper ?cent\b|\bProzent\b|\bpour cent\b|\bpor ciento\b|\bper cento\b|процент|%|パーセント|割",
    ),
    (
        (
            r"\b(?:how often|how frequently|wie oft|wie häufig|à quelle fréquence|con qué frecuencia|cada cuánto"
            r"|ogni quanto"
            r"|как часто)\b|何回|多久一次"
        ),
        (
            r"\b(?:every|each|daily|weekly|monthly|yearly|annual\w*|once|twice|times|per|alle|jede\w*|täglich"
            r"|wöchentlich|mal"
            r"|chaque|tous|toutes|fois|cada|veces|ogni|volte)\b|кажд|раз|毎|每"
        ),
    ),
    (
        r"\b(?:how fast|speed|wie schnell|vitesse|velocidad|velocità|скорость)\b|速さ|速度",
        r"\b(?:km/h|mph|knots?|m/s|kmh|per hour|Stundenkilometer|noeuds|nudos|nodi)\b|км/ч",
    ),
    (
        r"\b(?:what|which|at what) time\b|\b(?:um wie viel|à quelle heure|a qué hora|a che ora)\b|何時|几点",
        r"\b\d{1,2}(?:[:.]\d\d| ?[ap]\.?m\b|\s?h\b|\s?Uhr)|\bo'clock\b|\bnoon\b|時|点",
    ),
    (
        r"\b(?:what|which) month\b|\bwelche[mnr]? monat\b|\bquel mois\b|\bqué mes\b|\bche mese\b|何月|几月",
        rf"\b(?:{_MONTH})\b|\d月",
    ),
)
_PRESENT, _ABSENT = 1.25, 0.7
_EXACT, _INEXACT = 1.6, 0.85


#: What is asked for without a question word of its own: how it is asked, and what stands in an answer.
_OTHERS: tuple[tuple[str, str], ...] = (
    (
        (
            r"^(?:can|may|must|do|should|am|is it|are (?:there|dogs|children|pets|visitors)) (?:i|we|you|one"
            r"|people|it)?\b"
            r"|\b(?:have to|need to|required|allowed|permitted|forbidden|banned|rules?|should i|must i|can i|can't"
            r"|cannot"
            r"|darf|dürfen|muss|müssen|soll|erlaubt|verboten|doit|dois|faut|peut-on|puis-je|interdit|permis|debo"
            r"|debe|puedo"
            r"|puede|prohibid[oa]|permitid[oa]|devo|deve|posso|vietat[oa]|можно|нельзя|нужно|надо)\b"
            r"|てもいい|なければ|必要|可以|必须|需要|允许"
        ),
        (
            r"\b(?:must|have to|has to|need|needs|required?|may|may not|only|not|no|never|allowed|permitted"
            r"|forbidden|banned"
            r"|prohibited|asked to|can|cannot|free|bring|wear|darf|dürfen|muss|müssen|nur|nicht|kein\w*|erlaubt"
            r"|gestattet"
            r"|verboten|zugelassen|gesperrt|doit|doivent|faut|seulement|interdit\w*|permis\w*|obligatoire|debe\w*"
            r"|solo|sólo"
            r"|prohibid\w+|permit\w+|hay que|deve|devono|soltanto|vietat\w+|нельзя|можно|нужно|только|запрещ\w+)\b"
            r"|ください|禁止|必要|必须|须|不得|不准|仅|只"
        ),
    ),
    (
        r"\b(?:colou?r|farbe|couleur|colore?|цвет\w*)\b|何色|颜色",
        (
            r"(?:red|blue|green|yellow|black|white|brown|grey|gray|orange|pink|purple|violet|gold|silver)\w*\b"
            r"|\w*(?:rot|blau"
            r"|grün|gelb|schwarz|weiß|braun|grau)\w*|\b(?:rouge|bleu|vert|jaune|noir|blanc|roj[oa]|azul|verde"
            r"|amarill[oa]"
            r"|negr[oa]|blanc[oa]|ross[oa]|blu|giall[oa]|ner[oa]|bianc[oa])\w*|красн|син|зелён|жёлт|чёрн|бел"
            r"|[赤青緑黄黒白红绿蓝黑]"
        ),
    ),
    (
        (
            r"\b(?:today|now|nowadays|these days|currently|at present|what became|heute|jetzt|aujourd'hui"
            r"|maintenant|hoy|ahora"
            r"|actualmente|oggi|adesso|сегодня|сейчас|теперь|qu'est devenue?)\b|今|現在|现在|如今"
        ),
        (
            r"\b(?:today|now|nowadays|currently|at present|since|heute|jetzt|seither|seitdem|aujourd'hui|désormais"
            r"|maintenant"
            r"|hoy|ahora|actual\w*|oggi|adesso|attual\w*|сегодня|сейчас|теперь|ныне)\b|今|現在|现在|如今"
        ),
    ),
)


class Cue:
    """How well sentences look like an answer to one question."""

    def __init__(self, kind: Kind, text: str, asked: set[str]) -> None:
        self._kind, self._asked = kind, asked
        self._sign = _sign(kind)
        open_kind = kind in ("number", "time", "other")
        self._unit = next((unit for asks, unit in _measures() if open_kind and asks.search(text)), None)
        self._marks = [mark for asks, mark in _others() if asks.search(text)]
        self._counted = _counted(text) if kind == "number" and self._unit is None else frozenset[str]()

    def fit(self, text: str) -> float:
        """Above 1 for a sentence that looks like an answer, below 1 for one that does not; 1 where nothing tells."""
        marked = sum(bool(mark.search(text)) for mark in self._marks)
        return self._fit(text) * _PRESENT**marked

    def _fit(self, text: str) -> float:
        if self._unit is not None:
            if any(not self._known(match[0]) for match in self._unit.finditer(text)):
                return _EXACT
            return _INEXACT if self._shown(text) else _ABSENT
        if self._counted and self._shown(text):
            return _EXACT if self._counts(text) else _PRESENT
        if self._sign is None or self._shown(text):
            return 1.0 if self._sign is None else _PRESENT
        return 1.0 if self._kind == "reason" else _ABSENT

    def _shown(self, text: str) -> bool:
        if self._sign is None:
            return True
        return any(self._kind == "reason" or not self._known(match[0]) for match in self._sign.finditer(text))

    def _known(self, words: str) -> bool:
        """True for words of the question itself; they answer nothing."""
        found = set(terms(words))
        return bool(found) and found <= self._asked

    def _counts(self, text: str) -> bool:
        """True when a figure stands right before the thing that is counted."""
        words = text.split()
        figure = _sign("number")
        for at, word in enumerate(words):
            if figure is not None and figure.search(word) and self._counted & set(terms(" ".join(words[at : at + 4]))):
                return True
        return False


def _counted(text: str) -> frozenset[str]:
    """The thing that is counted: the words right after how many."""
    match = _many().search(text)
    return frozenset(terms(match[1])) if match else frozenset()


@cache
def _many() -> re.Pattern[str]:
    return re.compile(
        r"\b(?:how many|wie ?viele?|combien d[e'’]|cu[aá]nt[oa]s|quant[ie]|quant[oa]s|сколько)\s+(\w+(?: \w+)?)",
        re.IGNORECASE,
    )


@cache
def _sign(kind: Kind) -> re.Pattern[str] | None:
    pattern = _SIGNS.get(kind)
    if pattern is None:
        return None
    return re.compile(pattern, re.IGNORECASE if kind not in ("person", "place") else 0)


@cache
def _measures() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((re.compile(asks, re.IGNORECASE), re.compile(unit, re.IGNORECASE)) for asks, unit in _MEASURES)


@cache
def _others() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((re.compile(asks, re.IGNORECASE), re.compile(mark, re.IGNORECASE)) for asks, mark in _OTHERS)
