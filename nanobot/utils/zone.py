"""The time zone that a person's clock shows."""

import os
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_LOCALTIME = Path("/etc/localtime")
_FAULTS = (ZoneInfoNotFoundError, ValueError, OSError)


def zone_of(name: str = "", env: Mapping[str, str] | None = None, localtime: Path = _LOCALTIME) -> tzinfo:
    """The zone of that IANA name; for an empty one that of the system: TZ, else what `localtime` is; UTC at last.

    `localtime` is the file that Linux and macOS keep the zone in, a link into the database of zones or a copy
    (localtime(5)).
    """
    known = name or (os.environ if env is None else env).get("TZ", "").removeprefix(":")
    if not known and localtime.is_symlink():
        known = str(localtime.resolve()).rpartition("zoneinfo/")[2]
    try:
        if known and not known.startswith("/"):
            return ZoneInfo(known)
        with Path(known or localtime).open("rb") as file:
            return ZoneInfo.from_file(file)
    except _FAULTS:
        return UTC
