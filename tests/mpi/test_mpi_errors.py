"""Problems that ranks cannot train on: refused on all of them, with the same words."""

from __future__ import annotations

import json
import re

from mpi.jobs import run

MESSAGES = {
    "few_samples": r"ValueError: Trainer.fit: batches of 2 samples cannot be shared by 3 ranks.* Use fewer ranks",
    "small_batches": r"ValueError: Trainer.fit: batches of 1 samples cannot be shared by 3 ranks.* larger batch_size",
    "few_shards": r"ValueError: Trainer.fit: 2 shards cannot be shared by 3 ranks. Use .* at least shards=3",
    "other_seed": r"RankError: Trainer.fit: rank 1 on \S+ differs from rank 0 on \S+ in weights, seed. Give all ranks the same",
    "other_data": r"RankError: Trainer.fit: rank 2 on \S+ differs from rank 0 on \S+ in training data. Give",
    "other_version": r"RankError: Trainer.fit: rank 1 on \S+ differs from rank 0 on \S+ in version. Give all ranks the same",
    "other_resume": r"RankError: Trainer.fit: rank 1 on \S+ differs from rank 0 on \S+ in resume. Give all ranks the same",
    "other_out": r"RankError: Trainer.fit: rank 1 on \S+ differs from rank 0 on \S+ in out. Give all ranks the same",
    "other_validation": r"RankError: Trainer.fit: rank 1 on \S+ differs from rank 0 on \S+ in validation. Give",
    "other_file": r"RankError: Trainer.fit: rank 1 on \S+ differs from rank 0 on \S+ in training data. Give all ranks the same",
    "shorter_data": r"RankError: Trainer.fit: rank 1 on \S+ differs from rank 0 on \S+ in .*training data. Give",
    "drifting_weights": r"RankError: Trainer.fit: no checkpoint is written, because rank 1 on \S+ differs from rank 0 on \S+ in "
    r"weights. Let callbacks change weights on all ranks alike",
    "lonely_callback": r"^stopped after 0 epochs$",
    "lonely_samples": r"ValueError: Trainer.fit: batches of 32 and 8 samples in 16 shards leave 1 for some shards.*"
    r"BatchNorm1d: there is one value per channel.* Choose fewer shards, another batch_size, or sync_batch_norm=True",
    "diverging": r"Diverged: The loss became (inf|nan) in epoch \d, step \d.* Use a smaller learning rate",
    "other_settings_than_the_checkpoint": r"CheckpointError: .* belongs to another run:\n  shards: 16 in the checkpoint, 8 now",
    "no_communicator": r"TypeError: distributed.Communicator: comm must be a communicator of mpi4py, not str",
    "another_transport": r"TypeError: Communicator: there is no argument 'transport'. Ranks sum gradients .* Leave it out",
}


def test_all_ranks_say_what_is_wrong() -> None:
    done = run(3, "refused.py", *MESSAGES)
    assert done.returncode == 0, done.stderr
    by_rank = dict(map(json.loads, done.stdout.splitlines()))
    for name, message in MESSAGES.items():
        told = by_rank[name]
        assert len(told) == 3 and len(set(told)) == 1, f"{name}: {told}"
        assert re.search(message, told[0]), f"{name}: {told[0]}"


def test_ranks_without_fault_name_the_one_that_fails() -> None:
    done = run(3, "refused.py", "missing_file", "shorter_file")
    assert done.returncode == 0, done.stderr
    by_fault = dict(map(json.loads, done.stdout.splitlines()))
    for name, message in {
        "missing_file": r"FileNotFoundError: .*x.npy",
        "shorter_file": r"DataError: Trainer.fit: x has 39 samples, but y has shape \(40,\)",
    }.items():
        told = by_fault[name]
        assert told[0] == told[2] and re.match(message, told[1]), told
        assert re.match(rf"RankError: Rank 1 on \S+ failed. {message}", told[0]), told
