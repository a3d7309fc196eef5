"""One rank of a job that sums vectors over all ranks: rank 0 prints which sums are wrong."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from mpi4py import MPI

from openbnns import nn
from openbnns.distributed.exchange import Exchange
from openbnns.distributed.shards import Shards
from openbnns.distributed.tree_sums import sum_in_tree


def of_shard(shard: int, size: int, step: int) -> Any:
    random = np.random.RandomState(100 * step + shard)
    return (random.standard_normal(size) * 10.0 ** random.randint(-3, 4, size)).astype(np.float32)


def wrong(comm: nn.distributed.Communicator, count: int, size: int) -> list[str]:
    """The steps of which this rank has another sum than it should."""
    shards = Shards(count, comm.size, comm.rank)
    exchange = Exchange(comm, shards, size)
    faults = []
    for step in range(3):
        leaves = [of_shard(shard, size, step) for shard in range(count)]
        parts = []
        for low, high in shards.subtrees[shards.rank]:
            parts.append(np.empty(size, np.float32))
            sum_in_tree(parts[-1], leaves[low:high], Shards(high - low).own_joins)
        exchange.sum(parts)
        expected = np.empty(size, np.float32)
        sum_in_tree(expected, leaves, Shards(count).own_joins)
        if parts[-1].tobytes() != expected.tobytes():
            faults.append(f"{count} shards, {size} elements, step {step}, rank {comm.rank}")
    return faults


def main() -> None:
    comm = nn.distributed.Communicator()
    told = [fault for count in (4, 5, 16) for size in (1, 3, 7001) for fault in wrong(comm, count, size)]
    everyone = MPI.COMM_WORLD.gather(told)
    if everyone is not None:
        print(json.dumps(everyone))


if __name__ == "__main__":
    main()
