"""Counters to estimates: estimators and their intervals."""
