"""The live page in a real browser: right numbers, bands that move, questions, dark and narrow, nothing unescaped."""

import io

import numpy as np
import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe

import eddyline as el
from eddyline.serve.app import server_of
from eddyline.serve.watcher import Watcher
from tests.data.moving_store import QUERIES, MovingStore, orders, plan
from tests.serve.browser import Page, browser, needs_chromium
from tests.serve.conftest import serving

DAY = 86_400_000_000

pytestmark = [needs_chromium, pytest.mark.timeout(300)]
NASTY = "<img src=x onerror=alert(1)>"
EPOCH_IS = (
    "at => document.querySelector('#freshness').innerText.replace(/\\s+/g, ' ').includes(`epoch ${at}`)"
)
IS_TOLD = "words => document.querySelector('#status').innerText.includes(words)"


@pytest.fixture(scope="module")
def chromium():
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    store = MovingStore(tmp_path_factory.mktemp("page") / "state")
    store.move(6_000)
    yield store
    store.close()


@pytest.fixture(scope="module")
def address(moving):
    with serving(moving.where) as client:
        yield str(client.base_url)


def opened(chromium, address, **settings):
    page = Page(chromium, address, **settings)
    page.page.wait_for_selector("#queries .value")
    page.page.wait_for_selector("#memory tbody tr")
    return page


def test_the_page_shows_the_librarys_numbers_and_its_bands_move_with_commits(chromium, moving, address):
    page = opened(chromium, address)
    for _ in range(2):
        epoch = el.open(moving.where).origin.freshness.epoch
        page.until(EPOCH_IS, epoch)
        state = el.open(moving.where)
        for query in ("orders_kept", "money", "buyers", "visits_by_buyers"):
            value, low, high = state.answer(query).shown
            assert page.card(query).locator(".value").get_attribute("title") == value
            if not state.answer(query).exact:
                assert page.card(query).locator(".interval").get_attribute("title") == f"{low} .. {high}"
            assert page.text_of(query, ".sql") == QUERIES[query]
        rows = page.card("by_region").locator("tbody tr").all_inner_texts()
        assert {tuple(row.split("\t")[:2]) for row in rows} == {
            (row["region"], f"{row['n']:,}") for row in state.answer("by_region")
        }
        bands = [page.card("money").locator("path.band").get_attribute("d")]
        moving.move(6_000)
    page.until(EPOCH_IS, epoch + 2)
    bands.append(page.card("money").locator("path.band").get_attribute("d"))
    assert bands[0] != bands[1]
    assert page.is_clean(), (page.errors, page.elsewhere)


def test_a_question_is_answered_from_the_keyboard_and_a_refusal_says_why(chromium, moving, address):
    page = opened(chromium, address)
    box = page.page.get_by_label("SQL, or a query's name")
    box.fill("SELECT COUNT(*) FROM visits")
    box.press("Control+Enter")
    answered = page.page.locator("#asked .value")
    answered.wait_for()
    assert answered.inner_text() == str(el.open(moving.where).answer("SELECT COUNT(*) FROM visits").shown[0])
    box.fill("SELECT region, COUNT(*) AS n FROM orders GROUP BY region")
    page.page.get_by_role("button", name="Answer").click()
    page.page.locator("#asked table.groups").wait_for()
    for text, words in (
        ("SELECT COUNT(*) FROM orders o, visits v", "cross"),
        ("SELECT COUNT(*) FROM elsewhere", "there is no stream 'elsewhere'"),
        (f"SELECT {NASTY}", ""),
    ):
        box.fill(text)
        page.page.get_by_role("button", name="Answer").click()
        page.until("words => document.querySelector('#asked [role=alert]')?.innerText.includes(words)", words)
    page.errors = [error for error in page.errors if "the server responded with a status of 4" not in error]
    assert page.is_clean(), (page.errors, page.elsewhere)


def test_an_earlier_moment_is_compared_with_and_asked(chromium, tmp_path):
    store = MovingStore(tmp_path / "state")
    store.move()
    store.move()
    state = el.open(store.where)
    newest = state.origin.freshness.epoch
    then = el.open(store.where, as_of=newest - 1)
    with serving(store.where) as client:
        page = opened(chromium, str(client.base_url))
        since = page.page.get_by_label("Compare with")
        since.fill(str(newest - 1))
        since.press("Enter")
        page.until("() => document.querySelectorAll('#queries .change').length >= 4")
        for query in ("orders_kept", "visits_by_buyers", "money", "buyers"):
            change = state.change(query, then)
            line = page.card(query).locator(".change")
            assert line.get_attribute("title") == change.shown[0]
            assert line.inner_text().endswith(f"since epoch {newest - 1}")
            assert ("[" in line.inner_text()) == (not change.exact)
        regions = page.card("by_region").locator("tbody tr")
        changes = state.change("by_region", then)
        for place in range(regions.count()):
            row = regions.nth(place)
            wanted = changes[row.locator("th").inner_text()]
            shown = row.locator(".change")
            assert [shown.nth(i).get_attribute("title") for i in range(2)] == [
                wanted[name].shown[0] for name in ("n", "money")
            ]
        asked = page.page.get_by_label("As of")
        asked.fill(str(newest - 1))
        box = page.page.get_by_label("SQL, or a query's name")
        box.fill("orders_kept")
        box.press("Control+Enter")
        page.page.locator("#asked .value").wait_for()
        assert page.page.locator("#asked .value").inner_text() == str(then.answer("orders_kept").shown[0])
        since.fill("30 days ago")
        since.press("Enter")
        page.until("() => !document.querySelector('#compared').hidden")
        assert "keeps no epoch from" in page.page.locator("#compared").inner_text()
        assert page.page.locator("#queries .change").count() == 0
        store.move()
        since.fill(str(newest))
        since.press("Enter")
        page.until("() => document.querySelectorAll('#queries .change').length > 4")
        since.fill("")
        since.press("Enter")
        page.until("() => document.querySelectorAll('#queries .change').length === 0")
        page.errors = [
            error for error in page.errors if "the server responded with a status of 4" not in error
        ]
        assert page.is_clean(), (page.errors, page.elsewhere)
    store.close()


def test_a_card_unfolds_how_its_query_is_answered(chromium, moving, address):
    page = opened(chromium, address)
    card = page.page.locator("article.card", has=page.page.locator("h3", has_text="money"))
    card.locator("summary").click()
    card.locator("pre", has_text="read by").wait_for()
    assert "method: skimmed" in card.locator("pre").inner_text()


def test_a_card_unfolds_sub_joins_and_which_queries_share_sketches(chromium, tmp_path):
    workload = el.Workload(budget="256 KB", seed=7, samples=False)
    workload.stream("orders", "customer BIGINT, region STRING, total DECIMAL(12,2)", changes="w")
    workload.stream("visits", "customer BIGINT, seconds INT", changes="w")
    for name in ("visits_by_buyers", "money"):
        workload.query(name, QUERIES[name])
    store = MovingStore(tmp_path / "state", workload.plan())
    store.move(6_000)
    state = el.open(store.where)
    with serving(store.where) as client:
        page = opened(chromium, str(client.base_url))
        for name, other in (("visits_by_buyers", "money"), ("money", "visits_by_buyers")):
            card = page.card(name)
            card.locator("summary").click()
            card.locator("pre", has_text="read by").wait_for()
            shown = [line.strip() for line in card.locator("pre").inner_text().splitlines() if line.strip()]
            assert shown == [line.strip() for line in state.explain(name).splitlines() if line.strip()]
            at = shown.index("sub-joins")
            assert shown[at + 1] == "dense-dense"
            assert float(shown[at + 2].removeprefix("size: ").replace(",", "")) > 0
            sized = next(line for line in shown[shown.index("sharing") :] if line.startswith("sized by: "))
            assert name in sized
            assert other in sized
        assert page.is_clean(), (page.errors, page.elsewhere)
    store.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_accessible_in_both_schemes_and_on_a_phone(chromium, address, scheme, width):
    page = opened(chromium, address, scheme=scheme, width=width)
    found = Axe().run(page.page).response["violations"]
    assert not found, [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found]
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(ground[4:-1].split(",")[0]) < 128) == (scheme == "dark")
    assert page.is_clean(), (page.errors, page.elsewhere)


def test_time_and_scale_of_the_charts_can_be_chosen(chromium, address):
    page = opened(chromium, address)
    page.page.get_by_label("Scale").select_option("percent")
    texts = page.card("money").locator("svg text").all_text_contents()
    assert any(text.endswith("%") for text in texts), texts
    page.page.get_by_label("Time").select_option("60")
    assert page.card("money").locator("path.line").count() == 1
    assert page.is_clean()


def test_texts_and_values_stay_text(chromium, tmp_path):
    queries = {
        "nasty": f"SELECT COUNT(*) FROM orders WHERE region = '{NASTY}'",
        "by_region": "SELECT region, COUNT(*) AS `<b>n</b>` FROM orders GROUP BY region",
    }
    store = MovingStore(tmp_path / "state", plan(queries))
    store.commit("orders", orders(1, 500, (NASTY, "<script>alert(3)</script>", "&lt;b&gt;", "'\"")), bad=3)
    with serving(store.where) as client:
        page = opened(chromium, str(client.base_url))
        assert page.text_of("nasty", ".sql") == queries["nasty"]
        assert "<b>n</b>" in page.text_of("by_region", "thead")
        cells = page.card("by_region").locator("tbody th").all_inner_texts()
        assert set(cells) == {NASTY, "<script>alert(3)</script>", "&lt;b&gt;", "'\""}
        assert page.page.locator("main img[src=x], main b, main script").count() == 0
        assert "3 rows of stream" in page.text_of("nasty", ".notes")
        assert page.is_clean(), (page.errors, page.elsewhere)
        assert client.get("metrics").status_code == 200
    store.close()


def test_a_stopped_run_and_a_restarted_server_are_told_and_the_page_goes_on(chromium, tmp_path):
    import threading

    store = MovingStore(tmp_path / "state")
    store.move()

    def start(port):
        server = server_of(Watcher(store.where, tmp_path / "history.json", every=0.05), "127.0.0.1", port)
        thread = threading.Thread(target=server.run)
        thread.start()
        return server, thread

    server, thread = start(0)
    page = opened(chromium, server.address)
    page.until(IS_TOLD, "Running")
    store.close()
    page.until(IS_TOLD, "No run writes this store now")
    port = int(server.address.rstrip("/").rsplit(":", 1)[1])
    server.should_exit = True
    thread.join()
    page.until(IS_TOLD, "The server cannot be reached")
    server, thread = start(port)
    page.until(IS_TOLD, "No run writes this store now")
    assert page.text_of("money", ".value") == el.open(store.where).answer("money").shown[0]
    server.should_exit = True
    thread.join()


def test_another_store_in_its_place_has_its_own_chart_and_picture(chromium, tmp_path):
    queries = {"n": "SELECT COUNT(*) FROM orders"}
    first = MovingStore(tmp_path / "state", plan(queries))
    for batch in range(4):
        first.commit("orders", orders(batch))
    first.close()
    more = {
        "n": "SELECT COUNT(*) FROM orders WHERE region = 'north'",
        "kinds": "SELECT COUNT(DISTINCT region) FROM orders",
    }
    second = MovingStore(tmp_path / "other", plan(more))
    second.commit("orders", orders(9, 300))
    second.close()
    with serving(tmp_path / "state") as client:
        page = opened(chromium, str(client.base_url))
        height = "document.querySelector('#picture').naturalHeight"
        page.until(f"() => {height} > 0")
        before = page.page.evaluate(height)
        (tmp_path / "state").rename(tmp_path / "gone")
        (tmp_path / "other").rename(tmp_path / "state")
        value = el.open(tmp_path / "state").answer("n").shown[0]
        page.until("() => document.querySelectorAll('#queries .card').length === 2")
        page.until(f"before => {height} > before", before)
        label = page.card("n").locator("svg").get_attribute("aria-label")
        assert label.endswith(f"from {value} to {value}")
        assert page.text_of("n", ".value") == value
        assert page.text_of("n", ".sql") == more["n"]
        assert page.is_clean(), (page.errors, page.elsewhere)


def test_decimals_that_are_sent_as_text_are_drawn_and_choices_of_a_limit_are_shown(chromium, tmp_path):
    queries = {
        "largest": "SELECT MAX(total) FROM orders",
        "first": "SELECT region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY n DESC LIMIT 2",
    }
    store = MovingStore(tmp_path / "state", plan(queries, budget="4 MB"))
    with serving(store.where) as client:
        store.commit("orders", orders(1))
        page = opened(chromium, str(client.base_url))
        store.commit("orders", orders(2))
        page.until(EPOCH_IS, 2)
        drawn = page.card("largest").locator("path.line").get_attribute("d")
        assert drawn.count("L") >= 1
        assert page.card("first").locator("thead").inner_text().split("\t")[-1].strip() == "in the answer"
        assert set(page.card("first").locator("tbody td:last-child").all_inner_texts()) == {"certainly"}
        assert page.is_clean(), (page.errors, page.elsewhere)
    store.close()


def timed_plan():
    """A plan with groups by month in three spellings, by customer, and one windowed query."""
    workload = el.Workload(budget="256 KB", seed=7)
    workload.stream(
        "orders", "customer BIGINT, y DOUBLE, month STRING, at TIMESTAMP", changes="w", event_time="at"
    )
    workload.query("mean", "SELECT AVG(y) FROM orders")
    workload.query(
        "months",
        "SELECT date_trunc('MONTH', at) AS month, COUNT(*) AS n FROM orders GROUP BY date_trunc('MONTH', at)",
    )
    workload.query(
        "parts",
        "SELECT year(at) AS y, month(at) AS m, COUNT(*) AS n FROM orders GROUP BY year(at), month(at)",
    )
    workload.query(
        "written",
        "SELECT month, COUNT(*) AS n FROM orders GROUP BY month",
    )
    workload.query(
        "oldest",
        "SELECT date_trunc('MONTH', at) AS month, COUNT(*) AS n FROM orders GROUP BY date_trunc('MONTH', at) ORDER BY month",
    )
    workload.query("busiest", "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
    workload.query("lately", "SELECT COUNT(*) FROM orders", window="10 days", slide="5 days")
    return workload.plan()  # fmt: skip


def timed_orders(rows=3_000):
    """Orders of 75 months, the newest of which has the fewest."""
    days = 2_280 - np.arange(rows) ** 0.9 * 2_280 // rows**0.9
    customers = np.minimum(np.arange(rows), 400 + np.arange(rows) % 7)
    at = pa.array(days.astype(np.int64) * DAY + 1_500_000_000_000_000, pa.timestamp("us", tz="UTC"))
    return pa.table(
        {
            "customer": customers.astype(np.int64),
            "y": 8 + np.arange(rows) / rows,
            "month": [f"{each:%Y-%m}" for each in at.to_pylist()],
            "at": at,
            "w": np.ones(rows, np.int64),
        }
    )


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    store = MovingStore(tmp_path_factory.mktemp("timed") / "state", timed_plan())
    store.commit("orders", timed_orders(), late=123)
    with serving(store.where) as client:
        yield str(client.base_url)
    store.close()


def test_the_newest_groups_are_shown_where_they_are_times_and_the_largest_elsewhere(chromium, timed):
    page = opened(chromium, timed)
    moments = timed_orders()["at"].to_pylist()
    months = sorted({(each.year, each.month) for each in moments}, reverse=True)
    assert len(months) > 70
    written = [f"{y}-{m:02d}" for y, m in months]
    page.until(
        "n => document.querySelectorAll('#queries figure.chart:not([hidden]) path.line').length >= n", 2
    )
    for query, keys in {
        "written": written,
        "months": [f"{each}-01 00:00:00+00:00" for each in written],
    }.items():
        assert page.card(query).locator("tbody th").all_inner_texts() == keys, query
        line = page.card(query).locator("figure.chart").first
        assert line.locator("path.line").get_attribute("d").count("L") == len(months) - 1
        assert line.locator("svg").get_attribute("aria-label") == "n by month"
        assert str(months[0][0]) in line.locator("text").last.text_content()
    first = {
        "parts": [str(y) for y, _ in months[:50]],
        "oldest": [f"{y}-{m:02d}-01 00:00:00+00:00" for y, m in months[:-51:-1]],
    }
    hidden = len(months) - 50
    for query, keys in first.items():
        assert page.card(query).locator("tbody th").all_inner_texts() == keys, query
        which = "first" if query == "oldest" else "newest"
        printed = f"{len(months)} groups: the 50 {which} are shown, {hidden} are not."
        assert printed in page.text_of(query, "p.quiet"), query
    page.card("parts").get_by_role("button", name="more").click()
    page.until(
        "n => [...document.querySelectorAll('#queries table.groups')].some(t => t.tBodies[0].rows.length === n && t.tHead.innerText.startsWith('y'))",
        len(months),
    )
    assert page.card("parts").get_by_role("button", name="more").count() == 0
    sizes = np.unique(timed_orders()["customer"].to_numpy(), return_counts=True)[1]
    shown = page.card("busiest").locator("tbody tr td:nth-child(2)").all_inner_texts()
    assert [int(each.replace(",", "")) for each in shown] == sorted(sizes.tolist(), reverse=True)[:50]
    assert "the 50 largest are shown" in page.text_of("busiest", "p.quiet")
    assert page.is_clean(), (page.errors, page.elsewhere)


def test_a_headline_has_six_digits_and_its_title_all(chromium, timed):
    page = opened(chromium, timed)
    mean = sum(timed_orders()["y"].to_pylist()) / 3_000
    assert page.text_of("mean", ".value") == f"{mean:.6g}"
    title = page.card("mean").locator(".value").get_attribute("title")
    assert float(title) == pytest.approx(mean, rel=1e-12)
    assert len(title) > 10


def test_late_rows_are_a_note_of_windows_alone(chromium, timed):
    page = opened(chromium, timed)
    assert "123 rows of stream 'orders' arrived too late" in page.text_of("lately", ".notes")
    for query in ("mean", "months", "busiest"):
        assert page.card(query).locator(".notes").count() == 0


def test_the_plans_picture_is_dark_on_a_dark_page(chromium, timed):
    from matplotlib.image import imread

    for scheme in ("light", "dark"):
        page = opened(chromium, timed, scheme=scheme)
        page.until("() => document.querySelector('#picture').naturalHeight > 0")
        pixels = imread(io.BytesIO(page.page.locator("#picture").screenshot()))[..., :3]
        assert (np.median(pixels) < 0.3) == (scheme == "dark")
        assert ((pixels > 0.95).all(axis=-1).mean() < 0.05) == (scheme == "dark")


def test_the_schema_and_the_box_fit_the_store_and_refusals_speak_to_readers(chromium, address, tmp_path):
    page = opened(chromium, address)
    page.page.wait_for_selector("#schema tbody tr")
    tables = page.page.locator("#schema article").all_inner_texts()
    assert [text.split("\n")[0] for text in tables] == ["orders", "visits"]
    assert "region\tSTRING\tyes" in tables[0]
    assert "seconds\tINT\tin its queries only" in tables[1]
    box = page.page.get_by_label("SQL, or a query's name")
    box.fill(box.get_attribute("placeholder"))
    box.press("Control+Enter")
    page.page.locator("#asked table.groups").wait_for()
    alert = "words => document.querySelector('#asked [role=alert]')?.innerText.includes(words)"
    for text in (
        "SELECT AVG(seconds) FROM visits",
        "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.seconds",
        "SELECT seconds, COUNT(*) FROM visits GROUP BY seconds",
    ):
        box.fill(text)
        page.page.get_by_role("button", name="Answer").click()
        page.until(alert, "The section Schema lists")
        printed = page.page.locator("#asked [role=alert]").inner_text()
        assert "w.explore" not in printed, printed
        assert "workload" not in printed, printed
    page.errors = [error for error in page.errors if "the server responded with a status of 4" not in error]
    assert page.is_clean(), (page.errors, page.elsewhere)


def test_results_of_sql_around_aggregates_are_tables(chromium, moving, address):
    page = opened(chromium, address)
    box = page.page.get_by_label("SQL, or a query's name")
    box.fill("SELECT region, n / 2 AS half FROM by_region WHERE n > 0 ORDER BY region LIMIT 3")
    box.press("Control+Enter")
    rows = page.page.locator("#asked table.groups tbody tr")
    rows.first.wait_for()
    assert [row.split("\t")[0] for row in rows.all_inner_texts()] == ["east", "north", "south"]
    assert page.is_clean(), (page.errors, page.elsewhere)


def test_whole_numbers_have_the_digits_that_their_interval_supports(chromium, tmp_path):
    queries = {"pairs": "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer"}
    store = MovingStore(tmp_path / "state", plan(queries, budget="4 KB"))
    store.move(6_000)
    with serving(store.where) as client:
        page = opened(chromium, str(client.base_url))
        estimate = el.open(store.where).answer("pairs")
        near = min(estimate.value - estimate.low, estimate.high - estimate.value)
        unit = 10 ** (len(str(int(near))) - 2)
        assert unit >= 10, "the interval is wide enough for digits to be left out"
        number = int(page.text_of("pairs", ".value").replace(",", ""))
        assert (number % unit, abs(number - estimate.value) <= unit / 2) == (0, True)
        low, high = (
            int(each.replace(",", ""))
            for each in page.text_of("pairs", ".interval").split(" at ")[0].split(" .. ")
        )
        assert estimate.low - unit < low <= estimate.low
        assert estimate.high <= high < estimate.high + unit
        assert page.card("pairs").locator(".value").get_attribute("title") == estimate.shown[0]
        assert page.is_clean(), (page.errors, page.elsewhere)
    store.close()
