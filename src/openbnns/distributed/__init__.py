"""Data-parallel training on MPI: ``nn.Trainer(..., distributed=True)``. docs/distributed.md says how it works."""

from .communicator import Communicator, RankError

__all__ = ["Communicator", "RankError"]
