"""What `scripts/reproduce --spark` checks: Spark makes the same states for the documents' experiments."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
FIGURES = Path(__file__).parents[2] / "figures"


@pytest.mark.parametrize("document", ["000", "001", "002", "003", "004"])
def test_spark_makes_the_same_state_of_a_documents_experiment(
    spark, importing_from, monkeypatch, capsys, document
):
    reproduce = importing_from(FIGURES)("reproduce")
    monkeypatch.setattr(reproduce, "TUPLES", 300)  # of 003, whose sketches take the longest to fill
    monkeypatch.setattr(reproduce, "PAIR_BUDGET", 40_000_000)
    reproduce.through_spark(document)
    assert f"{document}: the state that Spark makes is the same" in capsys.readouterr().out
