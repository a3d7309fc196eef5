"""What ranks cannot train on is refused on all of them, with the same words."""

from __future__ import annotations

import json
import re

from jobs import run

MESSAGES = {
    "few_samples": r"ValueError: Trainer.fit: batches of 2 samples cannot be shared by 3 ranks.* Use fewer ranks",
    "small_batches": r"ValueError: Trainer.fit: batches of 1 samples cannot be shared by 3 ranks.* larger batch_size",
    "few_shards": r"ValueError: Trainer.fit: 2 shards cannot be shared by 3 ranks. Use .* at least shards=3",
    "other_seed": r"RankError: Trainer.fit: rank 1 on \S+ differs from rank 0 on \S+ in weights, seed. Give all ranks the same",
    "other_data": r"RankError: Trainer.fit: rank 2 on \S+ differs from rank 0 on \S+ in training data. Give",
    "lonely_samples": r"ValueError: Trainer.fit: batches of 32 and 8 samples in 16 shards leave 1 for some shards.*"
    r"BatchNorm1d: there is one value per channel.* Choose fewer shards, another batch_size, or sync_batch_norm=True",
    "diverging": r"Diverged: The loss became (inf|nan) in epoch \d, step \d.* Use a smaller learning rate",
    "other_settings_than_the_checkpoint": r"CheckpointError: .* belongs to another run:\n  shards: 16 in the checkpoint, 8 now",
    "no_communicator": r"TypeError: distributed.Communicator: comm must be a communicator of mpi4py, not str",
    "other_way_to_sum": r"ValueError: distributed.Communicator: deterministic=False .* Leave transport and shard_optimizer out",
    "two_ways_to_sum": r"ValueError: distributed.Communicator: shared_memory=True sums float32 .* Leave one of them out",
    "no_shared_memory": r"ValueError: distributed.Communicator: shared_memory=True, but hosts do not .* Leave shared_memory out",
    "clipped_parameters": r"ValueError: Communicator: shard_optimizer cuts parameters .* \(clip_norm\), or by value",
}


def test_all_ranks_say_what_is_wrong() -> None:
    done = run(3, "refused.py", *MESSAGES)
    assert done.returncode == 0, done.stderr
    found = dict(map(json.loads, done.stdout.splitlines()))
    for name, message in MESSAGES.items():
        told = found[name]
        assert len(told) == 3 and len(set(told)) == 1, f"{name}: {told}"
        assert re.search(message, told[0]), f"{name}: {told[0]}"


def test_ranks_without_fault_name_the_one_that_fails() -> None:
    done = run(3, "refused.py", "missing_file")
    assert done.returncode == 0, done.stderr
    ((_, told),) = map(json.loads, done.stdout.splitlines())
    assert told[0] == told[2] and re.match(r"FileNotFoundError: .*x.npy", told[1]), told
    assert re.match(r"RankError: Rank 1 on \S+ failed. FileNotFoundError: .*x.npy", told[0]), told


def test_a_rank_that_fails_during_training_ends_all_others() -> None:
    done = run(3, "failing.py")
    assert done.returncode != 0
    assert re.search(r"Rank 1 on \S+ failed:", done.stderr) and "the disk is full" in done.stderr
    assert "Rank 0" not in done.stderr and "went on" not in done.stdout
