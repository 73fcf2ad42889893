"""The bank: the data sets on which the reading of joins is chosen, and those on which it is judged.

`DATASETS` has every data set by name; `DATASETS[name].drawn(seed)` draws one, and the same seed draws the same rows.
A drawing has streams, queries, and its changes in three orders: "by_table" (stream after stream), "by_time" (all
streams together in the order of time) and "shuffled" (a random order in which no delete precedes its insert).
"""

from functools import partial

from bank import flights, graphs, growth, movies, others, sensors, shop, tpch, zipf
from bank.dataset import Dataset

_CHOOSE = [
    Dataset("zipf_chain_0.8", "choose", partial(zipf.chain, exponent=0.8, shift=0)),
    Dataset("zipf_chain_1.0_shift_10", "choose", partial(zipf.chain, exponent=1.0, shift=10)),
    Dataset("zipf_chain_1.0_shift_300", "choose", partial(zipf.chain, exponent=1.0, shift=300)),
    Dataset("zipf_chain_1.4_shift_3", "choose", partial(zipf.chain, exponent=1.4, shift=3)),
    Dataset("zipf_star_0.7", "choose", partial(zipf.star, exponent=0.7)),
    Dataset("zipf_star_1.1", "choose", partial(zipf.star, exponent=1.1)),
    Dataset("correlated_star_1.0", "choose", partial(zipf.star, exponent=1.0, together=0.6)),
    Dataset("growth_slow", "choose", partial(growth.growth, new=0.2, recent=1.0)),
    Dataset("growth_late", "choose", partial(growth.growth, new=0.2, recent=0.3)),
    Dataset("growth_late_joins", "choose", partial(growth.growth, new=0.2, recent=0.3, pairs=False)),
    Dataset("bursts_0.8", "choose", partial(growth.bursts, exponent=0.8, kept=0.15)),
    Dataset("bursts_1.1", "choose", partial(growth.bursts, exponent=1.1, kept=0.4)),
    Dataset("tpch", "choose", partial(tpch.plain, scale="0.02"), 200_000),
    Dataset("tpch_skewed_1.0", "choose", partial(tpch.skewed, scale="0.01", exponent=1.0)),
    Dataset("flights", "choose", flights.flights, 80_000),
    Dataset("movies_0.8", "choose", partial(movies.movies, exponent=0.8)),
]
_JUDGE = [
    Dataset("zipf_chain_0.9_shift_40", "judge", partial(zipf.chain, exponent=0.9, shift=40, domain=9000)),
    Dataset("zipf_chain_1.2_shift_5", "judge", partial(zipf.chain, exponent=1.2, shift=5, domain=3000)),
    Dataset("correlated_star_0.85", "judge", partial(zipf.star, exponent=0.85, together=0.35)),
    Dataset("growth_middle", "judge", partial(growth.growth, new=0.12, recent=0.6)),
    Dataset("growth_middle_joins", "judge", partial(growth.growth, new=0.12, recent=0.6, pairs=False)),
    Dataset("bursts_0.95", "judge", partial(growth.bursts, exponent=0.95, kept=0.25)),
    Dataset("tpch_refreshed", "judge", partial(tpch.refreshed, scale="0.01", years=3.0)),
    Dataset("tpch_skewed_0.7", "judge", partial(tpch.skewed, scale="0.01", exponent=0.7)),
    Dataset("movies_1.05", "judge", partial(movies.movies, exponent=1.05)),
    Dataset("paths", "judge", partial(graphs.paths, exponent=0.8)),
    Dataset("follows", "judge", graphs.follows),
    Dataset("shop", "judge", partial(shop.shop, refunded=0.2)),
    Dataset("sensors", "judge", partial(sensors.sensors, spread=1.2)),
    Dataset("cube", "judge", partial(others.cube, fill=0.5)),
    Dataset("retention", "judge", partial(others.retention, window=0.2), 200_000),
]
DATASETS = {dataset.name: dataset for dataset in (*_CHOOSE, *_JUDGE)}
