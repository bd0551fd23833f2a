"""Marks and links in an answer: nothing is taken out, and what its source does not carry is questioned."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.agent.citations import facts
from nanobot.agent.citations.answer import MarkedAnswer, check_report
from nanobot.agent.tools.base import ToolContext
from nanobot.channels.telegram.render.markdown import render
from nanobot.messages import AssistantMessage, Citation, TextDelta, ToolMessage
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import BOOK_CHARS, SOURCE_CHARS, Source, SourceBook, ToolResult, error_result
from nanobot.security.policy import Effect, Policy, Rule
from nanobot.utils.marks import cited, find_marks
from tests.agent.harness import FakeTool, QueryArgs, agent

TOWER = (
    "The lookout tower of Merrow was built by Ada Lindgren from 1911 to 1914. It is 1,204 feet tall and made of oak. "
    '"It moves a little in the wind," says the warden. "Nobody has ever complained." '
    "On 3 May 2024 it closed for repairs that cost 2.5 million crowns."
)
LAKE = "Lake Ostra is 41 metres deep and freezes from December to March. Its fish are protected."
CHINESE = "梅罗塔高367米，建于1914年，由李明设计。每年有12.5万人登塔。"


def test_the_words_that_facts_are_read_by_are_written_as_texts_are_folded() -> None:
    lines = Path(facts.__file__).with_name("terms.txt").read_text(encoding="utf-8").splitlines()
    words = {word for line in lines if not line.startswith(("#", "[")) for word in line.split()}
    assert {one for one in words if one != "".join(facts.fold(sign)[:1] or sign for sign in one)} == set()


@pytest.fixture
def book() -> SourceBook:
    made = SourceBook()
    made.add("https://merrow.test/tower", "Lookout tower", read=True, text=TOWER)
    made.add("https://ostra.test/", "Lake Ostra", read=True, text=LAKE)
    made.add("https://merrow.test/zh", "梅罗塔", read=True, text=CHINESE)
    made.add("https://found.test/", "Merrow travel guide", text="Merrow travel guide\nTickets for the tower: 9 crowns")
    return made


def marked(text: str, book: SourceBook, asked: str = "", given: Sequence[str] = ()) -> tuple[str, list[Citation]]:
    """The answer as a person sees it, and what its marks were found to be."""
    answer = MarkedAnswer(book, lambda url: url in given, asked)
    return answer.mark(text, 0), answer.citations


RIGHT = [
    "The tower is 1204 ft tall [1].",
    "It was built between 1911 and 1914 by Ada Lindgren.[1] Then came others.",
    "“It moves a little in the wind. Nobody has ever complained.” [1]",
    "It closed on 2024-05-03 [1], and the lake is 41 m deep [2].",
    "According to [1], the repairs cost 2.5m crowns.",
    "- **Material**: oak [1]",
    "| height | 1,204 feet [1] |",
    "The tower of oak and the lake with its fish [1][2].",
    "Tickets for the tower cost 9 crowns [4].",
    "梅罗塔高367米[3]，每年约有125,000人登塔[3]。🎉",
    "Der Turm ist 1.204 Fuß hoch [1].",
    "Both are old【1】.",
    "The tower is over 1,200 feet tall [1].",
    "The tower has some 1,200 feet [1].",
    "It was built by Ada Lindgren ([guide](https://merrow.test/tower)).",
]


@pytest.mark.parametrize("text", RIGHT)
def test_G14_a_right_mark_stays_as_it_is_and_shows_its_passage(text: str, book: SourceBook) -> None:
    shown, citations = marked(text, book)
    assert shown == text, [one.missing for one in citations]
    assert all(one.passage and one.passage in book.text(one.number) for one in citations)


def test_G14_a_figure_is_found_in_the_block_of_a_page_that_has_no_word_of_the_claim_and_is_its_passage() -> None:
    table = "Old and long, the Ensley bridge crosses the river.\n\nBoats pass below it.\n\n" * 40
    page = SourceBook()
    page.add("https://ensley.test/", "Ensley bridge", read=True, text=f"{table}412 m\n\nPainted green.")
    shown, [found] = marked("The Ensley bridge is 412 m long [1].", page)
    assert (shown, found.missing) == ("The Ensley bridge is 412 m long [1].", "")
    assert "Ensley bridge" in found.passage
    shown, [found] = marked("412 m [1].", page)
    assert (shown, found.passage) == ("412 m [1].", "412 m")
    shown, [found] = marked("The Ensley bridge is 421 m long [1].", page)
    assert ("[1?]" in shown, found.missing) == (True, "421 m: not on [1]")


WRONG = [
    ("The tower is tall [7]. It stands.", "[7?]", "no source of this answer has the number 7"),
    ("The tower is 1,402 ft tall [1].", "[1?]", "1,402 ft: not on [1], which has 1,204 feet"),
    ("The tower is 1204 metres tall [1].", "[1?]", "1204 metres: not on [1], which has 1,204 feet"),
    ("The tower is at least 1,300 feet tall [1].", "[1?]", "1,300 feet: not on [1], which has 1,204 feet"),
    ("It closed on 13 May 2024 [1].", "[1?]", "13 May: not on [1], which has 3 May"),
    ("“Everybody complains all the time.” [1]", "[1?]", "“Everybody complains all the time.”: not on [1]"),
    ("The tower was built by Paul Ekman [1].", "[1?]", "Paul Ekman: not on [1]"),
    ("The lake is 41 m deep [1, 2].", "[1?, 2]", "41 m: not on [1]"),
    ("The lake is 41 m deep [2][9] today.", "[2][9?]", "no source of this answer has the number 9"),
    ("Tickets for the tower cost 19 crowns [4].", "[4?]", "19 crowns: not on [4], which has 9 crowns"),
    ("梅罗塔高376米[3]。🎉每年有12.5万人登塔[3]。", "[3?]", "376米: not on [3], which has 367米"),
    (
        "It cost 9 million crowns ([guide](https://merrow.test/tower)).",
        "[1?]",
        "9 million crowns: not on [1], which has 2.5 million crowns",
    ),
]


@pytest.mark.parametrize(("text", "mark", "missing"), WRONG, ids=[row[2] for row in WRONG])
def test_G14_a_mark_that_its_source_does_not_carry_is_questioned_with_what_is_missing(
    text: str, mark: str, missing: str, book: SourceBook
) -> None:
    shown, citations = marked(text, book)
    assert mark in shown
    assert [one.missing for one in citations if one.missing] == [missing]
    assert marked(shown, book)[0] == shown, "a second look finds the same"


UNTOUCHED = [
    "```python\nx = items[7]\n```",
    "~~~\n[7]\n~~~",
    "```\nan open block [7]",
    "Use `rows[7]` or ``a ` [7] b`` here.",
    "See https://given.test/page[7] there.",
    "A link [7](https://given.test/) and [the [7] text](https://given.test/x).",
    "Write x[7] or sys.argv[7].",
    "From [0] to [2024] and [x].",
    "[7]: https://given.test/",
]


@pytest.mark.parametrize("text", UNTOUCHED)
def test_G13_brackets_in_code_addresses_and_links_are_no_marks(text: str, book: SourceBook) -> None:
    answer = MarkedAnswer(book, lambda url: url.startswith("https://given.test/"))
    assert answer.mark(text, 0) == text
    assert find_marks(text) == ()


LINKS = [
    ("See https://made.up/page.", "See https://made.up/page (not read)."),
    ("See [the page](https://made.up/page_(one)), too.", "See [the page](https://made.up/page_(one)) (not read), too."),
    ("See <https://made.up/>.", "See <https://made.up/> (not read)."),
    ("See https://told.test/x and https://found.test/.", None),
    ("Run `curl https://made.up/` or open http://localhost:8080/ or https://example.com/x.", None),
    ("```\nhttps://made.up/\n```", None),
]


@pytest.mark.parametrize(("text", "wanted"), LINKS)
def test_W01_an_address_that_neither_a_tool_nor_a_person_gave_is_called_not_read(
    text: str, wanted: str | None, book: SourceBook
) -> None:
    shown, citations = marked(text, book, given=["https://told.test/x"])
    assert (shown, citations) == (wanted or text, [])
    assert marked(shown, book, given=["https://told.test/x"])[0] == shown


AWAY = [
    ("See https://made.up/?d=SECRET.", "See `https://made.up/?d=SECRET` (not read)."),
    ("![x](https://made.up/i.png?d=S) there", "x `https://made.up/i.png?d=S` (not read) there"),
    ("[the page](<https://made.up/S>), too", "the page `https://made.up/S` (not read), too"),
    ("See [told](https://told.test/x) and told.test/x and notes.md.", None),
    ("Run `curl https://made.up/`.", None),
    ("see made.up/?d=S there", "see `made.up/?d=S` (not read) there"),
]
HIDDEN = [
    "[x][1]\n\n[1]: https://made.up/?d=1",
    "[a\nb](https://made.up/?d=1)",
    "\\`https://made.up/?d=1\\`",
    "[https://told.test/x](https://made.up/?d=1)",
    "[x]( https://made.up/?d=1 )",
    "[x](https&#58;//made.up/?d=1)",
    "[x](https:\\//made.up/?d=1)",
    "https&colon;//made.up/?d=1",
    "[![x](https://made.up/a)](https://made.up/b)",
    "a ` b\n\nhttps://made.up/?d=1 `c`",
    "1 [9] " * 400 + "https://made.up/?d=1",
    "http://localhost:8080/{d}",
]


@pytest.mark.parametrize(("text", "wanted"), AWAY)
def test_under_taint_an_address_that_nobody_gave_is_a_text(text: str, wanted: str | None, book: SourceBook) -> None:
    answer = MarkedAnswer(book, lambda url: url == "https://told.test/x", tainted=True)
    assert answer.mark(text, 0) == (wanted or text)


@pytest.mark.parametrize("text", HIDDEN)
def test_under_taint_no_spelling_makes_a_link_of_it_that_can_be_pressed(text: str, book: SourceBook) -> None:
    answer = MarkedAnswer(book, lambda url: url == "https://told.test/x", tainted=True)
    shown = render(answer.mark(text, 0))
    assert not [one for one in shown.entities if one.type == "text_link"]
    code = [range(one.offset, one.end) for one in shown.entities if one.type in ("code", "pre")]
    plain = [one for one in re.finditer(r"https?://\S+", shown.text) if not any(one.start() in span for span in code)]
    assert plain == []


def test_marks_that_the_person_wrote_stay_and_a_turn_without_sources_keeps_its_lists() -> None:
    empty = SourceBook()
    for text in ("Entry [2] is by Rowe.", "Sorted: [1, 2, 3].\n[1] Ash\n[2] Rowe"):
        assert marked(text, empty, "sort these: [1] Ash, [2] Rowe")[0] == text
    assert marked("Paris is the capital [1].", empty)[0] == "Paris is the capital [1?]."


def test_an_entry_of_a_forged_list_is_questioned(book: SourceBook) -> None:
    right = "The lake is 41 m deep [2].\n\n## Sources\n\n- [2] Lake Ostra https://ostra.test/"
    assert marked(right, book)[0] == right
    forged = "Sources\n[2] Lake Ostra https://evil.test/\n[8] Lake https://ostra.test/"
    assert (
        marked(forged, book)[0]
        == "Sources\n[2?] Lake Ostra https://evil.test/ (not read)\n[8?] Lake https://ostra.test/"
    )


def test_a_sum_counts_only_where_claim_and_page_name_both_terms(book: SourceBook) -> None:
    book.add("https://race.test/", "Race", read=True, text="Of 11,200 runners who started 10,846 finished the race.")
    assert marked("Of 11,200 runners 10,846 finished, so 354 did not [5].", book)[1][0].missing == ""
    assert marked("In the race 354 runners did not finish [5].", book)[1][0].missing.startswith("354: not on [5]")


LONG = "The International Maritime Organization met in the old town hall. " + " ".join(
    f"Room {number} has {number + 3} chairs and a lamp." for number in range(1, 40)
)


@pytest.mark.parametrize(
    ("text", "page", "missing"),
    [
        ("The IMO met in the town hall [5].", LONG, ""),
        ("The WTO met in the town hall [5].", LONG, "WTO: not on [5]"),
        ("Room 7 has 10 chairs [5].", LONG, ""),
        ("The mayor spoke for 12 delegates [5].", LONG, "12: not on [5]"),
        ("The harbour has 7 ferries [5].", "Number of harbour ferries\n\n7\n\nPiers\n\n31", ""),
        ("The harbour has 31 ferries [5].", "Number of harbour ferries\n\n7\n\nPiers\n\n31", "31: not on [5]"),
        ("It was once a mill [5].", "The house was a mill before the war, and is due to close.", ""),
        ("该馆收藏三百二十件竹器[5]。", "馆内收藏320件竹器。", ""),
        ("该馆收藏三百五十件竹器[5]。", "馆内收藏320件竹器。", "三百五十: not on [5], which has 320"),
        ("演出20:00开始[5]。", "演出在晚上8点开始。", ""),
        ("住了两天[5]。", "他在那里住了2天。", ""),
        ("住了两天[5]。", "他在那里住了3天。", "两天: not on [5], which has 3天"),
        ("It serves 62 homes [5].", "The plant serves 62,000 homes.", "62: not on [5], which has 62,000"),
        ("Fewer than 40 people came [5].", "At least 40 people came.", "40: not on [5], which has another bound"),
        ("It holds up to 16 GiB [5].", "Store 17: it holds up to 16 TiB.", "16 GiB: not on [5], which has 16 TiB"),
        ("Up to 15 boats sail [5].", "No more than 15 boats sail there.", ""),
        ("It is 11-15 cm long [5].", "It is 11-14 cm long.", "15 cm: not on [5], which has 11"),
        (
            "7 июля 2021 года пришли 40 человек [5].",
            "On 7 June 2021 came 40 people.",
            "7 июля: not on [5]; июля 2021: not on [5]",
        ),
        ("定休日は木曜日です[5]。", "定休日は水曜日です。", "木曜日: not on [5], which has 水曜日"),
        ("昨年は約46,000人が訪れた[5]。", "昨年の利用者は4万6千人でした。", ""),
        ("It has forty-five thousand visitors [5].", "It counts 45,000 visitors a year.", ""),
        ("该馆有320万本书[5]。", "馆内藏书三百二十万册。", ""),
        ("Er zijn 45 duizend boeken [5].", "De bibliotheek heeft 45.000 boeken en 12 zalen.", ""),
        ("It opened in 1987 with 45 rooms [5].", "一九八七年开业，有四十五个房间，共三百二十十百床。", ""),
        ("Die Messe dauert vom 3. bis 5. Mai 2024 [5].", "Die Messe findet am 3., 4. und 5. Mai 2024 statt.", ""),
        ("It came out on 3 May 2024 [5].", "Out on 3 May. Begun in 2023.", ""),
        ("It came out in June 2024 [5].", "Out on 3 May 2024.", "June 2024: not on [5]"),
        ("The fair is held in June [5].", "The fair was held on 3 May 2024. It is held outdoors.", ""),
        ("The fair is held in May; it may rain [5].", "The fair was held on 2024-05-03, in the rain.", ""),
        ("25% of the visitors come by train [5].", "One in four visitors comes by train.", ""),
        ("20 % der Besucher kommen mit dem Zug [5].", "Jeder fünfte Besucher kommt mit dem Zug.", ""),
        (
            "25% of the visitors come by train [5].",
            "Of the visitors 30% come by train.",
            "25%: not on [5], which has 30%",
        ),
        ("The twenty-seventh fair was held in the hall [5].", "The 27th fair was held in the hall.", ""),
        ("In August the fair is open daily [5].", "The fair is open daily from June to September.", ""),
        ("The fair is open all year, so also in June [5].", "The fair is open all year. Dogs are welcome.", ""),
        ("Amy Lee is number 69 of the list [5].", "The list:\n\n68. Scott Stapp\n69. Amy Lee\n70. Don Dokken", ""),
        ("Der Autor folgt einem Gedanken Kants [5].", "Der Autor folgt hier Kant und der Idee von der Zeit.", ""),
        ("It came out on May 3rd, 2023 [5].", "Out on 3 May 2024.", "May 3rd, 2023: not on [5], which has 3 May"),
    ],
)
def test_G14_names_and_numbers_are_found_in_their_usual_forms(
    text: str, page: str, missing: str, book: SourceBook
) -> None:
    book.add("https://forms.test/", "Forms", read=True, text=page)
    assert marked(text, book)[1][0].missing == missing


POLISH = "Nowy most w Starogrodzie otwarto 15 marca 2025 r. Kosztował 96,4 mln zł. Buduje go Budopol, dwanaście osób."
SHOP = "The shop sold 3,500 of 4,000 lamps for $1.284 billion, up from $1.097 billion. Of 100 staff 40 % left."


@pytest.mark.parametrize(
    ("text", "page", "missing"),
    [
        # A language that is not read: digits, quotations and names of the same language are compared, words are not.
        ("The bridge opened on 15 March 2025 and cost 96.4 million złoty [5].", POLISH, ""),
        ("The bridge in the Old Town took twelve workers [5].", POLISH, ""),
        ("The bridge opened on 25 March 2025 [5].", POLISH, "25 March: not on [5]"),
        ("The bridge cost 94.6 million złoty [5].", POLISH, "94.6 million: not on [5]"),
        ("Nowy most w Starogrodzie buduje go Skanska [5].", POLISH, "Skanska: not on [5]"),
        ("بلغ طول الجسر 1,840 متراً [5].", "ويبلغ طول الجسر ١٬٨٤٠ متراً وارتفاعه ٧٢ متراً.", ""),
        ("2012년 7월 9일에 개관했다 [5].", "박물관은 2012년 7월 9일 문을 열었다.", ""),
        # What can be reckoned from numbers that claim and page both name.
        ("About 88 % of the 4,000 lamps (3,500) were sold [5].", SHOP, ""),
        ("About 68 % of the 4,000 lamps (3,500) were sold [5].", SHOP, "68 %: not on [5]"),
        ("Sales rose by $187 million, from $1.097 billion to $1.284 billion [5].", SHOP, ""),
        ("Of the staff 40 % left and 60 % stayed [5].", SHOP, ""),
        ("The ferry took 40 minutes, four times a week: 160 minutes [5].", "A trip of forty minutes, four a week.", ""),
        # Other ways to write the same.
        ("Bake it at 200 °C (about 390 °F) [5].", "Hornea a 200 °C en el centro.", ""),
        ("He won in 1 hour, 2 minutes and 47 seconds [5].", "Bekele won in 1:02:47 on Sunday.", ""),
        ("The bus leaves at 08:20 [5].", "| Fellgate | 0655 | 0820 | 1035 |", ""),
        ("The bus leaves at 08:50 [5].", "| Fellgate | 0655 | 0820 | 1035 |", "08:50: not on [5]"),
        ("Phone them on +33 3 81 55 40 17 [5].", "Their telephone: 03 81 55 40 17.", ""),
        ("The walls fell in the 1690s, in the 17th century [5].", "The walls were pulled down in 1694.", ""),
        ("She died in Whitby aged 89 [5].", "Winifred Ashcombe (1903–1992), engineer, of Whitby.", ""),
        ("Service earned 67.4 million euros [5].", "| in million euros | 2024 |\n| Service | 67.4 |", ""),
        ("Shares pay 41 cents [5].", "Shares pay $0.41 this year.", ""),
        ("Tuesday 21 January is windy [5].", "Issued 19 January 2025\n| Tue 21 | windy |\n| Wed 22 | calm |", ""),
        ("One in five trains runs, some 20 % [5].", "A fifth of the trains runs.", ""),
        # What is counted, and by what it is reckoned, are part of a figure.
        (
            "Die Stadt zahlt 312.500 Euro für das Land [5].",
            "Die Stadt hat 312.500 Einwohner. Sie zahlt 18 Millionen Euro für das Land.",
            "312.500 Euro: not on [5], which has 18 Millionen Euro",
        ),
        ("The ticket went up to €58 a month [5].", "Das Ticket kostet 58 statt 49 Euro pro Monat.", ""),
        ("Seats cost €58 [5].", "The price rose to 58 instead of 49 euros.", ""),
        (
            "At most 2400 mg may be taken [5].",
            "Ibuprofen 400 mg tablets: no more than 3 tablets (1200 mg) in 24 hours. Store below 25 °C.",
            "2400 mg: not on [5]",
        ),
        ("Second class costs ¥553 [5].", "二等座票价553元起。", ""),
        ("The toll is ¥4,000 [5].", "通行料は2000円、1日4000人まで。", "4,000: not on [5]"),
        (
            "It runs on up to 16 threads [5].",
            "It runs on up to 8 threads. Pages: 16 KiB.",
            "16: not on [5], which has 8",
        ),
        ("Each of the 25 cars costs €8.8 million (220 million in all) [5].", "25 cars for 220 million euros.", ""),
        (
            "Each of the 25 cars costs €9.9 million [5].",
            "25 cars for 220 million euros.",
            "9.9 million: not on [5], which has 220 million euros",
        ),
        ("The state pays 40 % of €68.5m, about €27.4 million [5].", "Von 68,5 Millionen Euro zahlt der Bund 40 %.", ""),
        ("Trains reach 350 km/h [5].", "列车最高时速350公里。", ""),
        ("Jedes Jahr kommen 35.000 Touristen [5].", "Ежегодно его посещают 35 тысяч туристов.", ""),
        ("Tours last 1½ hours [5].", "The tours last 90 minutes.", ""),
        ("Er zijn 97 beoordelingen, gemiddeld 4,4 [5].", "★ 4,4/5 (97 reviews)", ""),
        ("Medical devices brought in 33.8 billion yen [5].", "| 売上高(億円) |\n| 医療機器 | 338 |", ""),
        (
            "EBIT grew by more than a fifth, from 31.2 to 37.9 [5].",
            "EBIT stieg von 31,2 auf 37,9, die Marge auf 7,9 %.",
            "",
        ),
        ("She travelled in 1923–24 [5].", "From 1923 to 1924 she travelled, with 47 boxes.", ""),
        (
            "Das Parken kostet 6,50 € pro Stunde [5].",
            "Das Parken kostet 6,50 € pro Tag.",
            "pro Stunde: not on [5], which has pro Tag",
        ),
        ("Mme Marchandeau runs the house [5].", "The house is run by Hélène Marchandeau.", ""),
        # A name in another language stands there as it is, in the place of which no other name stands.
        (
            "Der Film von 2019 ist von Jürgen Krämer [5].",
            "The film of 2019 was made by Emma Stowe and had a prize.",
            "Jürgen Krämer: not on [5]",
        ),
        ("Der Film von 2019 ist von Jürgen Krämer [5].", "Фильм 2019 года снял Юрген Кремер, с ним Анна Белова.", ""),
        ("Egan won in 2019, the first South American [5].", "Egan siegte 2019 vor Emma Stowe, als Südamerikaner.", ""),
        ("Der Film von 2019 spielt im Roten Haus [5].", "The film of 2019 is set in a house with red walls.", ""),
        ("El barco llegó a Nueva Zelanda en 1950 [5].", "The ship came to New Zealand with Anna Berg in 1950.", ""),
        ("O navio chegou ao Reino Unido em 1950 [5].", "The ship came to Great Britain with Anna Berg in 1950.", ""),
        (
            'Das Gericht schrieb: "The shop placed itself between the maker and the buyer" [5].',
            "The shop placed itself between the maker and the buyer, the court wrote.",
            "",
        ),
        # The same number written, counted or reckoned in another way.
        (
            "Sales fell by 17.9 million euros, from 114.2 to 96.3 million [5].",
            "| in million euros | 2024 | 2023 |\n| Sales | 96.3 | 114.2 |",
            "",
        ),
        (
            "It is 54 km (44 miles) from the city [5].",
            "It is 54 km from the city.",
            "44 miles: not on [5], which has 54 km",
        ),
        ("Phone: 04-662-0381 [5].", "Their phone: 04-6620381.", ""),
        ("Apply until 15.06. at noon [5].", "Bewerbung bis 15. Juni 2025.", ""),
        ("Goal 4:51 into the third half [5].", "He scored 4 minutes and 51 seconds into the third half.", ""),
        (
            "Thursday will be hot [5].",
            "| Mer. 13 | Jeu. 14 |\n| 37 | 39 |\nDes orages remontent d'Espagne vendredi.",
            "",
        ),
        ("She presented it for 32 years [5].", "Lo presentó durante treinta y dos años, desde su casa.", ""),
        ("Born in 1894, he died on 27 January 1971 at 76 [5].", "Er lebte vom 8. Juni 1894 bis 27. Januar 1971.", ""),
        ("In the years 2025-2027, three years, they invest [5].", "Il gruppo investirà nel triennio 2025-2027.", ""),
        ("가격은 38만 9천 원입니다 [5].", "가격 389,000원", ""),
        ("A majority needs 23 seats [5].", "Turnout was up from 2019. 23 seats are needed.", ""),
        ("He died on 6 November 1953 [5].", "Kompozytor, zm. 6 listopada 1953 w Łodzi, uczył organistów.", ""),
        # What has the same digits is not the same.
        ("Delivery costs 8,000 won [5].", "배송비 5,000원이 있습니다. 8시간 꺼짐 예약", "8,000: not on [5]"),
        ("Il faut 50 ml de lait [5].", "Il faut 50 cl de lait.", "50 ml: not on [5], which has 50 cl"),
        (
            "Images above 4 MB are split [5].",
            "Images above 4 GB are split. It is quick. Any make is good. Racks hold 4 disks.",
            "4 MB: not on [5], which has 4 GB",
        ),
        ("They are 54 on average [5].", "Średnia: 540 osób.", "54: not on [5]"),
        ("They paid 6 billion euros [5].", "Musieli przelać 6 mld zł spółce.", "6 billion euros: not on [5]"),
        (
            "He has won 20 major titles [5].",
            "On 20 November he had won 25 major titles.",
            "20: not on [5], which has 25",
        ),
        (
            "Plus de 80 % travaillent, contre 12 % ici [5].",
            "Ils sont 60 % à travailler, contre 12 % ici.",
            "80 %: not on [5], which has 60 %",
        ),
        (
            "In 2014 it was 3 %, in 2017 more [5].",
            "In 2016 it was 3 %, in 2017 more.",
            "2014: not on [5]",
        ),
        # A difference of degrees, a pound of a weight, and numbers that are one word.
        ("It is 1.7 °C (about 3.1 °F) above the average [5].", "It is 1.7 °C above the average.", ""),
        ("It is 1.7 °C (about 4.1 °F) above the average [5].", "It is 1.7 °C above the average.", "4.1 °F: not on [5]"),
        ("Er wog 206 Kilogramm (rund 454 Pfund) [5].", "He weighed 206 kg.", ""),
        ("Stecklinge sollten 15 bis 20 cm lang sein (6–8 Zoll) [5].", "Cuttings should be 6″ to 8″ long.", ""),
        ("В России их мало, но в других местах больше [5].", "In Russland sind es wenige, anderswo mehr.", ""),
        ("The show is held on 11–21 October in the park [5].", "The show is held Oct. 11–21 in the park.", ""),
        ("Der Raum fasst 20,7 Kubikfuß (586 Liter) [5].", "The trunk holds 20.7 cubic feet.", ""),
        ("Shotwell, its COO, said so in the hall [5].", "Shotwell, its chief operating officer, said so.", ""),
        ("Vier Personen haben darin Platz, und er sei groß [5].", "There is seating for four in it.", ""),
        ("On Monday they met in the hall [5].", "Na segunda-feira, eles se reuniram no salão; domingo não.", ""),
        (
            "O navio saiu em dez meses, com a carga toda [5].",
            "O navio saiu em oito meses, com a carga toda.",
            "dez meses: not on [5], which has oito meses",
        ),
        # What is quoted in the midst of a sentence belongs to it.
        (
            "He called out “She is not in this room!” when she was found [5].",
            "When she was found he called out: “Here she is, we got her!”",
            "“She is not in this room!”: not on [5]",
        ),
        # A name is found as it sounds, in another script, another inflection or another spelling.
        ("The blog of Andrey Rudkov is about food [5].", "Андрей Рудьков пишет о еде и о том, что любит.", ""),
        (
            "The blog of Sergey Malinin is about food [5].",
            "Андрей Рудьков пишет о еде и о том, что любит.",
            "Sergey Malinin: not on [5]",
        ),
        ("По словам Джейсона Ла Канфоры, он заплатит [5].", "Jason La Canfora has said that he will pay for it.", ""),
        ("Die Trophäe ging 2010 an Inter Mailand [5].", "In 2010 the trophy went to Inter Milan and to Porto.", ""),
        ("In Polsce i w Czechach bezrobocie spada [5].", "Polska i Czechy: bezrobocie spada od roku.", ""),
        (
            "The rain will fall on Veneto and on Umbria [5].",
            "The rain will fall on Umbria, the venerable hills and Rome.",
            "Veneto: not on [5]",
        ),
        # So is one of one word in another language, but what languages translate.
        (
            "Small countries such as Cyprus are exposed, as is the Prophet's house [5].",
            "Les petits pays, comme Chypre, sont très exposés, et la maison du Prophète.",
            "",
        ),
        ("The company grew in Germany and in the Camera [5].", "Spółka rosła w Niemczech oraz w Izbie.", ""),
        (
            "El presidente de la Cámara de Indiana habló ayer [5].",
            "The Indiana House Speaker spoke there yesterday.",
            "",
        ),
        (
            "He was born there, but he has lived for years in Lower Saxony with them [5].",
            "Er ist dort geboren, lebt aber seit Jahren mit ihnen in Niedersachsen.",
            "",
        ),
        # So are a noun at the beginning of a sentence, and what the page shortens.
        (
            "Sein Ziel war damals ein Gewicht von 82 Kilogramm [5].",
            "Za cel postawił sobie końcową wagę, 82 kilogramy.",
            "",
        ),
        (
            "Pro Portion sind es 452 Kalorien, und viele Kunden mögen das [5].",
            "Each of the portions has 452 calories and is liked.",
            "",
        ),
        ("It is held in Elkton, Maryland, and in New Jersey [5].", "In Elkton, MD, and Salem, NJ: the show.", ""),
        ("It is held in Elkton, Delaware, every autumn [5].", "In Elkton, MD: the show.", "Delaware: not on [5]"),
        (
            "NerdWallet compared the cities and ranked them [5].",
            "WalletHub compared the cities and ranked them.",
            "NerdWallet: not on [5]",
        ),
        (
            "Sie nahmen zu den Beschwerden von 23 Personen Stellung [5].",
            "They answered the complaints of 23 persons there.",
            "",
        ),
        (
            "Most Americans and most of the LEDs stay where they are [5].",
            "In the U.S. people stay, and so does each LED.",
            "",
        ),
    ],
)
def test_G14_only_what_contradicts_the_page_with_certainty_is_questioned(
    text: str, page: str, missing: str, book: SourceBook
) -> None:
    book.add("https://forms.test/", "Forms", read=True, text=page)
    assert marked(text, book)[1][0].missing == missing


def test_a_page_that_only_might_say_it_loses_to_another_page_of_the_turn_that_does(book: SourceBook) -> None:
    book.add("https://moon.test/", "فوهة", read=True, text="أُطلق اسمه على فوهة قمرية عام ١٩٧٦ قطرها ٣١ كيلومتراً.")
    text = "Man darf sechs Bücher für 21 Tage ausleihen [5]."
    assert marked(text, book)[1][0].missing == ""
    book.add("https://library.test/", "ספרייה", read=True, text="אפשר לשאול עד 6 ספרים ל-21 יום, עם הארכה אחת.")
    assert marked(text, book)[1][0].missing == "this is not on [5]; [6] has it"
    book.add("https://team.test/", "Hertha", read=True, text="Preetz stieg mit seiner Mannschaft dreimal auf.")
    book.add("https://shop.test/", "Laden", read=True, text="Der Preis für alle drei Bücher ist noch nicht bekannt.")
    text = "Michael Preetz was promoted three times as a player [7]."
    assert marked(text, book)[1][0].missing == "", "Preis only sounds like it"


def test_G11_sources_come_by_their_first_use_and_then_those_read_besides(book: SourceBook) -> None:
    order = [source.number for source in cited("Deep [2], tall [1?] and [2].", book.all)]
    assert order == [2, 1, 3]


def test_what_a_book_keeps_is_bounded() -> None:
    book = SourceBook()
    for number in range(12):
        book.add(f"https://a.test/{number}", text=f"{number}" * (SOURCE_CHARS + 5))
    book.note(1, "more")
    assert len(book.text(1)) == SOURCE_CHARS
    assert sum(len(book.text(number)) for number in range(1, 13)) == BOOK_CHARS
    assert book.text(99) == ""


_PIECES = st.sampled_from(
    [
        "[1]",
        "[2, 3]",
        "【1】",
        "`",
        "```\n",
        "“",
        "”",
        '"',
        "王伟说",
        "1,204",
        "2024-05-03",
        "5 May",
        "万",
        "🐼",
        "\n",
        " ",
        ".",
        "。",
    ]
)


@given(st.lists(_PIECES | st.text(max_size=4), max_size=25), st.lists(_PIECES | st.text(max_size=4), max_size=25))
def test_G13_judging_takes_nothing_out_whatever_is_written(answer: list[str], page: list[str]) -> None:
    book = SourceBook()
    book.add("https://a.test/", read=True, text="".join(page))
    text = "".join(answer)
    shown, _ = marked(text, book)
    left = iter(shown)
    signs = (sign for sign in text if not sign.isspace() and sign not in "[]【】†,;，、–-0123456789")
    assert all(sign in left for sign in signs), "every sign of the answer is there, in order"


def test_G14_a_giant_hostile_page_is_judged_within_seconds() -> None:
    for piece in ("1" * 400, "](((((", "王", "“a", "may ", "In 2020 the 12 million Foo Bar rose. "):
        book = SourceBook()
        book.add("https://a.test/", read=True, text=piece * (300_000 // len(piece)))
        started = time.process_time()
        marked("In 2024 “it rose to a new height today” by Foo Bar to 12 million [1]. 王伟说3次 [1].", book)
        assert time.process_time() - started < 8, piece


def test_G14_an_answer_without_an_end_is_judged_as_soon_as_another(book: SourceBook) -> None:
    started = time.process_time()
    for piece in ("三百", "1:2 ", "may ", "“so they say” ", "[a](http://b.test/ ", "```\n\n```\n"):
        assert marked(f"{piece * 20_000}三百件[3]。", book)[1][0].missing, piece
    assert time.process_time() - started < 30


class Reads(FakeTool):
    """Reads the page of the tower."""

    async def run(self, args: QueryArgs, context: object) -> ToolResult:
        page = context.sources.add("https://merrow.test/tower", "Lookout tower", read=True)  # type: ignore[attr-defined]
        return ToolResult(TOWER, sources=(page,))


READ = Call("web_fetch", {"url": "https://merrow.test/tower"})
PAGE = Source(1, "https://merrow.test/tower", "Lookout tower", read=True)


async def test_G14_what_was_streamed_is_final_and_the_record_keeps_the_words_and_the_findings() -> None:
    answer = "It is 1,204 feet tall [1] and 900 years old [1], says a guide [5]. See https://made.up/x.\n\nBye."
    wanted = (
        "It is 1,204 feet tall [1] and 900 years old [1?], says a guide [5?]. See https://made.up/x (not read).\n\nBye."
    )
    provider = ScriptedProvider([READ, answer])
    async with agent(provider, Reads("web_fetch")) as box:
        finished = await box.ask("how tall?")
        streamed = "".join(item.text for item in box.of(TextDelta))
        kept = [item for item in await box.history() if isinstance(item, AssistantMessage)]
        found = await box.loop.citations("terminal:me")
    assert finished.text == streamed == wanted
    assert [one.missing for one in finished.citations] == [
        "",
        "900 years: not on [1]",
        "no source of this answer has the number 5",
    ]
    assert finished.citations[0].passage.startswith("It is 1,204 feet tall")
    assert finished.sources == (PAGE,)
    assert kept[-1].text == answer, "the record keeps the model's own words"
    assert kept[-1].citations == found == finished.citations


@pytest.mark.parametrize("revisable", [True, False])
async def test_G14_where_the_text_can_still_change_the_model_mends_the_answer_once(revisable: bool) -> None:
    provider = ScriptedProvider([READ, "It is 1,402 feet tall [1].", "It is 1,204 feet tall [1]."])
    async with agent(provider, Reads("web_fetch")) as box:
        finished = await box.ask("how tall?", revisable=revisable)
        kept = [item for item in await box.history() if isinstance(item, AssistantMessage) and item.text]
    if revisable:
        assert finished.text == kept[-1].text == "It is 1,204 feet tall [1]."
        asked = provider.requests[-1].messages[-1].text
        assert "1,402 feet: not on [1], which has 1,204 feet" in asked
        assert "It is 1,204 feet tall and made of oak." in asked
    else:
        assert finished.text == "It is 1,402 feet tall [1?]."
        assert len(provider.requests) == 2


async def test_G14_a_mending_that_mends_nothing_leaves_the_answer_as_it_was() -> None:
    provider = ScriptedProvider([READ, "It is 1,402 feet tall [1].", "It is 1,403 feet tall [1]."])
    async with agent(provider, Reads("web_fetch")) as box:
        finished = await box.ask("how tall?", revisable=True)
    assert finished.text == "It is 1,402 feet tall [1?]."


def test_a_written_report_is_held_against_the_pages_that_its_own_list_names(book: SourceBook) -> None:
    report = (
        "The lake is 41 metres deep [1]. The tower is 1,204 feet tall [7], and the lake was dug in 1950 [1]. "
        "Nobody swims there [3].\n\n## Sources\n\n[1] Lake Ostra, https://ostra.test/ (read 2026-01-31)\n"
        "- [7] Tower: https://www.merrow.test/tower\n- [3] Elsewhere, https://else.test/page\n"
    )
    count, wrong = check_report(report, book)
    assert count == 3
    assert [line.partition(":")[0] for line in wrong] == ["[3]", "[1] “and the lake was dug in 1950”"]
    assert "https://else.test/page was not read in this turn" in wrong[0]
    assert check_report("It is 41 metres deep [2].", book) == (1, [])
    assert check_report("It is 41 metres deep [9].", book)[1][0].startswith("[9]: it has no entry in the list")


async def test_what_is_wrong_in_a_written_report_is_told_to_the_model_and_what_stays_wrong_to_the_person(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tides.md"

    class Writes(FakeTool):
        def effects(self, arguments: object, context: object) -> tuple[Effect, ...]:
            return Effect("write", str(file)), Effect("read", str(tmp_path))

        async def run(self, args: QueryArgs, context: ToolContext) -> ToolResult:
            if args.query:
                file.write_text(args.query, encoding="utf-8")
                return ToolResult("Wrote it.", receipt="wrote tides.md")
            return error_result("failed", "Nothing is left to write.")

    class Finds(FakeTool):
        async def run(self, args: QueryArgs, context: ToolContext) -> ToolResult:
            text = "The tide at Dover rises 6.8 metres."
            return ToolResult(f"[1] {text}", sources=(context.sources.add("https://t.test/", "Tides", text=text),))

    right, wrong = "The tide at Dover rises 6.8 metres [1].", "The tide at Dover rises 9 metres [1]."
    for last, noted in ((right, ()), (wrong, ("tides.md: 1 of its citations is not carried by what was read.",))):
        steps = [Call("web_search", {"query": "x"}), *(Call("write_file", {"query": one}) for one in (wrong, ""))]
        provider = ScriptedProvider([*steps, Call("edit_file", {"query": last}), "It is in the file."])
        tools = (Writes(name, access="changes") for name in ("write_file", "edit_file"))
        async with agent(provider, Finds(), *tools) as box:
            box.loop.runner.approvals.policy = Policy(rules=[Rule("allow", "*_file")])
            finished = await box.ask("tides?")
        told = [one.text for one in provider.requests[-1].messages if isinstance(one, ToolMessage)]
        assert "Mend these before you send the file" in told[1]
        assert told[2] == "Error: Nothing is left to write."
        assert ("which carry them" in told[3]) == (last == right)
        assert finished.notes == noted
