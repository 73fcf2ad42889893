"""The HTTP API: the same answers as the library's, with all digits; what is wrong gets its code and its sentence."""

import json

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import eddyline as el
from eddyline.serve.security import HEADERS
from tests.data.moving_store import QUERIES, MovingStore
from tests.serve.conftest import serving
from tests.serve.waiting import until

UNPLANNED = "SELECT region, COUNT(*) AS n FROM orders WHERE region <> 'east' GROUP BY region"


def without_lag(shown):
    """An answer without what moves while it stands still: the seconds since its last batch."""
    fresh = {key: value for key, value in shown["freshness"].items() if key != "lag"}
    return {**shown, "freshness": fresh}


def test_all_answers_are_those_of_the_library(store, client):
    state = el.open(store.where)
    shown = client.get("api/v1/answers").raise_for_status().json()
    assert {answer["query"] for answer in shown} == set(QUERIES)
    for answer in shown:
        expected = json.loads(json.dumps(state.answer(answer["query"]).to_dict()))
        if "groups" in answer:
            assert answer.pop("groups_shown") == "largest"
            answer["groups"].sort(key=str)
            expected["groups"].sort(key=str)
            expected["groups"] = expected["groups"][:1000]
        assert without_lag(answer) == without_lag(expected)


def test_one_answer_by_name_by_sql_and_at_another_confidence(store, client):
    state = el.open(store.where)
    for parameters in ({}, {"confidence": "0.8"}):
        expected = state.answer("money", confidence=float(parameters.get("confidence", 0.95)))
        by_name = client.get("api/v1/answers/money", params=parameters).raise_for_status().json()
        by_sql = (
            client.get("api/v1/answer", params={"sql": QUERIES["money"], **parameters})
            .raise_for_status()
            .json()
        )
        for shown in (by_name, by_sql):
            assert (shown["value"], shown["low"], shown["high"]) == (
                expected.value,
                expected.low,
                expected.high,
            )
    everything = client.get("api/v1/answers", params={"confidence": "0.8"}).raise_for_status().json()
    assert next(a for a in everything if a["query"] == "money")["confidence"] == 0.8


def test_sql_that_nobody_planned_is_answered_from_what_is_kept(store, client):
    shown = client.get("api/v1/answer", params={"sql": UNPLANNED, "limit": 2}).raise_for_status().json()
    assert (len(shown["groups"]), shown["number_of_groups"]) == (2, 3)
    expected = el.open(store.where).answer(UNPLANNED)
    for row in shown["groups"]:
        assert row["aggregates"]["n"]["value"] == expected[row["group"]["region"]]["n"].value


@pytest.mark.parametrize(
    ("address", "status", "kind", "sentence"),
    [
        ("answer?sql=SELECT FROM", 400, "SqlError", ""),
        ("answer?sql=SELECT COUNT(*) FROM nowhere", 400, "SqlError", "there is no stream 'nowhere'"),
        ("answer?sql=SELECT COUNT(*) FROM orders o, visits v", 422, "UnsupportedQuery", ""),
        ("answer?sql=SELECT COUNT(*) FROM visits GROUP BY seconds", 422, "PlanError", ""),
        ("answer?sql=SELECT " + "(" * 20_000, 400, "SqlError", "too deeply nested"),
        ("answer?sql=SELECT %00", 400, "SqlError", ""),
        ("answer", 400, "RequestError", "say what to answer"),
        ("answer?sql=x&sql=y", 400, "RequestError", "'sql' is given 2 times"),
        ("answers?confidence=2", 400, "RequestError", "confidence='2' is not a number between 0.5 and 1"),
        ("answers?confidence=nan", 400, "RequestError", "confidence='nan'"),
        ("answers?limit=0", 400, "RequestError", "limit='0' is not a number of groups from 1 to 10,000"),
        ("answers?limit=²", 400, "RequestError", "limit='²'"),
        (
            "answers?colour=red",
            400,
            "RequestError",
            "'colour' is not known here: this address takes confidence, limit",
        ),
        ("answer?sql=x&simultaneous=perhaps", 400, "RequestError", "neither true nor false"),
        ("answers/nosuch", 404, "RequestError", "its queries are"),
        ("plan?form=png", 400, "RequestError", "json, full, text, mermaid, svg"),
        ("explain/nosuch", 404, "RequestError", "its queries are"),
        ("explain/money?form=svg", 400, "RequestError", "is not one of json, text"),
        ("nowhere", 404, "RequestError", "/api/v1/openapi.json"),
    ],
)
def test_what_is_wrong_gets_its_code_and_its_sentence(client, address, status, kind, sentence):
    response = client.get(f"api/v1/{address}")
    assert response.status_code == status, response.text
    assert response.json()["error"]["type"] == kind
    assert sentence in response.json()["error"]["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_written(client, method):
    response = client.request(method, "api/v1/answers")
    assert response.status_code == 405
    assert "GET" in response.headers["allow"]


def test_plan_in_all_forms_and_its_memory_adds_up(store, client):
    kept = client.get("api/v1/plan").raise_for_status().json()
    assert sum(share["nbytes"] for share in kept["memory"]) == kept["bytes"] == store.plan.nbytes
    assert client.get("api/v1/plan?form=text").text == store.plan.explain()
    assert client.get("api/v1/plan?form=svg").text == store.plan.explain("svg")
    assert client.get("api/v1/plan?form=svg").headers["content-type"] == "image/svg+xml"
    assert client.get("api/v1/plan?form=mermaid").text == store.plan.explain("mermaid")
    queries = {query["name"]: query for query in client.get("api/v1/queries").json()}
    assert {name: query["sql"] for name, query in queries.items()} == QUERIES
    assert queries["money"]["streams"] == ["orders", "visits"]


def test_how_a_query_was_answered_and_how_sketches_were_shared(store, client):
    state = el.open(store.where)
    shown = client.get("api/v1/explain/money").raise_for_status()
    assert shown.json() == json.loads(state.explain("money", form="json"))
    assert shown.headers["content-type"] == "application/json"
    assert client.get("api/v1/explain/money?form=text").text == state.explain("money")
    full = client.get("api/v1/plan?form=full").raise_for_status().json()
    assert full == json.loads(store.plan.explain("json"))
    assert {"queries", "components", "apart"} <= full["sharing"].keys()


def test_metrics_are_read_by_prometheus_parser_and_tell_the_estimates(store, client):
    families = {f.name: f for f in text_string_to_metric_families(client.get("metrics").text)}
    resident, peak = (families[f"eddyline_{name}_bytes"].samples[0].value for name in ("resident", "peak"))
    assert 1 << 24 < resident <= peak < 1 << 36
    state = el.open(store.where)
    for end in ("value", "low", "high"):
        shown = {
            s.labels["query"]: s.value
            for s in families[f"eddyline_estimate_{end}"].samples
            if not s.labels["group"]
        }
        for query in ("orders_kept", "money", "buyers"):
            assert shown[query] == float(getattr(state.answer(query), end))
    by_region = {
        s.labels["group"]: s.value
        for s in families["eddyline_estimate_value"].samples
        if (s.labels["query"], s.labels["aggregate"]) == ("by_region", "n")
    }
    assert by_region == {f"region='{row['region']}'": row["n"] for row in state.answer("by_region")}
    rows = {s.labels["stream"]: s.value for s in families["eddyline_stream_rows"].samples}
    assert rows == {"orders": 2_000, "visits": 2_000}
    assert families["eddyline_epoch"].samples[0].value == 2
    assert families["eddyline_running"].samples[0].value == 1


def test_rows_that_the_store_lacked_are_a_metric(client, compared):
    families = {
        family.name: family for family in text_string_to_metric_families(compared.get("metrics").text)
    }
    (missing,) = families["eddyline_source_missing_rows"].samples  # visits were not counted
    assert (missing.labels, missing.value) == ({"stream": "orders"}, 2)
    assert families["eddyline_source_compared_time_seconds"].samples[0].value > 1e9


def test_every_response_tells_the_browser_what_it_may_do(client):
    for address in ("", "api/v1/answers", "api/v1/nowhere", "metrics", "page.js"):
        headers = client.get(address).headers
        assert {name: headers.get(name) for name in HEADERS} == HEADERS


def test_only_names_of_the_loopback_are_answered(client):
    assert client.get("api/v1/answers", headers={"host": "evil.example:8321"}).status_code == 421
    for name in ("localhost", "127.0.0.1:1", "[::1]:80", "LOCALHOST:8321"):
        assert client.get("healthz", headers={"host": name}).status_code == 200


def test_a_store_that_is_not_there_yet_is_served_once_it_is(tmp_path):
    where = tmp_path / "state"
    with serving(where) as client:
        assert client.get("readyz").status_code == 503
        until(lambda: client.get("api/v1/freshness").json()["problem"])
        response = client.get("api/v1/answers")
        assert response.status_code == 503
        assert "there is no store" in response.json()["error"]["message"]
        moving = MovingStore(where)
        until(lambda: client.get("readyz").status_code == 200)
        assert client.get("api/v1/answers/orders_kept").json()["value"] == 0
        moving.close()


def test_a_damaged_store_is_told_and_the_last_answers_stay(store, client):
    before = client.get("api/v1/answers/money").json()["value"]
    for path in store.store._writer.reader.files.root.glob("epoch-*"):
        path.write_bytes(b"damaged")
    (store.store._writer.reader.files.root / "CURRENT").write_bytes(b"damaged")
    until(lambda: client.get("api/v1/freshness").json()["problem"])
    assert "is damaged" in client.get("api/v1/freshness").json()["problem"]
    assert client.get("readyz").status_code == 503
    assert client.get("api/v1/answers/money").json()["value"] == before


def test_a_refused_query_is_among_the_answers_with_its_reason(tmp_path):
    """Every answer is exact here but one, which what is kept does not answer: MIN once it is sampled."""
    from tests.data.moving_store import plan

    made = plan(
        {"least": "SELECT MIN(o.total) FROM orders o JOIN visits v ON o.customer = v.customer"}, budget="8 KB"
    )
    moving = MovingStore(tmp_path / "state", made)
    moving.move(20_000)
    with serving(moving.where) as client:
        until(lambda: client.get("readyz").status_code == 200)
        (shown,) = client.get("api/v1/answers").json()
        assert shown["query"] == "least"
        with pytest.raises(el.EddylineError) as refused:
            el.open(moving.where).answer("least")
        assert shown["refused"] == str(refused.value)
        assert 'eddyline_query_answered{query="least"} 0.0' in client.get("metrics").text
    moving.close()


def test_head_is_answered_everywhere_without_a_body(client):
    for address in ("", "api/v1/answers", "api/v1/events", "metrics", "healthz"):
        response = client.head(address)
        assert (response.status_code, response.content) == (200, b"")


def test_a_request_that_is_no_http_gets_a_400_and_the_server_lives(client):
    import socket

    address = httpx.URL(str(client.base_url))
    with socket.create_connection((address.host, address.port)) as raw:
        raw.sendall(b"\x00\xff nonsense\r\n\r\n")
        assert b"400" in raw.recv(4096)
    assert client.get("healthz").status_code == 200


AROUND = "WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT region, n, n - 1 AS m FROM t ORDER BY n"


def test_sql_around_aggregates_is_a_table(store, client):
    shown = client.get("api/v1/answer", params={"sql": AROUND, "limit": 2}).raise_for_status().json()
    expected = el.open(store.where).sql(AROUND)
    assert [each["name"] for each in shown["columns"]] == expected.column_names
    assert shown["rows"] == [list(row.values()) for row in expected.to_pylist()[:2]]
    assert shown["number_of_rows"] == expected.num_rows
    assert {each["role"] for each in shown["columns"]} == {"label", "value", "low", "high"}
    refused = client.get("api/v1/answer", params={"sql": "SELECT * FROM orders"})
    assert refused.status_code == 422
    assert "rows are not kept" in refused.json()["error"]["message"]
