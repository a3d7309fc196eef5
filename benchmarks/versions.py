"""Compare two installed versions of OpenBNNS on every benchmark, in turns on the same machine.

python benchmarks/versions.py OLD NEW [--only SUBSTRING]

OLD and NEW are the Python interpreters of two environments, each with its own openbnns (and PyTorch, for the figures
that need it). Both stay running; for each case they prepare the same work and are timed in turns, so that a
disturbance hits both. The ratio is old / new: above 1 the new version is faster. A case that seems to have lost more
than 5 % is measured twice more with more rounds, and the largest of its medians counts: a real loss shows in all.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

LOSS = 0.95  # a ratio below this is a loss
ROUNDS = 9
FIGURE_ROUNDS = 3
AGAIN = 2


class Version:
    """One environment, whose process measures on demand."""

    def __init__(self, label: str, python: str) -> None:
        self.label = label
        command = [python, str(Path(__file__).resolve()), "--worker"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.names: dict[str, str] = self._ask("names")

    def _ask(self, question: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"versions: the process that measures ended at {question!r}")
        return json.loads(answer)

    def prepare(self, name: str) -> None:
        self._ask(f"prepare {name}")

    def can(self, name: str) -> bool:
        """True if this version knows everything that a case needs."""
        return bool(self._ask(f"try {name}"))

    def sample(self) -> float:
        """A number of the prepared case of which less is better."""
        return float(self._ask("sample"))


def main() -> int:
    if "--worker" in sys.argv:
        return work()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="Python of the environment with the old version")
    parser.add_argument("new", help="Python of the environment with the new version")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="what has this in its name")
    options = parser.parse_args()
    old, new = Version("old", options.old), Version("new", options.new)
    names = [n for n in old.names if n in new.names and options.only in n]
    results = {}
    for name in names:
        unable = [v.label for v in (old, new) if not v.can(name)]
        if unable:
            print(f"{name:70s} cannot be run by the {' and the '.join(unable)} version", flush=True)
            continue
        rounds = ROUNDS if old.names[name] == "time" else FIGURE_ROUNDS
        ratios = [_ratio(old, new, name, rounds)]
        while ratios[-1] < LOSS and len(ratios) <= AGAIN:
            ratios.append(_ratio(old, new, name, 2 * rounds))
        results[name] = max(ratios)
        marks = " LOST" if results[name] < LOSS else ""
        print(
            f"{name:70s} {results[name]:6.3f}{marks}   {' '.join(f'{r:.3f}' for r in ratios[1:])}".rstrip(), flush=True
        )
    if not results:
        raise SystemExit(f"versions: no benchmark has {options.only!r} in its name")
    mean = math.exp(statistics.fmean(map(math.log, results.values())))
    lost = [name for name, ratio in results.items() if ratio < LOSS]
    print(f"\n{len(results)} benchmarks, geometric mean {mean:.3f}, {len(lost)} lost more than {1 - LOSS:.0%}")
    return 1 if lost else 0


def _ratio(old: Version, new: Version, name: str, rounds: int) -> float:
    old.prepare(name)
    new.prepare(name)
    ratios = []
    for i in range(rounds):
        if i % 2:
            after = new.sample()
            before = old.sample()
        else:
            before = old.sample()
            after = new.sample()
        ratios.append(before / after)
    return statistics.median(ratios)


def work() -> int:
    """Answer the questions of the process that compares, one line each."""
    output = sys.stdout
    sys.stdout = sys.stderr
    import overhead
    from harness import Settings, our_step, use_threads
    from run import CASES, FIGURES
    from timing import sampler

    settings = Settings(seconds=0.3)
    use_threads(settings.threads)
    cases = {case.name: case for module in CASES for case in module.cases()}
    tables = (overhead._direct_calls(), overhead._class_calls(), overhead._function_calls())
    calls = {f"call/{name}": step for table in tables for name, step in table.items()}
    figures = {n: f for module in FIGURES for n, f in module.figures().items() if not n.startswith(("overhead/", "c/"))}
    sample: Any = None

    def answer(value: object) -> None:
        print(json.dumps(value), file=output, flush=True)

    for line in sys.stdin:
        question, _, name = line.strip().partition(" ")
        if question == "names":
            answer(dict.fromkeys([*cases, *calls], "time") | dict.fromkeys(figures, "figure"))
        elif question == "sample":
            answer(sample())
        else:
            try:
                if name in figures:
                    sample = _figure(figures[name], settings)
                else:
                    sample = sampler(
                        calls[name] if name in calls else our_step(cases[name].calls(cases[name].arrays()))
                    )
                if question == "try":
                    sample()
                answer(True)
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
                answer(False)
    return 0


def _figure(measure: Any, settings: Any) -> Any:
    def sample() -> float:
        figure = measure(settings)
        return float(figure.value if figure.at_most else 1 / figure.value)

    return sample


if __name__ == "__main__":
    sys.exit(main())
