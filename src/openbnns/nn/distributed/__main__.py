"""``mpiexec -n 4 python -m openbnns.nn.distributed train.py``: a program on all ranks, each with somebody to say how it ended."""

import sys

from .supervisor import supervise

if len(sys.argv) < 2:
    sys.exit("usage: mpiexec -n RANKS python -m openbnns.nn.distributed PROGRAM.py [ARGUMENT ...]")
sys.exit(supervise([sys.executable, *sys.argv[1:]]))
