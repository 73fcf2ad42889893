"""The public face: sorted names, documented errors, and what importing it loads."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import eddyline as el
from eddyline import errors


def test_all_is_sorted_and_complete():
    assert el.__all__ == sorted(el.__all__)
    for name in el.__all__:
        assert getattr(el, name).__module__.startswith("eddyline.")


def test_every_error_is_public_and_drawn_in_the_tree():
    for name, value in vars(errors).items():
        if isinstance(value, type):
            assert issubclass(value, el.EddylineError)
            assert name in el.__all__
            assert name in errors.__doc__


def loaded_after(code: str) -> set[str]:
    """Return the packages outside the standard library that are loaded after some code ran in a fresh process."""
    show = (
        "import sys; print(*{name.partition('.')[0] for name in sys.modules}, 'scipy.special' in sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", f"{code}\n{show}"], check=True, capture_output=True, text=True
    ).stdout.split()
    special = {"scipy.special"} if printed.pop() == "True" else set()
    return (set(printed) | special) - sys.stdlib_module_names - {"__main__", "_distutils_hack"}


def test_importing_eddyline_loads_nothing_else():
    assert {name for name in loaded_after("import eddyline") if "eddyline" not in name} == set()


def test_public_names_and_the_command_line_load_neither_spark_nor_numba_nor_scipys_functions():
    loaded = loaded_after("from eddyline import *; import eddyline.cli")
    assert {"pyarrow", "sqlglot", "numpy"} <= loaded
    assert not loaded & {"pyspark", "py4j", "pandas", "duckdb", "numba", "llvmlite", "scipy.special"}


def test_planning_does_not_load_numba():
    code = """
import eddyline
w = eddyline.Workload(budget="64 KB")
w.stream("a", "k BIGINT, x INT").stream("b", "k BIGINT")
w.query("joined", "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k").query("seen", "SELECT COUNT(DISTINCT k) FROM a")
assert "joined" in w.plan().explain()
"""
    assert not loaded_after(code) & {"pyspark", "numba", "llvmlite"}


def test_a_client_without_a_jvm_can_import_all_of_spark():
    """Without py4j and pyspark.core PySpark takes itself for pyspark-client, which only speaks Spark Connect."""
    pytest.importorskip("pyspark")
    code = """
import importlib, pkgutil, sys
sys.modules["py4j"] = sys.modules["pyspark.core"] = None
import eddyline.spark
for module in pkgutil.walk_packages(eddyline.spark.__path__, "eddyline.spark."):
    importlib.import_module(module.name)
from pyspark.util import is_remote_only
assert is_remote_only()
"""
    assert "pyspark" in loaded_after(code)


def test_every_public_name_is_listed_by_dir():
    assert set(el.__all__) <= set(dir(el))


def test_version_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert el.__version__ == project["version"]


def test_version_is_looked_up_only_when_asked_for():
    assert "__version__" not in vars(el)
    with pytest.raises(AttributeError, match="no_such_name"):
        el.no_such_name  # noqa: B018 - the lookup is what is tested
