"""The words of numbers: units and what they are worth of one another, scales, number words, and signs of doubt."""

import re
import unicodedata
from dataclasses import dataclass

#: What is measured and how much one is worth in the first unit of its kind, then how it is written.
_TABLE: tuple[tuple[str, float, str], ...] = (
    ("ratio", 1, "% percent per_cent prozent pour_cent por_ciento por_cento procent процентов процента 퍼센트"),
    ("ratio", 1, "percentage_point percentage_points prozentpunkte prozentpunkten"),
    ("ratio", 0.01, "basis_point basis_points bp bps basispunkte basispunkten 基点"),
    ("celsius", 1, "°c ℃ degrees_celsius degree_celsius grad_celsius 摄氏度"),
    ("fahrenheit", 1, "°f degrees_fahrenheit 华氏度"),
    ("length", 1, "m metre metres meter meters metern mètre mètres metro metros metri м метр метра метров 米 公尺"),
    ("length", 1, "メートル 미터"),
    (
        "length",
        1e3,
        "km kilometre kilometres kilometer kilometers kilometern kilomètres kilómetros quilômetros chilometri",
    ),
    ("length", 1e3, "км километр километра километров 公里 千米 キロ キロメートル 킬로미터"),
    (
        "length",
        0.01,
        "cm centimetre centimetres centimeter centimeters zentimeter centimètres centímetros см 厘米 公分 センチ",
    ),
    ("length", 1e-3, "mm millimetre millimetres millimeter millimeters millimètres milímetros millimetri мм 毫米 ミリ"),
    ("length", 1609.344, "mi mile miles meile meilen 英里 マイル"),
    ("length", 0.3048, "ft foot feet fuß 英尺 フィート"),
    ("length", 0.0254, "inch inches zoll 英寸 インチ"),
    ("length", 1852, "nautical_mile nautical_miles seemeilen 海里"),
    ("area", 1, "m² m2 sq_m square_metres square_meters quadratmeter 平方米 平米"),
    ("area", 1e4, "ha hectare hectares hektar hectáreas ettari га 公顷 ヘクタール"),
    (
        "area",
        1e6,
        "km² km2 sq_km square_kilometres square_kilometers quadratkilometer кв._км 平方公里 平方千米 平方キロメートル",
    ),
    ("area", 4046.86, "acre acres 英亩 エーカー"),
    ("area", 2.59e6, "square_miles square_mile sq_mi 平方英里"),
    (
        "mass",
        1,
        "kg kilo kilos kilogram kilograms kilogramme kilogramm kilogrammes kilogramos quilos кг 公斤 千克 キログラム",
    ),
    ("mass", 1e-3, "g gram grams gramm gramme grammes gramos г 克 グラム"),
    ("mass", 1e-6, "mg milligram milligrams milligramm мг 毫克 ミリグラム"),
    ("mass", 1e3, "t tonne tonnes tonnen toneladas tonnellate metric_tons тонн тонны 吨 トン 톤"),
    ("mass", 0.453592, "lb lbs pound_weight 磅"),
    ("mass", 0.0283495, "oz ounce ounces 盎司"),
    ("volume", 1, "l litre litres liter liters litros litri л литров 升 リットル"),
    ("volume", 1e-3, "ml millilitre millilitres milliliter milliliters мл 毫升 ミリリットル"),
    ("volume", 0.01, "cl centilitres"),
    ("volume", 100, "hl hectolitre hectolitres hektoliter"),
    ("volume", 1e3, "m³ m3 cubic_metres cubic_meters kubikmeter 立方米 立方メートル"),
    ("time", 1, "s second seconds sec secs sekunde sekunden secondes segundos secondi секунд секунды 秒 초"),
    ("time", 60, "min mins minute minutes minuten minutos minuti минут минуты 分钟 分鐘 分 분"),
    ("time", 3600, "h hr hrs hour hours stunde stunden heure heures hora horas ora ore uur час часа часов"),
    ("time", 3600, "小时 小時 時間 時 点 點 点钟 시간 시 uhr"),
    (
        "time",
        86400,
        "day days tag tage tagen jour jours día días giorni giorno dia dias dagen день дня дней 天 日間 일",
    ),
    (
        "time",
        604800,
        "week weeks woche wochen semaine semaines semana semanas settimane неделя недели недель 周 週間 星期 주",
    ),
    ("span", 1, "month months monat monate monaten mois mes meses mesi месяц месяца месяцев 个月 か月 ヶ月 개월"),
    ("span", 12, "year years yr yrs jahr jahre jahren ans année années año años anni anno anos год года лет 周年 年"),
    ("data", 1, "mb megabyte megabytes"),
    ("data", 1e-3, "kb kilobyte kilobytes"),
    ("data", 1024, "gb gigabyte gigabytes"),
    ("data", 1024 * 1024, "tb terabyte terabytes"),
    ("power", 1, "kw kilowatt kilowatts 千瓦"),
    ("power", 1e3, "mw megawatt megawatts 兆瓦"),
    ("power", 1e6, "gw gigawatt gigawatts 吉瓦"),
    ("power", 1e-3, "watt watts"),
    ("energy", 1, "kwh kilowatt-hours kilowattstunden 千瓦时"),
    ("energy", 1e3, "mwh megawatt-hours megawattstunden 兆瓦时"),
    ("energy", 1e6, "gwh gigawatt-hours gigawattstunden"),
    ("energy", 1e9, "twh terawatt-hours terawattstunden"),
    ("food energy", 1, "kcal kilocalories kilokalorien 千卡 キロカロリー ккал"),
    ("frequency", 1, "hz hertz 赫兹"),
    ("frequency", 1e3, "khz kilohertz"),
    ("frequency", 1e6, "mhz megahertz"),
    ("frequency", 1e9, "ghz gigahertz"),
    ("USD", 1, "$ usd us$ dollar dollars dólares доллар доллара долларов 美元 ドル 달러"),
    ("EUR", 1, "€ eur euro euros евро 欧元 ユーロ 유로"),
    ("EUR", 0.01, "cents cent"),
    ("GBP", 1, "£ gbp sterling 英镑 ポンド"),
    ("CNY", 1, "¥ yuan rmb cny 元 块 人民币"),
    ("JPY", 1, "jpy yen 円 日元"),
    ("KRW", 1, "krw ₩ 원 韩元"),
    ("CHF", 1, "chf franken"),
    ("SEK", 1, "sek kronor"),
    ("NOK", 1, "nok"),
    ("DKK", 1, "dkk"),
    ("RUB", 1, "rub руб рубль рубля рублей ₽ 卢布"),
    ("INR", 1, "inr ₹ rupees rupien 卢比"),
    ("BRL", 1, "brl r$ reais"),
    ("PLN", 1, "pln zł"),
)


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit measures, and how much one of it is in the basic unit of its kind."""

    kind: str
    worth: float


UNITS = {
    unicodedata.normalize("NFKC", word.replace("_", " ")): Unit(kind, worth)
    for kind, worth, words in _TABLE
    for word in words.split()
}
#: Written before the number; `SEK 986 million` as well as `$5`.
MONEY = r"US\$|R\$|[$€£¥₩₹₽]|\b(?:EUR|USD|GBP|CHF|SEK|NOK|DKK|JPY|CNY|RMB|KRW|RUB|INR|BRL|PLN)(?![A-Za-z])"
UNIT = "|".join(
    re.escape(word)
    + (r"(?![A-Za-zÀ-ɏ²³])" if word[-1].isascii() and word[-1].isalnum() else "")
    + (r"(?![а-я])" if "\u0400" <= word[-1] <= "\u04ff" else "")
    + (r"(?![ァ-ヴー])" if "\u30a0" <= word[-1] <= "\u30ff" else "")
    for word in sorted(UNITS, key=len, reverse=True)
)
_SCALES: dict[float, str] = {
    12: "dozen dutzend douzaine docena dúzia dozzina дюжина 打",
    1e3: "thousand k tsd tausend mille mil mila duizend тыс тысяча тысячи тысяч 千 천",
    1e4: "万 萬 만",
    1e6: "million millions mio mn millionen millones millón milhões milhão milioni milione miljoen млн миллион",
    1e8: "亿 億 억",
    1e9: "billion billions bn md mds mrd milliarde milliarden milliard milliards miliardi miljard млрд миллиард",
    1e12: "trillion trillions tn billionen 兆 万亿 조 трлн",
}
_MORE_SCALES = {
    "миллиона": 1e6,
    "миллионов": 1e6,
    "миллиарда": 1e9,
    "миллиардов": 1e9,
    "百万": 1e6,
    "十億": 1e9,
    "千万": 1e7,
}
SCALES = {word: scale for scale, words in _SCALES.items() for word in words.split()} | _MORE_SCALES
SCALE = "|".join(sorted(SCALES, key=len, reverse=True))
#: A letter that stands for a scale beside a sign of money.
LETTERS = {"k": 1e3, "m": 1e6, "b": 1e9}
_SPELT = {
    1: "one eine einer einem un une uno una um uma один одна",
    2: "two zwei deux dos due duas dois два две двух twee",
    3: "three drei trois tres tre três три трёх трех drie",
    4: "four vier quatre cuatro quattro quatro четыре четырёх",
    5: "five fünf cinq cinco cinque пять пяти vijf",
    6: "six sechs seis sei шесть шести zes",
    7: "seven sieben sept siete sette sete семь семи zeven",
    8: "eight acht huit ocho otto oito восемь восьми",
    9: "nine neun neuf nueve nove девять девяти negen",
    10: "ten zehn dix diez dieci dez десять десяти tien",
    11: "eleven elf onze once undici",
    12: "twelve zwölf douze doce dodici doze двенадцать",
    13: "thirteen dreizehn treize tredici trece treze",
    14: "fourteen vierzehn quatorze catorce quattordici",
    15: "fifteen fünfzehn quinze quince quindici пятнадцать",
    16: "sixteen sechzehn seize sedici",
    17: "seventeen siebzehn dix-sept",
    18: "eighteen achtzehn dix-huit",
    19: "nineteen neunzehn dix-neuf",
    20: "twenty zwanzig vingt veinte venti vinte двадцать",
    30: "thirty dreißig trente treinta trenta тридцать",
    40: "forty vierzig quarante cuarenta quaranta сорок",
    50: "fifty fünfzig cinquante cincuenta cinquanta пятьдесят",
    60: "sixty sechzig soixante sesenta шестьдесят",
    70: "seventy siebzig setenta settanta",
    80: "eighty achtzig ochenta ottanta",
    90: "ninety neunzig noventa novanta",
    100: "hundred hundert cent cien cento сто",
    1.5: "anderthalb eineinhalb полтора полутора полторы",
    2.5: "zweieinhalb",
    3.5: "dreieinhalb",
}
_ORDERED = {
    1: "first erste ersten erster premier première primer primero primera первый первая",
    3: "third dritte dritten troisième tercer tercera terzo третий третья",
    4: "fourth vierte vierten quatrième cuarto cuarta quarto четвёртый четвертый",
    5: "fifth fünfte fünften cinquième quinto quinta пятый пятая",
    6: "sixth sechste sechsten sixième sexto sexta sesto шестой",
    7: "seventh siebte siebten septième séptimo settimo седьмой",
    8: "eighth achte achten huitième octavo ottavo восьмой",
    9: "ninth neunte neunten neuvième noveno nono девятый",
    10: "tenth zehnte zehnten dixième décimo decimo десятый",
    11: "eleventh elfte elften onzième",
    12: "twelfth zwölfte zwölften douzième",
}
NUMBER_WORDS = {word: float(number) for number, words in _SPELT.items() for word in words.split()}
NUMBER_WORDS |= {
    f"{one}und{ten}": float(digit + tens)
    for digit, one in enumerate("ein zwei drei vier fünf sechs sieben acht neun".split(), 1)
    for tens, ten in zip(
        range(20, 100, 10), "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split(), strict=False
    )
}
ORDINALS = {word: float(number) for number, words in _ORDERED.items() for word in words.split()}
#: Words that are numbers in one language and something else in another, or say little: no claim of a figure rests on
#: their absence.
VAGUE = frozenset(
    "one eine einer einem un une uno una um uma один одна two zwei deux dos due duas dois два две двух twee "
    "sei sept once cent cento dos tre elf acht hundred dez seize quince nono".split()
)
AND_HALF = r"(?:\s?and a half| et demie?| y medi[ao]| e mezz[oa]| e meia| с половиной|半)"
_BEFORE = (
    "about around roughly approximately nearly almost some circa ca. over under above below just well more_than "
    "less_than "
    "fewer_than at_least up_to upwards_of close_to ~ ≈ etwa rund ungefähr knapp über gut mehr_als weniger_als fast "
    "annähernd bis_zu environ près_de plus_de moins_de quelque presque autour_de au_moins unos unas cerca_de más_de "
    "menos_de casi aproximadamente alrededor_de quasi oltre più_di meno_di almeno mais_de quase bijna ruim ongeveer "
    "около почти более более_чем свыше примерно порядка 约 約 大约 近 将近 "
    "接近 超过 超過 逾 约有 達 およそ ほぼ 약 거의"
)
_BEHIND = "or_so 左右 多 余 餘 上下 以上 ほど 前後 近く 余り 여 정도 가량"
ABOUT = re.compile(
    "(?:"
    + "|".join(re.escape(word).replace("_", r"\s") for word in sorted(_BEFORE.split(), key=len, reverse=True))
    + r")"
    r"(?:\s(?:the|a|der|die|das|les|los|las))?\s*[$€£¥]?\s*\Z",
    re.IGNORECASE,
)
MORE = re.compile(
    r"(?:over|above|more than|upwards of|über|gut|mehr als|plus de|más de|oltre|"
    r"più di|"
    r"mais de|ruim|meer dan|более|более чем|свыше|больше|超过|超過|逾|超)\s?[$€£¥]?\s?\Z",
    re.IGNORECASE,
)
MORE_BEHIND = re.compile("\\s?[多余餘]")
ABOUT_BEHIND = re.compile(r"\s?(?:" + "|".join(word.replace("_", r"\s") for word in _BEHIND.split()) + ")")
#: A claim with such a word may give the difference of two figures of a page, or their sum.
APART = re.compile(
    r"\b(?:more|less|fewer|behind|ahead|older|younger|longer|shorter|higher|lower|cheaper|"
    r"dearer|later|earlier|difference|"
    r"gap|margin|by|lasted|took|after|lead|aged?|old|duration|short of|did not|didn.t|"
    r"remaining|left|mehr|weniger|länger|"
    r"teurer|billiger|später|früher|um|unterschied|dauerten?|rückstand|vorsprung|plus|"
    r"moins|différence|duré|après|avant|más|"
    r"menos|diferencia|duró|después|ventaja|"
    r"più|meno|dopo|mais|depois|still|noch|encore|todavía|ещё|not|rest|others|remain\w*|nicht|übrig\w*|autres|не|больше|меньше|разница|дороже|дешевле|позже|спустя|"
    r"лет)\b|多|少|差|增|减|減|相隔|历时|歷時|増|上回|下回|より",
    re.IGNORECASE,
)
TOGETHER = re.compile(
    r"\b(?:total|together|combined|altogether|in all|sum|insgesamt|zusammen|ensemble|juntos|suma|totale|insieme|"
    r"всего|вместе)\b|共|合計|总计|總計|合计",
    re.IGNORECASE,
)
