"""One rank of a job that sums vectors in all ways that keep the order of the tree: rank 0 prints which sums are wrong."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import numpy as np
from mpi4py import MPI

from openbnns import nn
from openbnns.distributed import exchange as exchange_module
from openbnns.distributed.exchange import Exchange
from openbnns.distributed.shards import Shards
from openbnns.distributed.tree_sums import BLOCK, sum_in_tree

SIZE = 7 * BLOCK
RANK, RANKS = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()


class Pairs(nn.distributed.Communicator):
    """Every two ranks have a host of their own, as far as they know."""

    def _neighbours(self) -> Any:
        return self._control.Split(self.rank // 2)


class Scattered(nn.distributed.Communicator):
    """Two hosts that take turns, so that their ranks are not consecutive."""

    def _neighbours(self) -> Any:
        return self._control.Split(self.rank % 2)


def of_shard(shard: int, step: int) -> Any:
    random = np.random.RandomState(100 * step + shard)
    return (random.standard_normal(SIZE) * 10.0 ** random.randint(-3, 4, SIZE)).astype(np.float32)


def wrong(comm: nn.distributed.Communicator, count: int, gathers: bool) -> list[int]:
    """The steps of which this rank has another sum than it should."""
    shards = Shards(count, comm.size, comm.rank)
    buckets = comm.buckets_of(SIZE)
    exchange = Exchange(comm, shards, SIZE, buckets, gathers=gathers)
    faults = []
    for step in range(3):
        leaves = [of_shard(shard, step) for shard in range(count)]
        trees = shards.subtrees[shards.rank]
        for (low, high), part in zip(trees, exchange.parts, strict=True):
            order = Shards(high - low).own_joins
            sum_in_tree(part, leaves[low:high], order)
        for number in range(len(buckets)):
            if (number + RANK) % 3:
                exchange.poll()
            exchange.start()
        exchange.finish()
        expected = np.empty(SIZE, np.float32)
        sum_in_tree(expected, leaves, Shards(count).own_joins)
        own = [(0, SIZE)] if gathers else exchange.own
        if any(exchange.parts[-1][a:b].tobytes() != expected[a:b].tobytes() for a, b in own):
            faults.append(step)
    covered = sorted(span for spans in comm.gather(exchange.own) for span in spans if span[0] < span[1])
    assert [a for a, _ in covered] == [0, *[b for _, b in covered[:-1]]] and covered[-1][1] == SIZE
    view = exchange.parts[0] if RANK == 0 else None
    exchange.close()
    assert view is None or view.any(), "memory with a view of it was taken away"
    return faults


def main() -> None:
    ways = {
        "messages": nn.distributed.Communicator(shared_memory=False, bucket_bytes=8 * BLOCK),
        "shared memory": nn.distributed.Communicator(shared_memory=True, bucket_bytes=8 * BLOCK),
        "one bucket": nn.distributed.Communicator(bucket_bytes=1 << 20),
        "scattered": Scattered(bucket_bytes=8 * BLOCK),
    }
    if RANKS == 4:
        ways["two hosts"] = Pairs(bucket_bytes=8 * BLOCK)
        ways["two hosts, one bucket"] = Pairs(bucket_bytes=1 << 20)
        assert ways["two hosts"].host.size == ways["two hosts"].across.size == 2
    assert ways["shared memory"].host.size == RANKS
    told: list[str] = []
    for name, comm in ways.items():
        for count in (4, 5, 16):
            for gathers in (True, False):
                steps = wrong(comm, count, gathers)
                told += [f"{name}, {count} shards, gathers={gathers}, step {step}, rank {RANK}" for step in steps]
    for comm in ways.values():
        Exchange(comm, Shards(4, RANKS, RANK), SIZE, [(0, SIZE)]).close()
        assert not comm.host.closed, "windows were not freed once their views were gone"
    refused = ""
    with patch.object(exchange_module, "room_for", return_value=RANK != RANKS - 1):  # one host is a small container
        little = Exchange(ways["one bucket"], Shards(4, RANKS, RANK), SIZE, [(0, SIZE)])
        try:
            Exchange(ways["shared memory"], Shards(4, RANKS, RANK), SIZE, [(0, SIZE)])
        except MemoryError as error:
            refused = str(error)
    everyone = MPI.COMM_WORLD.gather((told, little.shares_memory, refused))
    if everyone is not None:
        print(json.dumps(everyone))


if __name__ == "__main__":
    main()
