"""Synopses: one file per kind, each a frozen spec with what updates and reads its counters."""
