"""What is said of a database of several workers, as somebody reads it who knows Chinese alone."""

import psycopg
import pytest

from nanobot.cluster.postgres import Postgres, place_of
from nanobot.errors import UsageError
from nanobot.utils.translation import speaking
from tests.fakes.chinese import english_left

TROUBLES = (
    TimeoutError(),
    psycopg.OperationalError("password authentication failed"),
    psycopg.OperationalError("server away"),
    psycopg.ProgrammingError("wrong"),
)


async def test_what_is_wrong_with_a_database_is_told_in_chinese() -> None:
    async def prepare(_db: object) -> None:
        return

    with speaking("zh"):
        database = Postgres("postgresql://me@db.example/nano", "telegram:1", prepare)
        told: list[str] = []
        database.telling(told.append)
        for error in TROUBLES:
            database.away(error)
            database.back()
        with pytest.raises(UsageError) as caught:
            place_of("mysql://")
    told.append(str(caught.value))
    assert len(told) == 9
    assert [left for one in told for left in english_left(one, "server away")] == []
    assert "数据库 nano（db.example:5432） 恢复应答。" in told
