"""Waiting for what another thread or process brings about."""

import time

import httpx


def until(holds, seconds=30):
    """Wait until something holds; what cannot be reached yet does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if holds():
                return
        except httpx.TransportError:
            pass
        time.sleep(0.02)
    raise AssertionError("it did not come about in time")
