"""The candidate table: which keys may be dense, by votes in small sets of slots.

A key may be in one of the WAYS slots of its set. A key that is there accumulates its weights as votes. A key
that is not there replaces the slot with the fewest votes c with probability |v| / (c + |v|), and starts with
c + |v| votes (Ben Basat et al., "Randomized admission policy", INFOCOM 2017): a frequent key enters
sooner or later and stays, rare keys rarely disturb. Votes are signed: deletes subtract what inserts added,
and the delete of a key that is not there subtracts, with that probability, from the votes that it left behind.

Layout of a set in int64 words: WAYS keys, then their votes, four to a word, then for keys that represent tuples
(their slot key is a hash) the parts of each slot's tuple. A vote has 16 bits: a sign,
5 bits of exponent, 10 of mantissa; growing votes are rounded at random, so they are correct on average.
"""

import numpy as np

from eddyline.kernels.hashing import mix_word
from eddyline.kernels.jit import inlined, kernel

WAYS = 8
SET_WORDS = WAYS + WAYS // 4
_U = np.uint64
_I = np.int64
_LARGEST = _I(2047) << _I(30)


@inlined
def decode_vote(code: np.int64) -> np.int64:
    """Return the votes that a 16-bit code represents."""
    mantissa = code & _I(1023)
    exponent = (code >> _I(10)) & _I(31)
    size = mantissa if exponent == 0 else (mantissa + _I(1024)) << (exponent - _I(1))
    return -size if code & _I(32768) else size


@inlined
def encode_vote(votes: np.int64, random: np.int64) -> np.int64:
    """Return the 16-bit code of the votes, rounded up depending on the random bits."""
    size = min(abs(votes), _LARGEST)
    shift = _I(0)
    while size >> shift >= _I(2048):
        shift += _I(1)
    size = (size + (random & ((_I(1) << shift) - _I(1)))) >> shift
    if size == _I(2048):
        size = _I(1024)
        shift += _I(1)
    code = size if size < _I(1024) else ((shift + _I(1)) << _I(10)) | (size - _I(1024))
    return code | _I(32768) if votes < 0 and code > 0 else code


@inlined
def set_of(key: np.uint64, params: np.ndarray, sets: int) -> np.int64:
    """Return the set of a key."""
    return _I(((mix_word(key, params) >> _U(32)) * _U(sets)) >> _U(32))


@kernel("out")
def sets_of(keys: np.ndarray, params: np.ndarray, sets: int, out: np.ndarray) -> None:
    """Fill out (n,) with the set of each key."""
    for i in range(keys.shape[0]):
        out[i] = set_of(keys[i], params, sets)


@kernel("out")
def decode_votes(codes: np.ndarray, out: np.ndarray) -> None:
    """Fill out with the votes of each code."""
    for i in range(codes.shape[0]):
        out[i] = decode_vote(codes[i])


@kernel("out")
def encode_votes(votes: np.ndarray, out: np.ndarray) -> None:
    """Fill out with the code of each number of votes, rounded down."""
    for i in range(votes.shape[0]):
        out[i] = encode_vote(votes[i], _I(0))


@inlined
def _code(slots: np.ndarray, place: int) -> np.int64:
    """Return the vote of a slot as its 16-bit code."""
    return _I((slots[WAYS + (place >> 2)] >> _I(16 * (place & 3))) & _I(65535))


@inlined
def _weakest(slots: np.ndarray) -> int:
    """Return the first slot with the fewest votes: codes without their sign have the same order as votes."""
    place = 0
    fewest = _I(65536)
    for j in range(WAYS):
        size = _code(slots, j) & _I(32767)
        if size < fewest:
            fewest = size
            place = j
    return place


@kernel("body")
def observe_keys(
    body: np.ndarray,
    keys: np.ndarray,
    parts: np.ndarray,
    weights: np.ndarray,
    params: np.ndarray,
    state: np.uint64,
) -> np.uint64:
    """Let weighted keys vote, in place, and return the next state of the random numbers.

    body: int64 (sets, SET_WORDS + WAYS * parts); keys uint64 (n,), their parts uint64 (parts, n), weights int64
    (n,). At most two words and the parts are written for a key, and usually nothing for a rare one.
    """
    sets = body.shape[0]
    for i in range(keys.shape[0]):
        key = _I(keys[i])
        weight = weights[i]
        if weight == 0:
            continue
        slots = body[set_of(keys[i], params, sets)]
        place = -1
        for j in range(WAYS):
            if slots[j] == key and _code(slots, j) != 0:
                place = j
        state ^= state << _U(13)
        state ^= state >> _U(7)
        state ^= state << _U(17)
        random = _I(state >> _U(1))
        if place >= 0:
            votes = decode_vote(_code(slots, place)) + weight
        else:
            place = _weakest(slots)
            held = decode_vote(_code(slots, place))
            total = abs(held) + abs(weight)
            if float(random) * float(total) >= float(abs(weight)) * 9223372036854775808.0:
                continue
            if weight < 0 < held:
                votes = max(held + weight, _I(0))
            else:
                slots[place] = key
                for j in range(parts.shape[0]):
                    slots[SET_WORDS + place * parts.shape[0] + j] = _I(parts[j, i])
                votes = weight + held if weight < 0 else weight + max(held, _I(0))
        word = WAYS + (place >> 2)
        offset = _I(16 * (place & 3))
        kept = slots[word] & ~(_I(65535) << offset)
        slots[word] = kept | (encode_vote(votes, random) << offset)
    return state
