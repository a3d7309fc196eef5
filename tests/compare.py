"""Compare this build with that of another commit: bits, memory and times of networks, and answers of all functions.

    python tests/compare.py HEAD~1                      # make compare COMMIT=HEAD~1
    python tests/compare.py HEAD~1 --only Conv2d --turns 8
    python tests/compare.py build/compare/old.json build/compare/new.json   # what was recorded before

The sources of the other commit go to build/compare/; its compiled part is built there only if it differs. Then
``comparison.networks`` and ``comparison.functions`` record both builds, in turns, so that a busy machine disturbs both.
Differing bits, larger memory and differing results fail. Messages and times are only shown: a ratio above 1 is slower.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openbnns
from comparison.networks import TIMES

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "compare"
NATIVE = ("core", "cmake", "CMakeLists.txt")
SLOW = 1.05  # a ratio that is named
Recorded = dict[str, Any]


def output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def checked_out(commit: str) -> Path:
    """A folder with the package as it is in a commit, ready to be imported."""
    name = output("git", "rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    sources = FOLDER / name / "src"
    if list(sources.glob("openbnns/_core*.so")):
        return sources
    shutil.rmtree(FOLDER / name, ignore_errors=True)
    (FOLDER / name).mkdir(parents=True)
    with subprocess.Popen(["git", "archive", name], cwd=ROOT, stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", str(FOLDER / name)], stdin=archive.stdout, check=True)
    if output("git", "diff", "--name-only", name, "--", *NATIVE):
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
        options = ["--config-settings=cmake.define.OPENBNNS_ISAS=native", "--config-settings=build-dir=build/native"]
        subprocess.run([*install, str(FOLDER / name / "built"), *options, "."], cwd=FOLDER / name, check=True)
        built = FOLDER / name / "built" / "openbnns"
    else:
        built = Path(openbnns.__file__).parent
    for file in (*built.glob("_core*"), *built.glob("lib/*.so*")):
        target = sources / "openbnns" / file.relative_to(built)
        if not target.exists():
            shutil.copy2(file, target)
    return sources


def recorded(module: str, package: Path, *options: str) -> Recorded:
    """The output of a module of ``comparison`` with the package in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(package)])}
    command = [sys.executable, "-m", f"comparison.{module}", *options]
    run = subprocess.run(command, cwd=FOLDER, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    result: Recorded = json.loads(run.stdout)
    return result


def both(sources: Path, only: str, turns: int) -> tuple[Recorded, Recorded]:
    """All that is recorded of the other build, and of this one."""
    sides: tuple[Recorded, Recorded] = ({"networks": {}}, {"networks": {}})
    own = Path(openbnns.__file__).resolve().parents[1]
    order = [(sides[0], sources), (sides[1], own)]
    for turn in range(turns):
        print(f"Recording networks: turn {turn + 1} of {turns}", flush=True)
        for side, where in order:
            for name, entry in recorded("networks", where, "--only", only).items():
                known = side["networks"].setdefault(name, entry)
                known |= {kind: min(known[kind], entry[kind]) for kind in TIMES if kind in entry}
        order.reverse()
    print("Recording functions", flush=True)
    sides[0]["functions"] = recorded("functions", sources, "--only", only)
    (FOLDER / "old.json").write_text(json.dumps(sides[0]["functions"]))
    sides[1]["functions"] = recorded("functions", own, "--only", only, "--signatures", str(FOLDER / "old.json"))
    for side, file in zip(sides, ("old.json", "new.json"), strict=True):
        (FOLDER / file).write_text(json.dumps(side))
    return sides


def mean(ratios: Iterable[float]) -> float:
    logarithms = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logarithms) / len(logarithms))


def compare_networks(old: Recorded, new: Recorded) -> int:
    """Print the differences of networks and the ratios of times; the number of networks that are worse."""
    common = [name for name in old if name in new]
    worse = 0
    for name in common:
        before, after = old[name].get("bits", {}), new[name].get("bits", {})
        parts = [part for part in {**before, **after} if before.get(part) != after.get(part)]
        grown = [kind for kind, size in new[name].get("bytes", {}).items() if size > old[name]["bytes"][kind]]
        if parts:
            print(f"BITS    {name}: {len(parts)} of {len(after)}, first {', '.join(parts[:3])}")
        for kind in grown:
            print(f"MEMORY  {name}: {kind} {old[name]['bytes'][kind]} -> {new[name]['bytes'][kind]} bytes")
        worse += bool(parts or grown)
    print(f"{sum('bits' in new[name] for name in common)} networks with bits, {worse} of them worse\n")
    for kind in TIMES:
        ratios: dict[str, dict[str, float]] = defaultdict(dict)
        for name in (name for name in common if kind in new[name]):
            ratios[name.split()[0]][name] = new[name][kind] / old[name][kind]
        for group, by_name in ratios.items():
            slow = sorted(((r, name) for name, r in by_name.items() if r > SLOW), reverse=True)
            named = ", ".join(f"{name.split(' ', 1)[1]} {r:.2f}" for r, name in slow[:12])
            print(f"{kind}, {group}: mean {mean(by_name.values()):.3f} of {len(by_name)}; {len(slow)} slower: {named}")
    return worse


def is_error(answer: str) -> bool:
    return answer.split(":")[0].endswith(("Error", "Exception"))


def compare_functions(old: Recorded, new: Recorded) -> int:
    """Print the answers that differ, and the number of those whose difference is not only a message."""
    for name in {**old["signatures"], **new["signatures"]}:
        before, after = (side["signatures"].get(name) for side in (old, new))
        if before != after:
            print(f"SIGNATURE  {name}: {[p[0] for p in before or ()]} -> {[p[0] for p in after or ()]}")
    counts: dict[str, int] = defaultdict(int)
    messages: dict[tuple[str, str], str] = {}
    for name, lists in new["answers"].items():
        for call, answers in lists.items():
            for before, after in zip(old["answers"][name].get(call, ["not called"] * 2), answers, strict=True):
                if before == after:
                    continue
                if is_error(before) and is_error(after):
                    counts["MESSAGE"] += 1
                    messages.setdefault((before, after), call)
                    continue
                kind = "ACCEPTED" if is_error(before) else "REFUSED" if is_error(after) else "RESULT"
                counts[kind] += 1
                print(f"{kind}  {call}\n    {before}\n    {after}")
                break
    for (before, after), call in messages.items():
        print(f"MESSAGE  {call}\n    {before}\n    {after}")
    print(f"{sum(map(len, new['answers'].values()))} calls of functions; differences: {dict(counts)}")
    return sum(number for kind, number in counts.items() if kind != "MESSAGE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the other commit, or a file of its records")
    parser.add_argument("new", nargs="?", help="a file of the records of this build")
    parser.add_argument("--only", default="", metavar="SUBSTRING", help="what has this in its name")
    parser.add_argument("--turns", type=int, default=3, help="of both builds, for times")
    options = parser.parse_args()
    if options.new:
        old, new = (json.loads(Path(file).read_text()) for file in (options.commit, options.new))
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)
        old, new = both(checked_out(options.commit), options.only, options.turns)
    different = compare_functions(old["functions"], new["functions"])
    return 1 if compare_networks(old["networks"], new["networks"]) + different else 0


if __name__ == "__main__":
    sys.exit(main())
