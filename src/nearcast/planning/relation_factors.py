"""Client factors: Z = V S^2 V^T from the 0/1 membership matrix M = U S V^T, never Z itself."""

from __future__ import annotations

import numpy as np

from nearcast.domain.scenario import FloatArray, Scenario

__all__ = ["dense_factors", "strongest_factors"]

_KEPT_OF_RANK = 0.8


def dense_factors(scenario: Scenario) -> FloatArray:
    """Return V S [client, factor] of the membership matrix, the smallest factors left out.

    The eigenvectors of M M^T are U and V S = M^T U, which is quicker than decomposing M itself;
    with fewer clients than topics, V are those of the (then small) M^T M. Factors as strong as
    the weakest one kept are kept too: the kept space would depend on the linear algebra library
    otherwise.
    """
    members = scenario.members
    membership = np.zeros((len(scenario.topics), len(scenario.clients)))
    membership[members.topic, members.client] = 1.0
    by_topic = len(membership) <= membership.shape[1]
    square, vector = np.linalg.eigh(
        membership @ membership.T if by_topic else membership.T @ membership
    )
    rank = int(np.count_nonzero(square > 1e-9 * square[-1]))
    weakest = square[-max(round(_KEPT_OF_RANK * rank), 1)]
    kept = square > weakest * (1 - 1e-9)
    vector = vector[:, kept]
    factors: FloatArray = membership.T @ vector if by_topic else vector * np.sqrt(square[kept])
    return factors


def strongest_factors(scenario: Scenario, rank: int) -> FloatArray:
    """Return V S [client, factor] of the `rank` strongest factors, from the sparse matrix.

    The start vector is fixed, so the result is the same from run to run.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    members, topics, clients = scenario.members, len(scenario.topics), len(scenario.clients)
    membership = csr_array(
        (np.ones(len(members)), members.client, members.topic_start(topics)),
        shape=(topics, clients),
    )
    fewer = min(topics, clients)
    if fewer == 1:  # svds finds fewer factors than either side has; here S^2 are the counts
        return np.sqrt(np.bincount(members.client, minlength=clients).astype(np.float64))[:, None]
    start = np.random.default_rng(0).uniform(0.5, 1.0, fewer)
    _, strength, vector = svds(
        membership, k=min(rank, fewer - 1), v0=start, return_singular_vectors="vh"
    )
    factors: FloatArray = np.ascontiguousarray(vector.T * strength)
    return factors
