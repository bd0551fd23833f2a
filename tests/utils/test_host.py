"""Which zone a clock shows."""

from datetime import UTC, datetime
from pathlib import Path

from nanobot.utils.host import zone_of

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


def hour(name: str = "", env: dict[str, str] | None = None, localtime: Path = Path("/nowhere")) -> int:
    return NOON.astimezone(zone_of(name, env or {}, localtime)).hour


def test_a_named_zone_goes_before_the_systems() -> None:
    assert hour("Europe/Paris", {"TZ": "Asia/Tokyo"}) == 14


def test_without_a_name_it_is_the_zone_of_the_system(tmp_path: Path) -> None:
    assert hour(env={"TZ": "Asia/Tokyo"}) == 21
    assert hour(env={"TZ": ":Asia/Tokyo"}) == 21
    link = tmp_path / "localtime"
    (tmp_path / "zoneinfo" / "Europe").mkdir(parents=True)
    (tmp_path / "zoneinfo" / "Europe" / "Paris").touch()
    link.symlink_to(tmp_path / "zoneinfo" / "Europe" / "Paris")
    assert hour(localtime=link) == 14


def test_what_cannot_be_told_is_utc(tmp_path: Path) -> None:
    broken = tmp_path / "localtime"
    broken.write_bytes(b"no zone")
    for name, env, file in (
        ("Mars/Base", {}, broken),
        ("", {"TZ": "CEST-2x"}, broken),
        ("", {}, broken),
        ("../x", {}, broken),
    ):
        assert hour(name, env, file) == 12
