"""Questions in other words than the page has: the subject stands in its title, the answer in a later paragraph."""

from nanobot.providers.lookup.question import PageText, understand
from nanobot.providers.lookup.quotes import Evidence, Quote

PAGES: dict[str, str] = {
    "Quarnford Marsh nature reserve": (
        "Quarnford Marsh covers 212 hectares of reed and wet meadow east of Dallow. "
        "It was bought by public subscription in 1961.\n\n"
        "Bitterns boom here from February. The hide at the north end is reached by a boardwalk of oak.\n\n"
        "Konik ponies were brought from Poland to keep the willows down.\n\n"
        "Mosquitoes are fierce after rain; long sleeves are a good idea.\n\n"
        "The reserve is financed by peat-free compost sold at the gate and by "
        "the membership dues of two thousand friends.\n\n"
    ),
    "Frostline 40 ice cream machine": (
        "The Frostline 40 makes 1.4 litres of ice cream in one run. "
        "Its bowl needs no freezing beforehand, because a compressor cools it.\n\n"
        "Fill the bowl no more than two thirds, as the mass swells while it is stirred.\n\n"
        "A run lasts between 30 and 45 minutes, sorbets being quicker.\n\n"
        "Never put the paddle into the dishwasher: it warps above 60 degrees.\n\n"
        "If the motor squeaks, rub a drop of food-grade grease on the shaft.\n\n"
        "The appliance draws 150 watts and weighs as much as a full beer crate.\n\n"
    ),
    "Stourmere canal boat race": (
        "The Stourmere race is rowed each Whit Monday between the two breweries, a distance of 3.1 kilometres.\n\n"
        "Crews of seven use coal barges built before 1930, which must carry a live goose.\n\n"
        "The course record of 19 minutes and 4 seconds was set by the bakers in 1988.\n\n"
        "Whoever touches the bank has to sing a verse before going on.\n\n"
        "In 2001 the race was called off on account of foot-and-mouth disease.\n\n"
        "The trophy is a dented kettle that belonged to a lock keeper, Enoch Dale.\n\n"
    ),
    "Das Heimatmuseum Kressbach": (
        "Das Heimatmuseum Kressbach zeigt in einer alten Färberei Trachten, Webstühle und eine Schulstube von 1910.\n\n"
        "Geöffnet ist am ersten Sonntag im Monat zwischen 14 und 17 Uhr; Schulklassen kommen nach Absprache.\n\n"
        "Das wertvollste Stück ist ein Brautkleid aus Papier, das die Näherin Walburga Imhof 1947 fertigte.\n\n"
        "Ein Aufzug fehlt, der Speicher ist nur über eine steile Treppe zu erreichen.\n\n"
        "Eintritt wird nicht verlangt, im Flur steht ein Sparschwein.\n\n"
        "2013 drang Grundwasser in den Keller; siebzig Bilder mussten nach Ulm zum Trocknen.\n\n"
    ),
    "La course des garçons de café de Bellerive": (
        "La course des garçons de café de Bellerive se dispute le dernier dimanche d'avril sur huit cents mètres.\n\n"
        "Chaque concurrent porte un plateau avec trois verres pleins ; une goutte renversée vaut dix secondes.\n\n"
        "Le tenant du titre, Youssef Amrani, sert au Petit Phare depuis onze ans.\n\n"
        "Le vainqueur reçoit son poids en langoustines.\n\n"
        "En 2020 l'épreuve fut annulée en raison de l'épidémie.\n\n"
    ),
    "El horno comunal de Valdecañas": (
        "El horno comunal de Valdecañas se enciende dos veces al mes con leña de encina.\n\n"
        "Cada familia marca sus hogazas con un sello de madera para distinguirlas.\n\n"
        "Una hogaza pesa kilo y medio y aguanta diez días sin ponerse dura.\n\n"
        "La llave la guarda Fermina Osorio en la casa de enfrente.\n\n"
        "El tejado se vino abajo con la nevada de 1985 y lo rehicieron los quintos.\n\n"
    ),
    "Il mulino di Valtorbida": (
        "Il mulino di Valtorbida macina castagne da quattro secoli. Le pale sono di larice.\n\n"
        "La mugnaia attuale, Ornella Sacchi, ha imparato il mestiere dalla nonna.\n\n"
        "Ogni autunno passano sotto la pietra ottanta quintali di frutti secchi.\n\n"
        "Nel 1944 i tedeschi vi nascosero una radio.\n\n"
        "Un chilo di farina costa nove euro e si trova soltanto in bottega.\n\n"
    ),
    "湯ノ沢鉄道": (
        "湯ノ沢鉄道は温泉町と港を結ぶ全長18キロの軽便鉄道だった。\n\n"
        "開通は1911年で、最初の機関車はドイツから輸入された。\n\n"
        "1938年の豪雨で橋が流され、半年間運休した。\n\n"
        "バスとの競争に敗れ、1964年に廃止された。\n\n"
        "跡地は自転車道になり、駅舎は喫茶店として使われている。\n\n"
    ),
    "柳河竹编博物馆": (
        "柳河竹编博物馆位于旧粮仓内,2009年对公众开放。\n\n"
        "馆内收藏三百二十件竹器,最古老的是一只清代鱼篓。\n\n"
        "每逢周一闭馆,成人票十五元,学生半价。\n\n"
        "周末由老匠人周德福教游客编篮子。\n\n"
        "2018年洪水淹没了地下室,四十件藏品受损。\n\n"
    ),
    "Фабрика валенок в Заречье": (
        "Фабрика валенок в Заречье открылась в 1906 году в бывшей конюшне.\n\n"
        "За год она выпускает сорок тысяч пар. Шерсть привозят из Калмыкии.\n\n"
        "Во время войны здесь шили рукавицы для лётчиков.\n\n"
        "В 2003 году цех сгорел из-за старой проводки, но через год его восстановили.\n\n"
        "Экскурсии проводит внучка основателя, Лидия Громова.\n\n"
    ),
    "Merkblatt der Stadtbücherei Altenrode": (
        "Die Stadtbücherei Altenrode hat dienstags bis samstags von 10 bis 18 Uhr geöffnet.\n\n"
        "Bücher können vier Wochen entliehen werden, Filme eine Woche.\n\n"
        "Wer zu spät zurückgibt, zahlt 50 Cent je Band und Woche.\n\n"
        "Der Ausweis kostet 15 Euro im Jahr; Kinder und Studierende zahlen nichts.\n\n"
        "Im Lesesaal sind Getränke mit Deckel erlaubt. Drucken kostet 10 Cent je Seite.\n\n"
    ),
}

#: A page, a question about it in other words than its own, and what the answer has to hold.
QUESTIONS = (
    ("Quarnford Marsh nature reserve", "Why are there ponies at Quarnford Marsh?", "willows"),
    ("Quarnford Marsh nature reserve", "How does Quarnford Marsh get its money?", "compost"),
    ("Quarnford Marsh nature reserve", "What area does the Quarnford reserve have?", "212 hectares"),
    ("Quarnford Marsh nature reserve", "What clothing is recommended at Quarnford Marsh?", "long sleeves"),
    ("Frostline 40 ice cream machine", "What can I do about squeaking in the Frostline 40?", "grease"),
    ("Frostline 40 ice cream machine", "How full may the bowl of the Frostline 40 be?", "two thirds"),
    ("Frostline 40 ice cream machine", "Can the paddle of the Frostline 40 be cleaned in a machine?", "dishwasher"),
    ("Frostline 40 ice cream machine", "What is the power consumption of the Frostline 40?", "150 watts"),
    ("Stourmere canal boat race", "Who holds the fastest time in the Stourmere race?", "bakers"),
    ("Stourmere canal boat race", "What is the penalty for hitting the side in the Stourmere race?", "sing"),
    ("Stourmere canal boat race", "Why was there no Stourmere race in 2001?", "foot-and-mouth"),
    ("Stourmere canal boat race", "What do the victors of the Stourmere race receive?", "kettle"),
    ("Stourmere canal boat race", "What animal has to be on board in the Stourmere race?", "goose"),
    ("Das Heimatmuseum Kressbach", "Wer hat das Papierkleid im Museum Kressbach genäht?", "Walburga Imhof"),
    ("Das Heimatmuseum Kressbach", "Kann man das Heimatmuseum Kressbach mit dem Rollstuhl besuchen?", "Aufzug fehlt"),
    ("Das Heimatmuseum Kressbach", "Was kostet der Besuch im Heimatmuseum Kressbach?", "nicht verlangt"),
    ("Das Heimatmuseum Kressbach", "Was passierte 2013 im Heimatmuseum Kressbach?", "Grundwasser"),
    ("La course des garçons de café de Bellerive", "Que gagne le premier de la course de Bellerive ?", "langoustines"),
    ("La course des garçons de café de Bellerive", "Où travaille Youssef Amrani ?", "Petit Phare"),
    (
        "La course des garçons de café de Bellerive",
        "Quelle est la pénalité à la course des garçons de café ?",
        "dix secondes",
    ),
    (
        "La course des garçons de café de Bellerive",
        "Pourquoi la course de Bellerive n'a-t-elle pas eu lieu en 2020 ?",
        "épidémie",
    ),
    ("El horno comunal de Valdecañas", "¿Cómo reconocen los vecinos su pan en Valdecañas?", "sello"),
    ("El horno comunal de Valdecañas", "¿Quién tiene la llave del horno de Valdecañas?", "Fermina Osorio"),
    ("El horno comunal de Valdecañas", "¿Con qué combustible se calienta el horno de Valdecañas?", "encina"),
    ("El horno comunal de Valdecañas", "¿Cuánto dura el pan de Valdecañas?", "diez días"),
    ("Il mulino di Valtorbida", "Chi gestisce oggi il mulino di Valtorbida?", "Ornella Sacchi"),
    ("Il mulino di Valtorbida", "Di che legno è la ruota del mulino di Valtorbida?", "larice"),
    ("Il mulino di Valtorbida", "Quanto si paga la farina di Valtorbida?", "nove euro"),
    ("湯ノ沢鉄道", "湯ノ沢鉄道はなぜ廃止されましたか？", "バスとの競争"),
    ("湯ノ沢鉄道", "湯ノ沢鉄道の長さはどれくらいですか？", "18キロ"),
    ("湯ノ沢鉄道", "湯ノ沢鉄道の駅は今何になっていますか？", "喫茶店"),
    ("柳河竹编博物馆", "柳河竹编博物馆星期几不开门?", "周一"),
    ("柳河竹编博物馆", "谁在柳河竹编博物馆教编篮子?", "周德福"),
    ("柳河竹编博物馆", "柳河竹编博物馆的藏品有多少件?", "三百二十件"),
    ("Фабрика валенок в Заречье", "Откуда берут шерсть на фабрике в Заречье?", "Калмыкии"),
    ("Фабрика валенок в Заречье", "Что делали на фабрике в Заречье в войну?", "рукавицы"),
    ("Фабрика валенок в Заречье", "Почему случился пожар на фабрике валенок в Заречье?", "проводки"),
    ("Фабрика валенок в Заречье", "Кто водит экскурсии по фабрике валенок?", "Лидия Громова"),
    ("Merkblatt der Stadtbücherei Altenrode", "Wie hoch ist die Mahngebühr der Stadtbücherei Altenrode?", "50 Cent"),
    ("Merkblatt der Stadtbücherei Altenrode", "Wie lange ist die Leihfrist für Filme in Altenrode?", "eine Woche"),
    ("Merkblatt der Stadtbücherei Altenrode", "Was kostet der Büchereiausweis in Altenrode?", "15 Euro"),
)


def asked(question: str, *titles: str) -> list[Quote]:
    pages = [PageText(at, title, f"https://{at}.test/", PAGES[title]) for at, title in enumerate(titles, start=1)]
    ((topic, kind),) = understand(question).topics
    return Evidence(pages).quotes(topic, kind)


def test_the_paragraph_with_the_answer_is_mostly_quoted_though_it_does_not_name_the_subject() -> None:
    shown, of_its_page = 0, 0
    for title, question, answer in QUESTIONS:
        others = [other for other in PAGES if other != title][:2]
        quotes = asked(question, others[0], title, others[1])
        shown += any(answer in quote.text for quote in quotes)
        of_its_page += quotes[0].page.title == title
    assert of_its_page == len(QUESTIONS)
    assert shown / len(QUESTIONS) >= 0.7


def test_a_question_that_one_sentence_answers_in_full_gets_little_else() -> None:
    quotes = asked("Which animal must the crews of the Stourmere race carry on their coal barges?", *PAGES)
    assert "goose" in quotes[0].text
    assert sum(len(quote.text) for quote in quotes) < 400


def test_a_question_about_the_subject_alone_gets_what_the_page_begins_with() -> None:
    assert "covers 212 hectares" in asked("What is Quarnford Marsh?", *PAGES)[0].text


def test_a_page_that_only_shares_common_words_of_the_question_is_not_quoted() -> None:
    quotes = asked("How much does a machine like the Frostline 40 weigh?", *PAGES)
    assert {quote.page.title for quote in quotes} == {"Frostline 40 ice cream machine"}


def test_a_subject_that_stands_in_the_title_alone_finds_its_page() -> None:
    page = PageText(1, "Setting up the Ombro", "https://o.test/", "Hold the button until the owl appears, then let go.")
    assert Evidence([page]).quotes("switch Ombro", "steps")
