"""Settings of a session: those that clients expect from PostgreSQL, and our own under `eddyline.`."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from eddyline.errors import EddylineError
from eddyline.plan.size.specs import checked_confidence
from eddyline.serve.postgres.refusals import Refusal, not_supported, read_only

SERVER_VERSION = "15.0"
"""The version of PostgreSQL whose catalog and messages we follow; catalog.txt has its columns."""
CONFIDENCE, INTERVALS, SIMULTANEOUS = "eddyline.confidence", "eddyline.intervals", "eddyline.simultaneous"
AS_OF = "eddyline.as_of"
REPORTED = (
    "application_name", "client_encoding", "DateStyle", "default_transaction_read_only", "in_hot_standby",
    "integer_datetimes", "IntervalStyle", "is_superuser", "server_encoding", "server_version",
    "session_authorization", "standard_conforming_strings", "TimeZone",
)  # fmt: skip
"""Settings whose values are sent to the client at its start and when they change."""
DEFAULTS = {
    "application_name": "", "backslash_quote": "safe_encoding", "block_size": "8192", "bytea_output": "hex",
    "client_encoding": "UTF8", "client_min_messages": "notice", "datestyle": "ISO, MDY",
    "default_table_access_method": "heap", "default_tablespace": "", "default_transaction_deferrable": "off",
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on", "extra_float_digits": "1", "geqo": "off",
    "enable_seqscan": "on", "idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0",
    "in_hot_standby": "off", "integer_datetimes": "on",
    "intervalstyle": "postgres", "is_superuser": "off", "jit": "off", "lc_collate": "C.UTF-8", "lc_ctype": "C.UTF-8",
    "lc_messages": "C.UTF-8", "lc_monetary": "C.UTF-8", "lc_numeric": "C.UTF-8", "lc_time": "C.UTF-8",
    "lock_timeout": "0", "max_connections": "100", "max_identifier_length": "63", "max_index_keys": "32",
    "row_security": "on", "search_path": '"$user", public', "server_encoding": "UTF8",
    "server_version": SERVER_VERSION, "server_version_num": "150000", "session_authorization": "eddyline",
    "standard_conforming_strings": "on", "statement_timeout": "0", "synchronize_seqscans": "on", "timezone": "UTC",
    "transaction_deferrable": "off", "transaction_isolation": "repeatable read", "transaction_read_only": "on",
    "work_mem": "4MB", "maintenance_work_mem": "64MB", "escape_string_warning": "on",
    "default_text_search_config": "pg_catalog.simple", "max_parallel_workers_per_gather": "0", "xmloption": "content",
    "password_encryption": "scram-sha-256", "ssl": "off", "port": "8322", "wal_level": "replica", "fsync": "on",
    CONFIDENCE: "", INTERVALS: "off", SIMULTANEOUS: "off", AS_OF: "",
}  # fmt: skip
"""All settings by their names in lower case, as a session begins."""
_FIXED = frozenset(
    [
        "block_size",
        "in_hot_standby",
        "integer_datetimes",
        "is_superuser",
        "lc_collate",
        "lc_ctype",
        "max_connections",
        "max_identifier_length",
        "max_index_keys",
        "server_encoding",
        "server_version",
        "server_version_num",
    ]
)
_TRUE, _FALSE = (
    frozenset(("on", "true", "yes", "1", "t", "y")),
    frozenset(("off", "false", "no", "0", "f", "n")),
)
_SET = re.compile(
    r"(?:SET|RESET)\s+(?:(?P<scope>SESSION|LOCAL)\s+)?(?P<name>\"[^\"]+\"|[\w.]+)\s*(?:(?:=|\bTO\b)\s*(?P<value>.*))?$",
    re.IGNORECASE | re.DOTALL,
)
_SET_OTHER = re.compile(
    r"SET\s+(?:(?P<scope>SESSION|LOCAL)\s+)?(?P<what>TIME\s+ZONE|NAMES|ROLE|SCHEMA|SESSION\s+AUTHORIZATION|"
    r"(?:SESSION\s+)?CHARACTERISTICS\s+AS\s+TRANSACTION|TRANSACTION)\s+(?P<value>.*)$",
    re.IGNORECASE | re.DOTALL,
)


@dataclass
class Settings:
    """The settings of one session; `changed` are those that must be sent to the client."""

    values: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    changed: list[str] = field(default_factory=list)
    _start: dict[str, str] = field(default_factory=dict)
    _before: dict[str, str] | None = None
    _local: dict[str, str] = field(default_factory=dict)

    def started(self, given: Mapping[str, str]) -> None:
        """Apply the settings that a client sends with its first packet."""
        for name, value in given.items():
            if name.lower() in DEFAULTS or "." in name:
                self.set(name, value)
        self._start = dict(self.values)
        self.changed.clear()

    def get(self, name: str) -> str:
        """Return a setting, or raise Refusal 42704 if it does not exist."""
        found = self.values.get(_ALIASES.get(name.lower(), name.lower()))
        if found is None:
            raise Refusal("42704", f'unrecognized configuration parameter "{name}"')
        return found

    def reported(self) -> Iterator[tuple[str, str]]:
        """Yield the settings that a client follows."""
        for name in REPORTED:
            yield name, self.values[name.lower()]

    def is_on(self, name: str) -> bool:
        """Return whether a setting is on."""
        return self.values[name] in _TRUE

    @property
    def confidence(self) -> float | None:
        """The confidence of intervals, None for that of the plan."""
        return float(self.values[CONFIDENCE]) if self.values[CONFIDENCE] else None

    def set(self, name: str, value: str, *, local: bool = False) -> None:
        """Change a setting; Refusal 22023 if the value is not valid for it."""
        key = name.lower()
        if key in _FIXED:
            if value != self.values[key]:
                raise Refusal("55P02", f'parameter "{name}" cannot be changed')
            return
        if key not in DEFAULTS and ("." not in key or key.startswith("eddyline.")):
            hint = f"Ours are {AS_OF}, {CONFIDENCE}, {INTERVALS} and {SIMULTANEOUS}." if "." in key else ""
            raise Refusal("42704", f'unrecognized configuration parameter "{name}"', hint=hint)
        checked = _CHECKS[key](value) if key in _CHECKS else value
        if local:
            self._local.setdefault(key, self.values.get(key, ""))
        if self.values.get(key) != checked:
            self.values[key] = checked
            self._report(key)

    def _report(self, key: str) -> None:
        self.changed += [name for name in REPORTED if name.lower() == key]

    def run_set(self, text: str) -> None:
        """Run a SET statement."""
        other = _SET_OTHER.match(text)
        if other is not None and not _SET_EQUALS.match(text):
            self._set_other(" ".join(other["what"].upper().split()), other["value"])
            return
        found = _SET.match(text)
        if found is None or found["value"] is None:
            raise Refusal("42601", "SET cannot be read", hint="Write SET name = value.")
        name, value = found["name"].strip('"'), _value(found["value"])
        local = (found["scope"] or "").upper() == "LOCAL"
        if value.upper() == "DEFAULT" and found["value"].strip()[:1] not in "'\"":
            self.reset(name)
        else:
            self.set(name, value, local=local)

    def _set_other(self, what: str, given: str) -> None:
        value = _value(given)
        if what == "TIME ZONE":
            self.set("timezone", DEFAULTS["timezone"] if value.upper() in ("DEFAULT", "LOCAL") else value)
        elif what == "NAMES":
            self.set("client_encoding", value)
        elif what == "SCHEMA":
            self.set("search_path", value)
        elif what in ("ROLE", "SESSION AUTHORIZATION"):
            if value.upper() not in ("NONE", "DEFAULT"):
                raise not_supported("roles are not supported: every client may read everything")
        elif re.search(r"\bREAD\s+WRITE\b", given, re.IGNORECASE) and what == "TRANSACTION":
            raise read_only("SET TRANSACTION READ WRITE")

    def run_reset(self, text: str) -> None:
        """Run a RESET statement."""
        found = _SET.match(text)
        if found is None:
            raise Refusal("42601", "RESET cannot be read", hint="Write RESET name, or RESET ALL.")
        name = found["name"].strip('"')
        if name.upper() == "ALL":
            for each in list(self.values):
                self.reset(each)
        elif name.upper() not in ("ROLE", "SESSION"):
            self.reset(name)

    def reset(self, name: str) -> None:
        """Reset a setting to its value at the start of the session."""
        key, before = name.lower(), self.values.get(name.lower())
        if before is None:
            raise Refusal("42704", f'unrecognized configuration parameter "{name}"')
        self.values[key] = self._start.get(key, DEFAULTS.get(key, ""))
        if self.values[key] != before:
            self._report(key)

    def begin(self) -> None:
        """Save the settings at the start of a transaction."""
        self._before, self._local = dict(self.values), {}

    def end(self, *, committed: bool) -> None:
        """Keep the settings of a transaction, without local ones, or restore those before it."""
        goal = {**self.values, **self._local} if committed or self._before is None else self._before
        for key in [key for key in self.values if self.values[key] != goal.get(key, "")]:
            self.values[key] = goal.get(key, "")
            self._report(key)
        self._before, self._local = None, {}


_SET_EQUALS = re.compile(r"SET\s+(?:(?:SESSION|LOCAL)\s+)?\w+\s*(=|\bTO\b)", re.IGNORECASE)
_ALIASES = {
    "transaction isolation level": "transaction_isolation",
    "time zone": "timezone",
    "names": "client_encoding",
}


def show_name(text: str) -> str:
    """Return the name that a SHOW statement asks for."""
    return " ".join(text.split()[1:]).strip('"').rstrip(";")


def shown_name(name: str) -> str:
    """Return a setting's name as PostgreSQL writes it: TimeZone, DateStyle."""
    key = _ALIASES.get(name.lower(), name.lower())
    return next((each for each in REPORTED if each.lower() == key), key)


def _value(given: str) -> str:
    """Return a value of SET without its quotation marks."""
    parts = [part.strip() for part in given.strip().split(",")] if "'" not in given else [given.strip()]
    plain = [p[1:-1].replace("''", "'") if p[:1] == "'" == p[-1:] and len(p) > 1 else p for p in parts]
    return ", ".join(plain)


def _truth(value: str) -> str:
    if value.lower() in _TRUE:
        return "on"
    if value.lower() in _FALSE:
        return "off"
    raise Refusal("22023", f"{value!r} is neither on nor off")


def _encoding(value: str) -> str:
    if value.strip("'").lower().replace("-", "").replace("_", "") not in ("utf8", "unicode", "sqlascii"):
        raise Refusal("22023", f"the encoding {value!r} is not supported", hint="Use UTF8.")
    return "UTF8"


def _date_style(value: str) -> str:
    parts = [part.strip().upper() for part in value.split(",")]
    if not all(part in ("ISO", "MDY", "DMY", "YMD", "US", "EURO", "EUROPEAN") for part in parts):
        raise Refusal("22023", f"the date style {value!r} is not supported", hint="Use ISO.")
    return "ISO, MDY"


def _interval_style(value: str) -> str:
    if value.lower() not in ("postgres", "iso_8601", "sql_standard", "postgres_verbose"):
        raise Refusal("22023", f"the interval style {value!r} does not exist")
    return "postgres"


def _confidence(value: str) -> str:
    if not value:
        return value
    try:
        return repr(checked_confidence(float(value)))
    except (ValueError, EddylineError) as error:
        sentence = f"{CONFIDENCE} = {value!r} is not a number between 0.5 and 1"
        raise Refusal("22023", sentence, hint="Write SET eddyline.confidence = 0.99.") from error


def _read_only(value: str) -> str:
    if _truth(value) == "off":
        raise read_only("a transaction that writes")
    return "on"


_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7, "": 1.0}


def _duration(value: str) -> str:
    found = re.fullmatch(r"\s*(\d+)\s*(us|ms|s|min|h|d|)\s*", value)
    if found is None:
        raise Refusal("22023", f"{value!r} is not a duration", hint="Write milliseconds, or '5s'.")
    return str(int(int(found[1]) * _MILLISECONDS[found[2]]))


_CHECKS: dict[str, Callable[[str], str]] = {
    "client_encoding": _encoding,
    "datestyle": _date_style,
    "intervalstyle": _interval_style,
    "default_transaction_read_only": lambda _: (
        "on"
    ),  # tools set it to off before they read; writes are refused anyway
    "transaction_read_only": _read_only,
    "standard_conforming_strings": lambda value: value if _truth(value) == "on" else _truth("on"),
    "statement_timeout": _duration,
    CONFIDENCE: _confidence,
    INTERVALS: _truth,
    SIMULTANEOUS: _truth,
}
