"""The relaxed M2 problem in which clients choose labels under prices: arrays and sweeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nearcast.delay.ratio import RatioProblem
from nearcast.delay.slots import sum_by
from nearcast.domain.scenario import FloatArray, IndexArray, OffsetArray

__all__ = ["Relaxation", "relax"]

_LONGEST_WINDOW = 64
_FEW_SERVERS, _SHORT_WINDOW = 4, 4
"""Servers are given up before pairs down to these, as many again and the pairs after them."""
_MESSAGE_BYTES, _SHARE_BYTES = 4, 8
_SOFTNESS = 0.02
"""Temperature of the soft choice that estimates loads, ms of summed delay."""


@dataclass(slots=True, eq=False)
class Relaxation:
    """The state of the bound: potentials, messages, shares of spools and prices."""

    problem: RatioProblem
    server: IndexArray
    """Home [client, label]; see `bound_pair_kernels`."""
    near: int
    """Labels "local at a given server"."""
    far_leg: FloatArray
    """Leg to the nearest home beyond the near ones and to the nearest of all [client, 2]; or empty."""
    place: FloatArray
    """Clients' positions in ms [client, axis]; see `bound_pair_kernels`."""
    site: FloatArray
    """Servers' positions in ms [server, axis]; all 0 when delays were measured."""
    base: FloatArray
    """Legs and cloud delay [client, label]."""
    between: FloatArray
    """Server to server delay, with a row and a column of 0 for "somewhere else"."""
    between32: npt.NDArray[np.float32]
    symmetric: bool
    """Whether `between` is."""
    load: FloatArray
    """Compute that a client needs at its home [client]."""
    publishers: FloatArray
    """Publishers [topic]."""
    pair_start: OffsetArray
    message: npt.NDArray[np.float32]
    potential: FloatArray
    spool_share: FloatArray
    """Of the storage price [member, near label]; or empty, then storage has no price."""
    storage_price: FloatArray
    compute_price: FloatArray
    sweeps: int = 0
    """Rounds made over all pairs."""

    @property
    def far(self) -> bool:
        """Whether the label after the near ones is "local somewhere else"."""
        return len(self.far_leg) > 0

    def sweep(self) -> None:
        """Pass messages over all pairs, in alternating direction, and share the spools' prices."""
        from nearcast.planning.ratio.bound_kernels import add_shared_spools
        from nearcast.planning.ratio.bound_pair_kernels import exchange_messages

        problem = self.problem
        exchange_messages(
            self.potential,
            self.message,
            self.pair_start,
            problem.member_client,
            problem.publish_weight,
            problem.subscribes,
            self.server,
            self.near,
            self.far_leg,
            self.place,
            self.site,
            self.between32,
            self.symmetric,
            self.sweeps % 2 == 1,
        )
        self.sweeps += 1
        if self.storage_price.any():
            add_shared_spools(
                self.potential,
                self.spool_share,
                problem.topic_start,
                problem.member_client,
                problem.publishes,
                self.server,
                self.near,
                self.storage_price,
                problem.spool,
            )

    def value(self) -> float:
        """Return the bound of the summed delay, to single precision."""
        return float(self.potential.min(axis=1).sum()) - self._paid()

    def _paid(self) -> float:
        problem = self.problem
        return float(self.storage_price @ problem.storage + self.compute_price @ problem.compute)

    def proven_value(self) -> float:
        """Return the bound of the summed delay that the messages prove."""
        from nearcast.planning.ratio.bound_pair_kernels import bound_value

        problem = self.problem
        start = self.base.copy()
        price = self.compute_price[self.server[:, : self.near]]
        start[:, : self.near] += self.load[:, None] * price
        if self.far:
            start[:, self.near] += self.load * self.compute_price.min()
        kept = bound_value(
            start,
            self.spool_share,
            self.message,
            self.pair_start,
            problem.member_client,
            problem.publish_weight,
            problem.subscribes,
            self.server,
            self.near,
            self.far_leg,
            self.place,
            self.site,
            self.between,
            self.symmetric,
        )
        return float(kept) - self._paid()

    def prices(self) -> tuple[FloatArray, FloatArray]:
        """Return the prices of storage and compute [server]."""
        return self.storage_price, self.compute_price

    def set_prices(self, storage_price: FloatArray, compute_price: FloatArray) -> None:
        """Change the prices."""
        from nearcast.planning.ratio.bound_kernels import change_prices

        if not len(self.spool_share):
            storage_price = np.zeros_like(storage_price)
        problem = self.problem
        change_prices(
            self.potential,
            self.spool_share,
            problem.client_start,
            problem.client_member,
            problem.member_topic,
            self.publishers,
            problem.publishes,
            self.server,
            self.near,
            self.far,
            self.load,
            problem.spool,
            self.storage_price,
            self.compute_price,
            storage_price,
            compute_price,
        )
        self.storage_price, self.compute_price = storage_price, compute_price

    def loads(self) -> tuple[FloatArray, FloatArray]:
        """Return storage and compute that the clients' present choice uses [server]."""
        from nearcast.planning.ratio.bound_kernels import soft_loads

        problem = self.problem
        storage, compute = soft_loads(
            self.potential,
            problem.topic_start,
            problem.member_client,
            problem.publishes,
            self.server,
            self.near,
            problem.spool,
            len(problem.storage),
            _SOFTNESS,
        )
        return storage if len(self.spool_share) else np.zeros_like(storage), compute

    def scarcity(self) -> tuple[float, float]:
        """Return the least total use of storage and of compute without cloud, in parts of the limits."""
        problem = self.problem
        storage = float(problem.spool @ (self.publishers > 0))
        totals = (problem.storage.sum(), problem.compute.sum())
        used = (storage if len(self.spool_share) else 0.0, float(self.load.sum()))
        return used[0] / max(totals[0], 1e-300), used[1] / max(totals[1], 1e-300)

    def cloud_price(self, kind: int) -> float:
        """Return the price of storage (0) or compute (1) at which the first topic prefers the cloud."""
        problem = self.problem
        used = problem.spool if kind else problem.spool / np.maximum(self.publishers, 1)
        most = float(np.max(used, initial=0.0))
        return 2 * problem.network.cloud_ms / most if most > 0 else 0.0


def relax(problem: RatioProblem, near_servers: int, memory_bytes: int) -> Relaxation:
    """Return the relaxation without prices and messages.

    With few servers every client has all of them, each local or cloud. With many it has its
    nearest, one label for all homes beyond, and one for the cloud from any home.

    Parameters
    ----------
    near_servers : how many it has, where memory allows.
    memory_bytes : what messages and shares of spools may take together. Fewer servers, then fewer
        pairs, down to none, then no prices of storage: each leaves a weaker bound that holds.
    """
    from nearcast.planning.ratio.bound_pair_kernels import pair_offsets

    network, clients = problem.network, problem.network.client_count
    servers, members = network.server_count, len(problem.member_client)
    near, window = min(near_servers, servers), _LONGEST_WINDOW
    pair_start = pair_offsets(problem.topic_start, window)
    while _memory_bytes(int(pair_start[-1]), members, near, servers) > memory_bytes:
        if near > _FEW_SERVERS or (near > 1 and window == _SHORT_WINDOW):
            near -= 1
        elif window > 0:
            window //= 2
            pair_start = pair_offsets(problem.topic_start, window)
        else:
            members = 0
            break
    far = near < servers
    leg, server = _labels(problem, near, far)
    far_leg = leg[:, near:].copy() if far else np.empty((0, 2))
    delivering = sum_by(problem.member_client, problem.publish_weight > 0, clients)
    leg *= problem.leg_weight[:, None]
    cloud = slice(near + far, None)
    leg[:, cloud] += 2 * network.cloud_ms * delivering[:, None]
    between = np.zeros((servers + 1, servers + 1))
    between[:servers, :servers] = network.server_server_ms
    spool = problem.spool[problem.member_topic]
    # Measured delays need not obey the triangle inequality: at one point all legs are 0.
    scale = network.ms_per_km if network.has_geometry else 0.0
    return Relaxation(
        problem=problem,
        server=server,
        near=near,
        far_leg=far_leg,
        place=scale * np.column_stack([network.client_x_km, network.client_y_km]),
        site=scale * np.column_stack([network.server_x_km, network.server_y_km]),
        base=leg,
        between=between,
        between32=between.astype(np.float32),
        symmetric=bool(np.array_equal(between, between.T)),
        load=sum_by(problem.member_client, spool * problem.publishes, clients),
        publishers=sum_by(problem.member_topic, problem.publishes, problem.topic_count),
        pair_start=pair_start,
        message=np.zeros((int(pair_start[-1]), 2, leg.shape[1]), dtype=np.float32),
        potential=leg.copy(),
        spool_share=np.zeros((members, near)),
        storage_price=np.zeros(servers),
        compute_price=np.zeros(servers),
    )


def _memory_bytes(pairs: int, members: int, near: int, servers: int) -> int:
    """Return what messages and shares take with so many near servers."""
    labels = near + 2 if near < servers else 2 * near
    return pairs * 2 * labels * _MESSAGE_BYTES + members * near * _SHARE_BYTES


def _labels(problem: RatioProblem, near: int, far: bool) -> tuple[FloatArray, IndexArray]:
    """Return the leg and the home of each label [client, label]."""
    network, clients = problem.network, problem.network.client_count
    if not far:
        leg = network.leg_matrix_ms()
        server = np.tile(np.arange(near, dtype=np.int32), (clients, 1))
        return np.hstack([leg, leg]), np.hstack([server, server])
    delay, index = network.nearest_servers(near + 1)
    leg = np.hstack([delay, delay[:, :1]])
    beyond = np.full((clients, 2), network.server_count, dtype=np.int32)
    return leg, np.hstack([index[:, :near], beyond])
