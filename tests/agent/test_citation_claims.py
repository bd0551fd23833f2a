"""Which claims keep their marks: right ones in other words, units and languages; wrong ones by one figure or name."""

import pytest

from nanobot.agent.citations.check import check
from nanobot.results import SourceBook

PAGES = {
    "brewery": (
        "Founded in 1987 by the sisters Greta and Moira Pell, Harrow Ales brews 14,200 hectolitres a year in a mill. "
        "The pale ale has 4.8% alcohol and 38 bitterness units; the porter has 6.1%. A bottle sells at £3.40. "
        "Brewing takes "
        "three weeks, of which the beer rests for twelve days. Tours start at 11 am and 3 pm on Saturdays."
    ),
    "town": (
        "Tolby is a market town of 23,400 people. Its weekly market is held on Thursdays. The castle, begun in 1204, "
        "is open "
        "from 10:00 to 17:30. Trains to Kingsmoor leave every half hour. The mill museum is free for children under 12."
    ),
    "ports": (
        "Cargo by port (thousand tonnes)\n\n| Port | 2022 | 2023 |\n|---|---|---|\n| Ostmark | 18,420 | 19,105 |\n"
        "| Linden | 7,312 | 6,980 |\n"
    ),
    "race": (
        "Abel Tesema won in 2:09:14, ahead of Jonas Frick (2:09:41). Ruth Cheboi was the fastest woman. "
        "11,200 runners started and 10,846 finished. Referee: Paul Brandt. It was 7 °C at the start."
    ),
    "siege": (
        "The siege began in June 1643, when 4,000 Swedish soldiers under Colonel Nils Brandt surrounded the town. "
        "After 71 days food ran out, and Stoll surrendered. A quarter of the inhabitants had died."
    ),
    "vulkan": (
        "Der Harnos ist ein 2.418 Meter hoher Vulkan. Der letzte Ausbruch dauerte elf Tage. "
        "Das Observatorium wurde 1936 von "
        "Ernst Maibach gegründet. Die Fähre vom Festland braucht zweieinhalb Stunden."
    ),
    "pont": "Le pont mesure 187 mètres et compte treize arches. La restauration de 2019 a coûté 4,6 millions d'euros.",
    "museum": "临河博物馆成立于1958年,馆藏文物4.6万件。新馆由建筑师陈立群设计,占地2.8公顷。末班车23点。海拔1040米。",
    "line": "みなと線は3.4キロ延伸される。1日あたり約7万2千人の利用を見込む。社長の佐藤健一は喜びを述べた。",
}
NUMBER = {name: number for number, name in enumerate(PAGES, 1)}


def kept(claim: str, name: str) -> bool:
    """Whether the mark of a claim stays that cites the page `name`, all pages having been read."""
    book = SourceBook()
    for page, text in PAGES.items():
        book.add(f"https://{page}.test/", page, read=True, text=text)
    return not check(f"{claim} [{NUMBER[name]}].", book).removed


RIGHT = [
    ("Two sisters set the company up in the late 1980s", "brewery"),
    ("It makes about 1.4 million litres of beer annually", "brewery"),
    ("You can join a tour at 15:00", "brewery"),
    ("The castle closes at half past five", "town"),
    ("Youngsters need not pay in the museum", "town"),
    ("Ostmark handled 19.1 million tonnes in 2023", "ports"),
    ("The winner needed 2 hours, 9 minutes and 14 seconds", "race"),
    ("Frick finished 27 seconds behind", "race"),
    ("354 runners did not finish", "race"),
    ("It was chilly, only 7 degrees", "race"),
    ("One in four inhabitants perished", "siege"),
    ("25 % of the people of the town lost their lives", "siege"),
    ("The attackers were led by Nils Brandt", "siege"),
    ("Der Berg ist gut 2,4 km hoch", "vulkan"),
    ("Die Überfahrt dauert 2,5 Stunden", "vulkan"),
    ("Les travaux de 2019 ont coûté 4,6 M€", "pont"),
    ("Il compte 13 arches", "pont"),
    ("该馆收藏文物46000件", "museum"),
    ("占地28000平方米", "museum"),
    ("末班车是晚上11点", "museum"),
    ("新馆的设计师是陈立群", "museum"),
    ("1日約72,000人が使う見通しだ", "line"),
    ("延伸区間は3.4kmである", "line"),
    ("The museum was founded in 1958", "museum"),
]


@pytest.mark.parametrize(("claim", "name"), RIGHT)
def test_G14_a_right_claim_in_other_words_keeps_its_mark(claim: str, name: str) -> None:
    assert kept(claim, name)


WRONG = [
    ("A bottle sells at £3.60", "brewery", "another price"),
    ("The beer rests for twenty days", "brewery", "another number in words"),
    ("The pale ale has 6.1% alcohol", "brewery", "the figure of something else in the same sentence"),
    ("Harrow Ales was founded by Greta and Moira Bell", "brewery", "another family name"),
    ("The market is held on Thursdays", "brewery", "said by another page"),
    ("The market is held on Fridays", "town", "another day"),
    ("Linden handled 19.1 million tonnes in 2023", "ports", "the figure of another row"),
    ("The referee was Jonas Frick", "race", "a name that stands elsewhere on the page"),
    ("Abel Tesema won in a time of 2:09:41", "race", "another's time"),
    ("The besieging soldiers were Danish", "siege", "another nation"),
    ("Der letzte Ausbruch dauerte vierzehn Tage", "vulkan", "another number in German"),
    ("Gegründet wurde das Observatorium von Karl Maibach", "vulkan", "another given name"),
    ("Il compte quinze arches", "pont", "another number in French"),
    ("新馆的设计师是王建华", "museum", "another person in Chinese"),
    ("海拔1400米", "museum", "another figure in Chinese"),
    ("社長は佐々木明氏です", "line", "another person in Japanese"),
    ("延伸区間は5.4kmである", "line", "another figure in Japanese"),
]


@pytest.mark.parametrize(("claim", "name", "why"), WRONG, ids=[row[2] for row in WRONG])
def test_G14_a_claim_loses_its_mark_for_what_its_source_gives_otherwise(claim: str, name: str, why: str) -> None:
    assert not kept(claim, name), why
