"""The public face: sorted names, documented errors, and no pyspark on import."""

import subprocess
import sys

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
