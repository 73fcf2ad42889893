"""Synopses: one file per family, each a frozen spec with what updates and reads its counters."""
