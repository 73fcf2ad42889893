"""A fleet of sensors, for judging: a hierarchy of regions, sites and devices, with readings and alarms by the hour."""

import numpy as np

from bank.dataset import Data
from bank.draws import at_once, table

_HOUR = "readings.device = alarms.device AND readings.hour = alarms.hour"
QUERIES = {
    "alarmed_readings": f"SELECT COUNT(*) FROM readings JOIN alarms ON {_HOUR}",
    "value_under_alarm": f"SELECT SUM(readings.value) FROM readings JOIN alarms ON {_HOUR} WHERE alarms.level >= 2",
    "mean_by_model": (
        "SELECT AVG(readings.value) FROM devices JOIN readings ON devices.device = readings.device "
        "WHERE devices.model = 3"
    ),
    "repeated_alarms": "SELECT COUNT(*) FROM alarms x JOIN alarms y ON x.device = y.device",
    "site_alarms": (
        "SELECT COUNT(*) FROM sites JOIN devices ON sites.site = devices.site "
        "JOIN alarms ON devices.device = alarms.device WHERE sites.region = 1"
    ),
    "site_values": (
        "SELECT SUM(readings.value) FROM sites JOIN devices ON sites.site = devices.site "
        "JOIN readings ON devices.device = readings.device WHERE sites.region <= 1"
    ),
    "alarmed_site_readings": (
        "SELECT COUNT(*) FROM sites JOIN devices ON sites.site = devices.site "
        f"JOIN readings ON devices.device = readings.device JOIN alarms ON {_HOUR}"
    ),
    "neighbours_alarmed": (
        "SELECT COUNT(*) FROM devices x JOIN devices y ON x.site = y.site JOIN alarms ON y.device = alarms.device"
    ),
    "alarmed_devices": "SELECT COUNT(DISTINCT device) FROM alarms",
    "quiet_devices": "SELECT COUNT(*) FROM (SELECT device FROM readings EXCEPT SELECT device FROM alarms)",
}


def sensors(seed: int, size: int, *, spread: float) -> Data:
    """Return sites of very different sizes; devices that break raise alarms for hours, and are replaced.

    spread: of the lognormal number of devices at a site. A tenth of the alarms are withdrawn (deleted) later.
    """
    rng = np.random.default_rng([seed, 14, int(100 * spread)])
    sites = max(size // 400, 4)
    weight = np.exp(rng.normal(0, spread, sites))
    devices = max(size // 30, 10)
    site = np.sort(rng.choice(sites, devices, p=weight / weight.sum()))
    device = 10_000 * site + np.arange(devices)
    rate = np.exp(rng.normal(0, 0.7, devices))
    who = np.repeat(np.arange(devices), rng.poisson(rate / rate.mean() * 0.7 * size / devices))
    hour = rng.integers(0, 24 * 30, len(who))
    value = np.rint(20 + 5 * (site[who] % 7) + 10 * np.exp(rng.normal(0, 0.8, len(who)))).astype(np.int64)
    breaks, fault = rng.integers(0, 24 * 30, devices), rng.random(devices) < 0.2
    at = np.repeat(np.flatnonzero(fault), rng.geometric(devices / size * 1.2, int(fault.sum())))
    when = np.minimum(breaks[at] + rng.integers(0, 30, len(at)), 24 * 30 - 1)
    alarms = {"device": device[at], "hour": when, "level": rng.integers(0, 4, len(at))}
    born = (when + 0.5) / 720
    dies = np.where(rng.random(len(at)) < 0.1, born + 0.05, np.inf)
    kept = {"device": device, "site": site, "model": (site + rng.integers(0, 3, devices)) % 6}
    tables = {
        "sites": at_once(
            "site BIGINT, region BIGINT", {"site": np.arange(sites), "region": np.arange(sites) % 5}
        ),
        "devices": at_once("device BIGINT, site BIGINT, model BIGINT", kept),
        "readings": table(
            "device BIGINT, hour BIGINT, value BIGINT",
            {"device": device[who], "hour": hour, "value": value},
            (hour + rng.random(len(who))) / 720,
        ),
        "alarms": table("device BIGINT, hour BIGINT, level BIGINT", alarms, born, dies),
    }
    return Data(tables, QUERIES, seed)
