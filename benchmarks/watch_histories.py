"""Page histories for watches: what is told of true changes, and what of noise.

`python -m benchmarks.watch_histories` prints found changes and false alarms; `--kept-back` those of the kinds that the
comparison was not made with. Every page is looked at each hour; a look that finds something looks again.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from msgspec import Struct

from nanobot.watch.compare import Memory, differences, learnt, news
from nanobot.watch.target import blocks_of

BEGIN = datetime(2026, 3, 2, 0, 17, tzinfo=UTC)
LOOKS, SEEDS = 72, (1, 2, 3)
WORDS = (
    "harbour bridge council library tram garden festival school market theatre river tower island summer winter museum "
    "budget traffic energy water forest station airport hospital orchestra painter bakery football village mountain"
).split()
ADS = (
    "Fly to Lisbon from 49 euros",
    "Try the new mattress for a hundred nights",
    "Insurance that you understand",
    "Shoes for every weather, now cheaper",
    "Learn Spanish in three weeks",
)


class PageLook(Struct, frozen=True):
    """A page at one time: as it is, as a second request within seconds finds it, and what has truly changed since the
    look before: words of which one must be quoted."""

    text: str
    again: str
    true: tuple[str, ...] = ()


class HistoryResult(Struct):
    """How many true changes there were, how many of them were told in time, and what was told without one."""

    true: int = 0
    found: int = 0
    false: int = 0
    examples: list[str] = []

    def add(self, other: "HistoryResult") -> None:
        self.true += other.true
        self.found += other.found
        self.false += other.false
        self.examples = [*self.examples, *other.examples][:20]


class Site:
    """One page over time. `chance` decides what happens on it, `request` what differs at each request."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.request = random.Random(seed + 1_000)
        self.number = 0

    def phrase(self, words: int = 5) -> str:
        """Some words that never come twice."""
        self.number += 1
        return f"{' '.join(self.chance.sample(WORDS, words)).capitalize()} case {_spelled(self.number)}"

    def ad(self) -> str:
        return self.request.choice(ADS)

    def happens(self, look: int, per_look: float) -> bool:
        """Whether something truly changes; at the very first look nothing can."""
        return look > 0 and self.chance.random() < per_look


def _spelled(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


def _ago(hours: int) -> str:
    return f"{hours} hours ago" if hours < 24 else f"{hours // 24} days ago"


Lines = Callable[[Site, int, datetime], tuple[Callable[[], list[str]], tuple[str, ...]]]


def shop() -> Lines:
    state, stock = {"price": 4900, "views": 1_200}, ["In stock"]

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        state["views"] = state["views"] + site.chance.randint(1, 40)
        if site.happens(look, 0.05):
            state["price"] = state["price"] + site.chance.choice((-300, -250, 400))
            true.append(f"{state['price'] / 100:.2f}")
        if site.happens(look, 0.04):
            stock[0] = "Sold out" if stock[0] == "In stock" else "In stock"
            true.append(stock[0])
        return (
            lambda: [
                "# Reading lamp Aurora",
                f"Price: {state['price'] / 100:.2f} € including tax",
                stock[0],
                f"{state['views']} people have looked at this",
                f"{site.request.randint(2, 30)} people are viewing this right now",
                "## Others bought",
                f"- {site.request.choice(ADS)}",
                f"- {site.request.choice(WORDS).capitalize()} lamp, {site.request.randint(19, 99)}.00 €",
                "## Description",
                "A lamp with a warm light and a heavy foot, made of oak.",
                f"© {at:%Y} Lamps and more",
            ],
            tuple(true),
        )

    return lines


def blog() -> Lines:
    posts: list[tuple[str, int]] = []
    comments: dict[str, int] = {}

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        while len(posts) < 4:
            posts.append((site.phrase(), -24 * len(posts)))
        if site.happens(look, 0.04):
            posts.insert(0, (site.phrase(), look))
            true.append(posts[0][0])
        for title, _ in posts[:2]:
            comments[title] = comments.get(title, 0) + site.chance.randint(0, 2)
        shown = [
            (f"## {title}", f"{_ago(look - when)}, {comments.get(title, 0)} comments") for title, when in posts[:5]
        ]
        return (
            lambda: [
                "# Notes from the harbour",
                *(line for pair in shown for line in pair),
                f"Sponsored: {site.ad()}",
                f"Today is {at:%A}, {at.day} {at:%B %Y}",
                f"Visitor no. {4000 + look * 7}",
            ],
            tuple(true),
        )

    return lines


def news_front() -> Lines:
    heads: list[str] = []

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        while len(heads) < 10:
            heads.append(site.phrase())
        if site.happens(look, 0.4):
            heads.insert(0, site.phrase())
            true.append(heads[0])

        def page() -> list[str]:
            most_read = heads[1:6]
            site.request.shuffle(most_read)
            return [
                "# The Daily Tower",
                f"Last updated {at:%H:%M}",
                *(f"## {head}" for head in heads[:12]),
                f"Advertisement: {site.ad()}",
                "# Most read",
                *(f"- {head} ({site.request.randint(200, 900)} readers)" for head in most_read),
            ]

        return page, tuple(true)

    return lines


def status_page() -> Lines:
    state = {"incident": ""}

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        if site.happens(look, 0.06):
            state["incident"] = "" if state["incident"] else f"Incident: {site.phrase(3)}"
            true.append(state["incident"] or "Incident")
        return (
            lambda: [
                "# Status of the cloud",
                "All systems operational" if not state["incident"] else "Partial outage",
                *([state["incident"]] if state["incident"] else []),
                f"API: {site.request.randint(80, 140)} ms",
                f"Storage: {site.request.randint(20, 60)} ms",
                f"Uptime in the last 90 days: 99.{90 + look % 9} %",
                f"Checked at {at:%Y-%m-%d %H:%M:%S} UTC",
            ],
            tuple(true),
        )

    return lines


def releases() -> Lines:
    versions = [("2.3.0", -200), ("2.2.1", -900)]

    def lines(site: Site, look: int, _at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        if site.happens(look, 0.04):
            major, minor, patch = versions[0][0].split(".")
            name = f"{major}.{int(minor) + 1}.0" if site.chance.random() < 0.5 else f"{major}.{minor}.{int(patch) + 1}"
            versions.insert(0, (name, look))
            true.append(name)
        stars = 18_200 + look * 3
        shown = [(f"## v{name}", f"released this {_ago(look - when)}") for name, when in versions[:4]]
        return (
            lambda: [
                "# tower/lamp releases",
                f"{stars} stars",
                f"{stars // 9} forks",
                *(line for pair in shown for line in pair),
                "Assets 4",
                f"{site.request.randint(10, 99)} contributors were here",
            ],
            tuple(true),
        )

    return lines


def timetable() -> Lines:
    minutes, platforms = [12] * 12, ["4"] * 12

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        if site.happens(look, 0.05):
            row = site.chance.randrange(12)
            minutes[row] = (minutes[row] + site.chance.choice((3, 7, 11))) % 60
            true.append(f"{6 + row:02}:{minutes[row]:02}")
        if site.happens(look, 0.03):
            row = site.chance.randrange(12)
            platforms[row] = site.chance.choice([one for one in "123456" if one != platforms[row]])
            true.append(f"platform {platforms[row]}")
        rows = [*zip(range(6, 18), minutes, platforms, strict=True)]
        return (
            lambda: [
                "# Departures",
                f"As of {at:%d.%m.%Y %H:%M}",
                *(f"| {hour:02}:{minute:02} | Harbour | platform {platform} |" for hour, minute, platform in rows),
                f"{site.request.randint(100, 999)} visitors online",
            ],
            tuple(true),
        )

    return lines


def forum() -> Lines:
    threads: list[str] = []
    replies: dict[str, int] = {}

    def lines(site: Site, look: int, _at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        while len(threads) < 8:
            threads.append(site.phrase(4))
        if site.happens(look, 0.08):
            threads.insert(0, site.phrase(4))
            true.append(threads[0])
        for thread in threads:
            replies[thread] = replies.get(thread, 3) + site.chance.randint(0, 2)
        order = threads[:9]
        site.chance.shuffle(order)  # the last answered one comes first
        shown = [f"- {one} · {replies[one]} replies · last {site.chance.randint(1, 50)} minutes ago" for one in order]
        return (
            lambda: ["# Repair forum", *shown, f"Users online: {site.request.randint(20, 90)}", f"Ad: {site.ad()}"],
            tuple(true),
        )

    return lines


def documentation() -> Lines:
    body = ["Install it with one command.", "Set the key `timeout` to 30 seconds.", "Start it with `tower run`."]

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        if site.happens(look, 0.05):
            place = site.chance.randrange(len(body))
            body[place] = f"{site.phrase(6)}."
            true.append(body[place])
        shown = [*body]
        return (
            lambda: [
                "# Manual",
                *shown,
                f"Built on {at:%Y-%m-%d}",
                f"Page rendered in {site.request.randint(8, 99)} ms",
            ],
            tuple(true),
        )

    return lines


def job_board() -> Lines:
    jobs: list[tuple[str, int]] = []

    def lines(site: Site, look: int, _at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        while len(jobs) < 6:
            jobs.append((site.phrase(3), -len(jobs) * 9))
        if site.happens(look, 0.08):
            jobs.insert(0, (site.phrase(3), look))
            true.append(jobs[0][0])
        if site.happens(look, 0.03):
            true.append(jobs.pop(site.chance.randrange(2, len(jobs)))[0])
        shown = [f"- {name}, posted {_ago(look - when)}" for name, when in jobs]
        return (
            lambda: ["# Jobs", f"{len(jobs)} open positions", *shown, "## Promoted", f"Promoted: {site.ad()}"],
            tuple(true),
        )

    return lines


# Kept back: the comparison was not made with these.


def wiki() -> Lines:
    body: list[str] = []

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        while len(body) < 7:
            body.append(f"{site.phrase(8)}.")
        if site.happens(look, 0.07):
            place = site.chance.randrange(len(body))
            words = body[place].split()
            words[1] = site.chance.choice([one for one in WORDS if one != words[1]])
            body[place] = " ".join(words)
            true.append(body[place])
        shown = [*body]
        edited = at - timedelta(minutes=look % 40)
        return (
            lambda: [
                "# Tower (city)",
                *shown,
                f"This page was last edited on {edited.day} {edited:%B %Y}, at {edited:%H:%M}.",
                f"Your session: {site.request.randrange(16**8):08x}",
                f"Featured picture: {site.request.choice(WORDS)} at dawn",
            ],
            tuple(true),
        )

    return lines


def calendar_page() -> Lines:
    events: list[tuple[str, int]] = []

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        while len(events) < 6:
            events.append((site.phrase(3), 5 + len(events) * 4))
        if site.happens(look, 0.05):
            events.append((site.phrase(3), site.chance.randint(4, 40)))
            true.append(events[-1][0])
        if site.happens(look, 0.04):
            place = site.chance.randrange(len(events))
            events[place] = (events[place][0], events[place][1] + site.chance.randint(1, 9))
            true.append(events[place][0])
        days = sorted(events, key=lambda one: one[1])
        shown = [f"- {BEGIN + timedelta(days=day):%d %b %Y}: {name}" for name, day in days]
        return (
            lambda: [
                "# Calendar",
                f"Today: {at:%a %d %b %Y}, {at:%H:%M}",
                *shown,
                f"Tip of the minute: {site.ad()}",
                f"{site.request.randint(1, 9)} guests are reading",
            ],
            tuple(true),
        )

    return lines


def dashboard() -> Lines:
    state = {"warning": ""}

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        if site.happens(look, 0.06):
            state["warning"] = "" if state["warning"] else f"Warning of {site.phrase(3)}"
            true.append(state["warning"] or "Warning of")
        heat, level = site.chance.randint(-20, 200) / 10, site.chance.randint(180, 420)
        return (
            lambda: [
                "# Weather at the harbour",
                f"Temperature {heat:.1f} °C",
                f"Wind {site.request.randint(5, 40)} km/h",
                f"Water level {level} cm",
                *([state["warning"]] if state["warning"] else []),
                f"Measured {at:%H:%M}",
                "Data without guarantee.",
            ],
            tuple(true),
        )

    return lines


def museum() -> Lines:
    state = {"open": 9, "price": 8}

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        if site.happens(look, 0.04):
            state["open"] = site.chance.choice([hour for hour in (8, 9, 10, 11) if hour != state["open"]])
            true.append(f"von {state['open']} bis")
        if site.happens(look, 0.03):
            state["price"] += 1
            true.append(f"Eintritt: {state['price']} Euro")
        return (
            lambda: [
                "# Stadtmuseum",
                f"Geöffnet von {state['open']} bis 17 Uhr",
                f"Eintritt: {state['price']} Euro",
                f"Stand: {at:%d.%m.%Y}",
                f"{9000 + look * 3} Besucher seit Januar",
                f"zuletzt gesehen vor {site.request.randint(2, 50)} Minuten",
                f"Anzeige: {site.ad()}",
            ],
            tuple(true),
        )

    return lines


def chinese_list() -> Lines:
    goods = {"台灯": 199, "书架": 450, "椅子": 320}

    def lines(site: Site, look: int, at: datetime) -> tuple[Callable[[], list[str]], tuple[str, ...]]:
        true: list[str] = []
        if site.happens(look, 0.06):
            name = site.chance.choice([*goods])
            goods[name] += site.chance.choice((-20, 15, 30))
            true.append(f"{name} {goods[name]} 元")
        shown = [f"- {name} {price} 元" for name, price in goods.items()]
        return (
            lambda: [
                "# 家居商店",
                *shown,
                f"更新时间 {at:%Y}年{at.month}月{at.day}日",
                f"{site.request.randint(2, 50)}分钟前有人购买",
                f"{site.request.randint(100, 900)} 人在看",
                f"广告 {site.ad()}",
            ],
            tuple(true),
        )

    return lines


KINDS: Mapping[str, Callable[[], Lines]] = MappingProxyType(
    {
        "shop": shop,
        "blog": blog,
        "news front": news_front,
        "status page": status_page,
        "releases": releases,
        "timetable": timetable,
        "forum": forum,
        "documentation": documentation,
        "job board": job_board,
    }
)
KEPT_BACK: Mapping[str, Callable[[], Lines]] = MappingProxyType(
    {
        "wiki": wiki,
        "calendar": calendar_page,
        "dashboard": dashboard,
        "museum": museum,
        "shop in Chinese": chinese_list,
    }
)


def history(make: Callable[[], Lines], seed: int) -> Iterator[tuple[datetime, PageLook]]:
    """A page at each of its looks."""
    site, lines = Site(seed), make()
    for look in range(LOOKS):
        at = BEGIN + timedelta(hours=look)
        page, true = lines(site, look, at)
        yield at, PageLook("\n\n".join(page()), "\n\n".join(page()), true)


def judged(make: Callable[[], Lines], seed: int) -> HistoryResult:
    """What a watch tells of one history. A true change counts as found where it is quoted then or at the next look."""
    result, memory = HistoryResult(), Memory()
    open_ones: list[tuple[int, str]] = []
    for look, (at, page) in enumerate(history(make, seed)):
        open_ones = [one for one in open_ones if one[0] >= look - 2] + [(look, words) for words in page.true]
        result.true += len(page.true)
        blocks, again = blocks_of(page.text), blocks_of(page.again)
        second = again if not memory.looks or news(memory, differences(memory.blocks, blocks), at) else None
        memory, change = learnt(memory, blocks, at, second)
        told = [f"{one.old}\n{one.new}" for one in change.differences] if change else []
        hits = [one for one in open_ones if any(one[1] in text for text in told)]
        result.found += len(hits)
        wrong = [text for text in told if not any(words in text for _, words in open_ones)]
        open_ones = [one for one in open_ones if one not in hits]
        if wrong and not hits:
            result.false += 1
            result.examples.append(wrong[0])
    return result


def measured(kinds: Mapping[str, Callable[[], Lines]]) -> Mapping[str, HistoryResult]:
    """The result of each kind of page, over all seeds."""
    found: dict[str, HistoryResult] = {}
    for name, make in kinds.items():
        found[name] = HistoryResult()
        for seed in SEEDS:
            found[name].add(judged(make, seed))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kept-back", action="store_true", help="the kinds that the comparison was not made with")
    parser.add_argument("--examples", action="store_true", help="what was told without a change")
    args = parser.parse_args()
    whole = HistoryResult()
    for name, one in measured(KEPT_BACK if args.kept_back else KINDS).items():
        print(
            f"{name:16} {one.found:3} of {one.true:3} found, {one.false:2} false alarms in {len(SEEDS) * LOOKS} looks"
        )
        for example in one.examples if args.examples else ():
            print("    " + example.replace("\n", " => "))
        whole.add(one)
    share = whole.found / whole.true if whole.true else 1.0
    print(f"{'together':16} {whole.found:3} of {whole.true:3} found ({share:.1%}), {whole.false} false alarms")


if __name__ == "__main__":
    main()
