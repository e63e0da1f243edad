"""How many committed runs are calibrated in domain after temperature scaling.

    python results/noise_limit.py

A perfectly calibrated model exceeds the 95 % limit of its own noise floor in 5 % of runs. Printed: in how
many runs the in-domain test ECE after temperature scaling exceeds that limit, over plain runs and all arms.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet


def main() -> None:
    total = {"plain": [0, 0], "all arms": [0, 0]}
    for file in sorted(Path(__file__).parent.glob("**/runs.parquet")):
        found = {"plain": [0, 0], "all arms": [0, 0]}
        for row in pyarrow.parquet.read_table(file).to_pylist():
            if row["split"] != "test" or row["stage"] != "calibrated":
                continue
            above = row["ece"] > row["ece_noise_floor_p95"]
            is_plain = row["arm"].partition(" learning_rate=")[0] == "plain"
            for kind in ("plain", "all arms") if is_plain else ("all arms",):
                found[kind][0] += above
                found[kind][1] += 1
                total[kind][0] += above
                total[kind][1] += 1
        place = file.parent.relative_to(Path(__file__).parent)
        print(f"{place}: " + ", ".join(f"{kind} {above} of {n}" for kind, (above, n) in found.items()))
    print("total: " + ", ".join(f"{kind} {above} of {n}" for kind, (above, n) in total.items()))


if __name__ == "__main__":
    main()
