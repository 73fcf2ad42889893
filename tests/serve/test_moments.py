"""Answers as of an earlier epoch, and changes since one: over HTTP and over PostgreSQL's protocol."""

import psycopg
import pytest

import eddyline as el
from eddyline.api.store_tables import Follower
from eddyline.ingest.snapshot import Memo
from eddyline.store import Reader
from tests.serve.conftest import serving
from tests.serve.postgres import shop
from tests.serve.waiting import until


@pytest.fixture
def moved(store):
    """A store with several epochs; the first one that is kept, and the newest."""
    for _ in range(3):
        store.move()
    kept = el.open(store.where).origin.freshness.epoch
    return store.where, kept - 1, kept


def test_http_answers_as_of_an_epoch_and_since_one(moved):
    where, old, new = moved
    then, now = el.open(where, as_of=old), el.open(where)
    with serving(where) as client:
        until(lambda: client.get("readyz").status_code == 200)
        for address in ("answers/visits_by_buyers?", "answer?sql=visits_by_buyers&"):
            shown = client.get(f"api/v1/{address}as_of={old}").json()
            wanted = then.answer("visits_by_buyers")
            assert (shown["value"], shown["low"], shown["high"]) == (wanted.value, wanted.low, wanted.high)
            assert shown["freshness"]["epoch"] == old
            changed = client.get(f"api/v1/{address}since={old}").json()
            difference = now.change("visits_by_buyers", then)
            assert (changed["value"], changed["low"]) == (difference.value, difference.low)
            groups = client.get(f"api/v1/answers/by_region?since={old}").json()
            grouped = now.change("by_region", then)
            assert len(groups["groups"]) == len(grouped) > 3
            for row in groups["groups"]:
                wanted = grouped[row["group"]["region"]]["n"]
                assert row["aggregates"]["n"]["value"] == wanted.value
                assert row["aggregates"]["n"]["low"] == wanted.low
            back = client.get(f"api/v1/{address}as_of={old}&since={new}").json()
            assert back["value"] == -changed["value"]
        by_sql = client.get(
            "api/v1/answer", params={"sql": f"SELECT COUNT(*) FROM orders VERSION AS OF {old}"}
        )
        assert by_sql.json()["value"] == then.answer("orders_kept").value
        every = client.get(f"api/v1/answers?as_of={old}").json()
        assert [each["query"] for each in every] == list(now.snapshot.layout.query_names)
        groups = next(each for each in every if each["query"] == "by_region")
        assert len(groups["groups"]) == len(then.answer("by_region"))


def test_an_earlier_epoch_is_read_once(moved, monkeypatch):
    where, old, new = moved
    follower, read = Follower(where), []
    state = follower.look().state
    load = Reader.load
    monkeypatch.setattr(Reader, "load", lambda reader, number: read.append(number) or load(reader, number))
    for _ in range(3):
        assert state.past(old).answer("money").value == el.open(where, as_of=old).answer("money").value
        assert state.past("2100-01-01").origin.freshness.epoch == new
    assert read.count(old) == 1 + 3  # the follower's own, and those of el.open
    monkeypatch.setattr(follower, "_earlier", Memo(64, 8 * state.past(old).nbytes - 8))
    read.clear()
    for _ in range(2):
        state.past(old)
    assert read == [old, old]  # a state that is too large is not kept


def test_http_refuses_a_moment_that_is_not_kept_without_naming_folders(moved):
    where, _, _ = moved
    with serving(where) as client:
        until(lambda: client.get("readyz").status_code == 200)
        for moment in ("999", "1990-01-01", "soon"):
            refused = client.get("api/v1/answers/money", params={"as_of": moment})
            assert refused.status_code == 422
            assert where.rsplit("/", 1)[0] not in refused.text


def test_a_session_reads_the_state_as_of_its_setting(moved):
    where, old, _ = moved
    state, then = el.open(where), el.open(where, as_of=old)
    with (
        shop.serving(state) as server,
        psycopg.connect(
            f"host=127.0.0.1 port={server.address[1]} user=me dbname=x", autocommit=True
        ) as session,
    ):
        count = "SELECT COUNT(*) FROM orders"
        now = session.execute(count).fetchone()
        session.execute(f"SET eddyline.as_of = {old}")
        assert session.execute(count).fetchone()[0] == then.answer("orders_kept").value
        assert session.execute("SELECT * FROM orders_kept").fetchone()[0] == then.answer("orders_kept").value
        session.execute("RESET eddyline.as_of")
        assert session.execute(count).fetchone() == now
        session.execute("SET eddyline.as_of = 'soon'")
        with pytest.raises(psycopg.Error, match="is not a time"):
            session.execute(count)
        session.execute("RESET eddyline.as_of")


def test_a_statement_reads_one_moment_or_several(moved):
    where, _, new = moved
    old = new - 2  # of two epochs in a row, one changes orders and one visits
    state, then = el.open(where), el.open(where, as_of=old)
    more = state.answer("orders_kept").value - then.answer("orders_kept").value
    assert more
    with (
        shop.serving(state) as server,
        psycopg.connect(
            f"host=127.0.0.1 port={server.address[1]} user=me dbname=x", autocommit=True
        ) as session,
    ):

        def asked(text, *given):
            return session.execute(text, given or None).fetchall()

        now, before = ((each.answer("orders_kept").value,) for each in (state, then))
        for clause in (f"VERSION AS OF {old}", f"FOR VERSION AS OF {old}"):
            assert asked(f"SELECT COUNT(*) FROM orders {clause}") == [before]
            assert asked(f"SELECT COUNT(*) FROM orders {clause} AS o WHERE o.customer IS NOT NULL") == [
                before
            ]
            assert asked(f"SELECT * FROM orders_kept {clause}")[0][0] == before[0]
        assert asked("SELECT COUNT(*) FROM orders TIMESTAMP AS OF '2100-01-01'") == [now]
        assert asked("SELECT COUNT(*) FROM orders FOR SYSTEM_TIME AS OF '2100-01-01'") == [now]
        assert asked("SELECT COUNT(*) FROM orders VERSION AS OF %s", old) == [before]
        difference = (
            "SELECT a.n - b.n AS more FROM (SELECT COUNT(*) AS n FROM orders) a, "
            f"(SELECT COUNT(*) AS n FROM orders VERSION AS OF {old}) b"
        )
        assert asked(difference) == [(more,)]
        views = (
            f"SELECT a.region, a.n - b.n FROM by_region a JOIN by_region VERSION AS OF {old} b USING (region)"
        )
        assert asked(views)
        session.execute("SET eddyline.intervals = on")
        wanted = state.change("visits_by_buyers", then)
        joined = "SELECT COUNT(*) AS n FROM orders {0} o JOIN visits {0} v ON o.customer = v.customer"
        both = joined.format(""), joined.format(f"VERSION AS OF {old}")
        with session.cursor() as cursor:
            cursor.execute("SELECT a.n - b.n AS more FROM ({}) a, ({}) b".format(*both))
            row = dict(zip([each.name for each in cursor.description], cursor.fetchone(), strict=True))
        assert row["more"] == wanted.value
        assert row["more_low"] <= wanted.value <= row["more_high"]
        for refused, why in (
            ("SELECT COUNT(*) FROM orders VERSION AS OF 99999", "is not in"),
            ("SELECT COUNT(*) FROM orders TIMESTAMP AS OF 'soon'", "is not a time"),
            (
                f"SELECT COUNT(*) FROM orders o JOIN visits VERSION AS OF {old} v ON o.customer = v.customer",
                "moment",
            ),
            (f"SELECT * FROM pg_class VERSION AS OF {old}", "one moment only"),
        ):
            with pytest.raises(psycopg.Error, match=why):
                session.execute(refused)
