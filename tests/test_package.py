"""The public face: sorted names, documented errors, and no pyspark on import."""

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


def test_import_does_not_import_pyspark():
    code = (
        "import sys, eddyline, eddyline.cli; assert not [m for m in sys.modules if m.startswith('pyspark')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version_is_that_of_the_project():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert el.__version__ == project["version"]


def test_version_is_looked_up_only_when_asked_for():
    assert "__version__" not in vars(el)
    with pytest.raises(AttributeError, match="no_such_name"):
        el.no_such_name  # noqa: B018 - the lookup is what is tested
