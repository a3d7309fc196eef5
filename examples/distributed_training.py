"""Train one network with several processes, on one machine or many:

    mpiexec -n 2 python distributed_training.py      needs pip install "openbnns[mpi]" mpich

Every rank has the whole network and a part of each batch. The weights are bitwise the same on any number of ranks; the last line
shows it.
"""

import hashlib

from mpi4py import MPI

from openbnns import nn
from openbnns.datasets import load_digits


def main() -> None:
    train_x, train_y, test_x, test_y = load_digits()
    net = nn.Sequential(nn.Linear(128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(10)).build((64,), seed=0)
    trainer = nn.Trainer(net, "cross_entropy", nn.Adam(0.003), metrics="accuracy", distributed=True, quiet=True)
    trainer.fit(train_x, train_y, epochs=5)
    scores = trainer.evaluate(test_x, test_y)
    if MPI.COMM_WORLD.rank == 0:  # all ranks have the same network and scores: one of them speaks
        weights = b"".join(array.tobytes() for array in net.state_dict().values())
        print(f"{scores['accuracy']:.1%} of the test digits are right")
        print("weights:", hashlib.sha256(weights).hexdigest()[:16])


if __name__ == "__main__":
    main()
