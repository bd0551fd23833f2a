"""Words that exclude one another: a claim that says `on Friday` does not stand in a sentence that says `on Monday`."""

import re
from functools import cache
from typing import Literal

Family = Literal["nation", "weekday", "month"]

#: Beginnings of the words for each member; a script without blanks has them whole.
_NATIONS = (
    "german deutsch allemand aleman alemán tedesc alemão alemã немец герман 德国 德國 ドイツ 독일",
    "french frankreich französ françai france franci francés frances fransk франц 法国 法國 フランス 프랑스",
    "british britis britann britisch britân brit[aá]ni anglai inglés engländ england english британ 英国 イギリス",
    "spanish spain spani espagn españ spagn espanh испан 西班牙 スペイン",
    "itali 意大利 イタリア итал",
    "japan japon giappon япон 日本",
    "chin(?:a|es|ois) кита[йя] 中国 中國",
    "kore(?:a|an|er) corée coréen corea 韩国 韓国 коре[йя]",
    "russ(?:ia|e|isch|land|o) rusia ruso росси русск 俄罗斯 俄羅斯 ロシア",
    "americ amerik améric états-unis estados.unidos verein[a-z]+.staaten сша америк 美国 美國 アメリカ 米国",
    "canad kanad канад 加拿大 カナダ",
    "austral австрал 澳大利亚 オーストラリア",
    "austri österreich autrich австри 奥地利 オーストリア",
    "swiss switzerland schweiz suisse suiza suizo svizzer suíç швейцар 瑞士 スイス",
    "dutch netherland niederl holländ néerland holand oland pays-bas нидерланд голланд 荷兰 オランダ",
    "belgi belg(?:e|a|o) бельг 比利时 ベルギー",
    "swed schwed suéd suec svede suéc швед швец 瑞典 スウェーデン",
    "norw norveg норвеж норвег 挪威 ノルウェー",
    "danish denmark dän(?:e|isch) danois danemark danes dinamar датск дани[яию] 丹麦 デンマーク",
    "finnish finland finn(?:isch|land) finlandes finlandais финля финск 芬兰 フィンランド",
    "polish poland polnisch polen polonais pologne polac polonia польш польск 波兰 ポーランド",
    "turk türk turc turc[oa] турц турец 土耳其 トルコ",
    "greek greece griech grec(?:e|que|ia|o)? grieg 希腊 ギリシャ греч",
    "india indisch indien(?:ne)? индий инди[ия] 印度(?!尼) インド(?!ネ)",
    "brazil brasil brésil бразил 巴西 ブラジル",
    "argentin аргентин 阿根廷 アルゼンチン",
    "mexic mexik méxic mexiq мексик 墨西哥 メキシコ",
    "portug португал 葡萄牙 ポルトガル",
    "kenia kenya keny кени 肯尼亚 ケニア",
    "ethiop äthiop éthiop etíop etiop эфиоп 埃塞俄比亚 エチオピア",
    "ukrain ucran украин 乌克兰 ウクライナ",
    "irish ireland irisch irland ирланд 爱尔兰 アイルランド",
    "scot schott écoss escoc шотланд 苏格兰",
    "egypt ägypt égypt egipt египет египт 埃及 エジプト",
    "viet 越南 ベトナム вьет",
    "czech tschech tchè checo cec[ao] чеш чех 捷克 チェコ",
    "hungar ungar hongr húngar ungher венгр венгер 匈牙利 ハンガリー",
    "romani rumän roumain ruman rumen румын 罗马尼亚",
    "morocc marokk maroc marruec marrocos марокк 摩洛哥 モロッコ",
    "nigeri 尼日利亚 нигери",
    "israel izrael израил 以色列 イスラエル",
    "iran(?:ian|isch|ien|í)?\\b иран 伊朗 イラン",
    "senegal sénégal сенегал 塞内加尔",
    "chile чили 智利 チリ",
    "colombi kolumb колумб 哥伦比亚",
    "peru pérou perú перу 秘鲁",
    "iceland island(?:e|a|és|ais)\\b isländ исланд 冰岛",
    "thai 泰国 タイ国 таилан",
)
_WEEKDAYS = (
    "monday montag lundi lunes lunedì segunda-feira понедельник 周一 星期一 礼拜一 月曜",
    "tuesday dienstag mardi martes martedì terça вторник 周二 星期二 火曜",
    "wednesday mittwoch mercredi miércoles mercoledì quarta-feira сред[ау] 周三 星期三 水曜",
    "thursday donnerstag jeudi jueves giovedì quinta-feira четверг 周四 星期四 木曜",
    "friday freitag vendredi viernes venerdì sexta-feira пятниц 周五 星期五 金曜",
    "saturday samstag sonnabend samedi sábado sabato суббот 周六 星期六 土曜",
    "sunday sonntag dimanche domingo domenica воскресень 周日 周天 星期日 星期天 日曜",
)
_MONTHS = (
    "january januar janvier enero janeiro gennaio январ",
    "february februar février febrero fevereiro febbraio феврал",
    "march märz mars marzo março марта март(?:е|ом)?\\b",
    "april avril abril aprile апрел",
    "(?-i:May)\\b (?-i:Mai)\\b mayo maggio ма[йея]\\b",
    "june juni\\b juin\\b junio junho giugno июн",
    "july juli\\b juillet julio julho luglio июл",
    "(?-i:August) août agosto август",
    "september septembre septiembre setembro settembre сентябр",
    "october oktober octobre octubre outubro ottobre октябр",
    "november novembre noviembre novembro ноябр",
    "december dezember décembre diciembre dezembro dicembre декабр",
)
_FAMILIES: dict[Family, tuple[str, ...]] = {
    "nation": _NATIONS,
    "weekday": _WEEKDAYS,
    "month": _MONTHS,
}


@cache
def _pattern(family: Family) -> "re.Pattern[str]":
    members = []
    for at, words in enumerate(_FAMILIES[family]):
        either = "|".join(word if ord(word[0]) > 0x2FFF else rf"(?<![^\W\d_]){word}" for word in words.split())
        members.append(f"(?P<m{at}>{either})")
    return re.compile("|".join(members), re.IGNORECASE)


def members(family: Family, text: str) -> frozenset[str]:
    """Which members of a family a text names."""
    return frozenset(match.lastgroup or "" for match in _pattern(family).finditer(text))
