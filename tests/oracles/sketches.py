"""The slow, obvious oracle of each algorithm: dictionaries and Python integers."""

from collections import Counter

from eddyline.kernels.hashing import PRIME61
from eddyline.sketch.keys import parameters

MASK64 = (1 << 64) - 1
P61 = int(PRIME61)


def net(keys, weights):
    """The net frequency of each key."""
    frequency = Counter()
    for key, weight in zip(keys, weights, strict=True):
        frequency[key] += weight
    return {key: count for key, count in frequency.items() if count}


def mix_word(key, params):
    word = (key ^ params[0]) & MASK64
    word ^= word >> 32
    word = word * params[1] & MASK64
    word ^= word >> 29
    word = word * params[2] & MASK64
    return word ^ word >> 32


def poly4_word(key, params):
    x = ((key & 0xFFFFFFFF) + (key >> 32) * params[4]) % P61
    value = (params[0] + params[1] * x + params[2] * x**2 + params[3] * x**3) % P61
    return value | value >> 60 << 63


WORDS = {"mix": mix_word, "poly4": poly4_word}


def words_of(spec, keys, function):
    """The hash word of each edge's key under one function (row or copy) of a spec."""
    functions = spec.words if type(spec).__name__ == "AgmsSpec" else spec.depth
    params = parameters(spec.hash, spec.seeds, functions)
    return [
        WORDS[spec.hash](key & MASK64, [int(p) for p in params[e, function]]) for e, key in enumerate(keys)
    ]


def sign_of(words):
    sign = 1
    for word in words:
        sign *= -1 if word >> 63 else 1
    return sign


def hash_sketch(spec, rows):
    """Counters of a hash sketch from (keys of all edges, weight) rows."""
    counters = [[0] * spec.width for _ in range(spec.depth)]
    for keys, weight in rows:
        for p in range(spec.depth):
            words = words_of(spec, keys, p)
            bucket = sum(word % spec.width for word in words) % spec.width
            counters[p][bucket] += weight * sign_of(words)
    return [counter for row in counters for counter in row]


def agms(spec, rows):
    """Counters of an AGMS sketch from (keys of all edges, weight) rows."""
    counters = [0] * spec.words
    for keys, weight in rows:
        for c in range(spec.words):
            counters[c] += weight * sign_of(words_of(spec, keys, c))
    return counters


def join_size(f, g):
    return sum(count * g.get(key, 0) for key, count in f.items())
