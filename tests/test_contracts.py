"""The import contracts in pyproject.toml cover every package (`lint-imports` checks what they say)."""

import pkgutil
import tomllib
from pathlib import Path

import pytest

import eddyline

PACKAGES = {module.name for module in pkgutil.iter_modules(eddyline.__path__, "eddyline.")}
CONTRACTS = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["tool"][
    "importlinter"
]
FORBIDDEN = [contract for contract in CONTRACTS["contracts"] if contract["type"] == "forbidden"]
ALLOWED = {
    "pyspark": {"eddyline.spark"},
    "sqlglot": {"eddyline.sql", "eddyline.expressions"},
    "starlette": {"eddyline.serve"},
    "numba": {"eddyline.kernels"},
    "duckdb": {"eddyline.serve"},  # and one module of answer/, which the contract names
    "matplotlib": set(),  # one module is allowed, which the contract names
}


@pytest.mark.parametrize("contract", FORBIDDEN, ids=lambda contract: contract["name"])
def test_every_package_but_the_allowed_ones_is_forbidden_the_module(contract):
    (forbidden,) = contract["forbidden_modules"]
    assert set(contract["source_modules"]) == PACKAGES - ALLOWED[forbidden]


def test_every_restricted_module_has_its_contract():
    assert {contract["forbidden_modules"][0] for contract in FORBIDDEN} == set(ALLOWED)
