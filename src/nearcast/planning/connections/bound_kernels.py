"""The hot loops of the M1 bound: cheapest labels under prices, and better prices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray

__all__ = ["Labels", "Prices", "Shares", "improve_prices", "label_clients", "proven_ms"]


class Labels(NamedTuple):
    """What a client may choose: a near server, one further away, or the cloud."""

    server: IndexArray
    """Near servers [client, rank]."""
    leg_ms: FloatArray
    """Weight times delay to them [client, rank]."""
    outside_ms: FloatArray
    """Weight times the least delay to any other server [client]."""
    cloud_ms: FloatArray
    """Weight times the cloud delay [client]."""
    pin_start: OffsetArray
    """Client c publishes the pins pin_start[c]:pin_start[c + 1], one a topic."""
    pin_client: IndexArray
    block_start: OffsetArray
    """A block is a (topic, server); its entries: entry[block_start[b]:block_start[b + 1]]."""
    entry: OffsetArray
    """pin * ranks + rank."""
    block_server: IndexArray
    block_spool: FloatArray
    storage: FloatArray
    client_limit: FloatArray


class Prices(NamedTuple):
    """Lagrange multipliers; any values give a valid bound, see `bound_connections`."""

    storage: FloatArray
    """Per unit of storage [server]."""
    client: FloatArray
    """Per client at home [server]."""
    client_most: FloatArray
    """Largest valid price per client [server]."""
    split: FloatArray
    """What a publisher pays of the price of its topic at a server [pin, rank]."""


class Shares(NamedTuple):
    """Answer of the clients to the prices."""

    share: FloatArray
    """Soft choice of a near server [client, rank]."""
    regret_ms: FloatArray
    """Soft minimum of all labels minus this label, by pin [client, rank]."""


@njit(cache=True)
def label_clients(labels: Labels, prices: Prices, shares: Shares, soft_ms: float) -> float:
    """Let every client choose; return the sum of the cheapest labels."""
    clients, ranks = labels.server.shape
    cost = np.empty(ranks)
    total = 0.0
    for client in range(clients):
        anywhere = labels.outside_ms[client]
        for rank in range(ranks):
            cost[rank] = labels.leg_ms[client, rank] + prices.client[labels.server[client, rank]]
            anywhere = min(anywhere, cost[rank])
        for pin in range(labels.pin_start[client], labels.pin_start[client + 1]):
            for rank in range(ranks):
                cost[rank] += prices.split[pin, rank]
        away = min(anywhere + labels.cloud_ms[client], labels.outside_ms[client])
        cheapest = min(away, cost.min())
        total += cheapest
        norm = np.exp((cheapest - away) / soft_ms)
        for rank in range(ranks):
            shares.share[client, rank] = np.exp((cheapest - cost[rank]) / soft_ms)
            norm += shares.share[client, rank]
        soft = cheapest - soft_ms * np.log(norm)
        pins = max(labels.pin_start[client + 1] - labels.pin_start[client], 1)
        for rank in range(ranks):
            shares.share[client, rank] /= norm
            shares.regret_ms[client, rank] = (soft - cost[rank]) / pins
    return total


@njit(cache=True)
def proven_ms(labels: Labels, prices: Prices, cheapest_ms: float) -> float:
    """Return the bound of these prices: the labels minus what the limits are worth."""
    price = np.zeros(len(labels.storage))
    split = prices.split.ravel()
    for block in range(len(labels.block_spool)):
        paid = 0.0
        for at in range(labels.block_start[block], labels.block_start[block + 1]):
            paid += split[labels.entry[at]]
        server = labels.block_server[block]
        # The price that these splits need, free of rounding.
        price[server] = max(price[server], paid / labels.block_spool[block])
    bound = cheapest_ms
    for server in range(len(price)):
        if price[server] > 0.0:
            bound -= price[server] * labels.storage[server]
        if prices.client[server] > 0.0:
            bound -= prices.client[server] * labels.client_limit[server]
    return bound


@njit(cache=True)
def _step(
    labels: Labels, prices: Prices, shares: Shares, step_ms: float, mean_spool: float
) -> None:
    """Raise the prices where the clients' answer exceeds a limit, lower them elsewhere."""
    clients, ranks = labels.server.shape
    share = shares.share
    used = np.zeros(len(labels.storage))
    here = np.zeros(len(labels.storage))
    for client in range(clients):
        for rank in range(ranks):
            here[labels.server[client, rank]] += share[client, rank]
    for block in range(len(labels.block_spool)):
        most = 0.0
        for at in range(labels.block_start[block], labels.block_start[block + 1]):
            pin, rank = divmod(labels.entry[at], ranks)
            most = max(most, share[labels.pin_client[pin], rank])
        used[labels.block_server[block]] += most * labels.block_spool[block]
    for server in range(len(used)):
        over = used[server] / max(labels.storage[server], 1e-12) - 1.0
        step = step_ms / mean_spool * min(over, 1.0)
        prices.storage[server] = max(prices.storage[server] + step, 0.0)
        over = here[server] / max(labels.client_limit[server], 1e-12) - 1.0
        price = max(prices.client[server] + step_ms * min(over, 1.0), 0.0)
        prices.client[server] = min(price, prices.client_most[server])


@njit(cache=True)
def improve_prices(
    labels: Labels, prices: Prices, shares: Shares, step_ms: float, mean_spool: float
) -> None:
    """Change the prices, and split them anew over the publishers of each topic.

    A publisher that would not go there anyway (large regret) pays less, one that goes more:
    the split moves along the regret and is projected on "not negative, sums to the price".
    """
    ranks = labels.server.shape[1]
    _step(labels, prices, shares, step_ms, mean_spool)
    split = prices.split.ravel()
    for block in range(len(labels.block_spool)):
        begin, end = labels.block_start[block], labels.block_start[block + 1]
        price = prices.storage[labels.block_server[block]] * labels.block_spool[block]
        total = 0.0
        for at in range(begin, end):
            pin, rank = divmod(labels.entry[at], ranks)
            split[labels.entry[at]] += shares.regret_ms[labels.pin_client[pin], rank]
            total += split[labels.entry[at]]
        active, level = end - begin, (total - price) / (end - begin)
        while True:
            total, kept = 0.0, 0
            for at in range(begin, end):
                if split[labels.entry[at]] > level:
                    total += split[labels.entry[at]]
                    kept += 1
            if kept == active or kept == 0:
                break
            active, level = kept, (total - price) / kept
        for at in range(begin, end):
            split[labels.entry[at]] = max(split[labels.entry[at]] - level, 0.0)
