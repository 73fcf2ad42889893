"""Values as Kafka Connect encodes them in JSON, read slowly and obviously: bit by bit, and by fractions."""

import base64
from datetime import datetime, timedelta
from fractions import Fraction


def base64_integer(text):
    """The integer of two's complement bytes: each bit counts its power of two, the first one negatively."""
    bits = "".join(f"{byte:08b}" for byte in base64.b64decode(text))
    return sum(
        (-1 if place == 0 else 1) * 2 ** (len(bits) - 1 - place)
        for place, bit in enumerate(bits)
        if bit == "1"
    )


def in_decimal(number, precision, scale):
    """A fraction as a given number of units of 10^-scale, None if DECIMAL(precision, scale) does not hold it exactly."""
    units = Fraction(number) * 10**scale
    return int(units) if units.denominator == 1 and abs(units) < 10**precision else None


def wall_time(number, unit):
    """The time that is a number of units ("ms", "us", "ns") after 1970, to the microsecond before it."""
    micros = Fraction(number * {"ms": 1000, "us": 1}[unit]) if unit != "ns" else Fraction(number, 1000)
    return datetime(1970, 1, 1) + timedelta(microseconds=micros.__floor__())
