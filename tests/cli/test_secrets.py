"""Keys and passwords of URIs: no message and no line of output shows them."""

import re

import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline import errors
from eddyline.cli import app
from eddyline.errors import EddylineError, without_secrets
from eddyline.store import Store

PIPELINE = """
[workload]
store = "s3://KEY:SECRET@bucket/state?region=x"
[streams.orders]
format = "parquet"
path = "orders"
schema = "k BIGINT"
[queries]
n = "SELECT COUNT(*) FROM orders"
"""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://KEY:SECRET@bucket/state?region=x", "s3://bucket/state"),
        ("the store s3a://KEY:SE%2FCRET@bucket/a: open it", "the store s3a://bucket/a: open it"),
        ("at 's3://KEY:SE/CR/ET@bucket/a' and s3://K@b", "at 's3://bucket/a' and s3://b"),
        ("hdfs://host:9000/user/a@b/c", "hdfs://host:9000/user/a@b/c"),
        ("postgresql://user:p:w@host:5432/shop?password=SECRET", "postgresql://host:5432/shop"),
        ("abfss://:SECRET@account.dfs.core.windows.net/x", "abfss://account.dfs.core.windows.net/x"),
        ("https://example.org/docs. Is 1 > 0? a@b", "https://example.org/docs. Is 1 > 0? a@b"),
        ("/tmp/a@b?c", "/tmp/a@b?c"),
    ],
)
def test_a_text_is_shown_without_what_is_secret_in_its_uris(text, shown):
    assert without_secrets(text) == shown


def test_every_error_of_ours_is_without_secrets():
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and each is not EddylineError]
    found = [each for each in kinds if issubclass(each, EddylineError)]
    assert len(found) >= 12
    for kind in (EddylineError, *found):
        assert str(kind("no file at s3://KEY:SECRET@bucket/x.")) == "no file at s3://bucket/x."


def output_of(*arguments):
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    return found.output


def test_commands_that_are_refused_show_no_secret(tmp_path):
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE)
    commands = [
        ("ask", file, "--as-of", "1"),
        ("ask", file, "--since", "1"),
        ("ask", "s3x://KEY:SECRET@bucket/state"),
        ("verify", "s3x://KEY:SECRET@bucket/state"),
        ("restore", "s3x://KEY:SECRET@bucket/state", "--epoch", "1"),
        ("sql", "s3x://KEY:SECRET@bucket/state", "SELECT 1"),
        ("watch", "s3x://KEY:SECRET@bucket/state"),
        ("merge", "s3x://KEY:SECRET@bucket/a", "--into", "s3x://KEY:SECRET@bucket/b"),
        ("doctor", file),
    ]
    for command in commands:
        found = output_of(*command)
        assert re.search(r"\w", found), command
        assert "SECRET" not in found, (command, found)
        assert "KEY" not in found, (command, found)
    assert "s3://bucket/state" in output_of("ask", file, "--as-of", "1")


def test_a_merged_store_is_named_without_its_query(tmp_path):
    plan = (
        el.Workload(budget="64 KB", seed=3)
        .stream("s", "k BIGINT")
        .query("n", "SELECT COUNT(*) FROM s")
        .plan()
    )
    plan.empty().update("s", {"k": [1, 2, 3]}).save(tmp_path / "a")
    into = f"file://{tmp_path}/b?key=SECRET"
    found = output_of("merge", tmp_path / "a", "--into", into)
    assert "merged into file://" in found
    assert "SECRET" not in found
    assert Store.exists(into)
