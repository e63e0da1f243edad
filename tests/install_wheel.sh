#!/usr/bin/env bash
# The wheel in empty virtual environments, away from the clone: `make wheel`.
# install_wheel.sh WHEEL CONSTRAINTS [PYTHON]
set -euo pipefail
wheel=$(realpath "$1")
constraints=$(realpath "$2")
python=$(command -v "${3:-python3}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
unset PYTHONPATH
export CALMIX_CACHE="$place/cache" PIP_DISABLE_PIP_VERSION_CHECK=1

install() { # ENVIRONMENT REQUIREMENT
  "$python" -m venv "$1"
  "$1/bin/pip" install --quiet --constraint "$constraints" "$2"
}

printf 'label,prob_a,prob_b\na,0.9,0.1\nb,0.4,0.6\na,0.3,0.7\nb,0.2,0.8\n' > predictions.csv
{ echo text,label; for row in $(seq 40); do echo "film $row,$((row % 2))"; done; } > train.csv
mkdir dynamics
for epoch in 0 1; do
  printf '{"guid": 0, "logits_epoch_%d": [1.0, 0.2], "gold": 0}\n{"guid": 1, "logits_epoch_%d": [0.1, 0.9], "gold": 0}\n' \
    $epoch $epoch > dynamics/dynamics_epoch_$epoch.jsonl
done

echo "== the wheel alone: no torch"
install light "$wheel"
! light/bin/python -c "import torch" 2> /dev/null
light/bin/calmix --help > /dev/null
light/bin/calmix --version
light/bin/calmix methods --json | light/bin/python -c "import json, sys; assert len(json.load(sys.stdin)['methods']) > 10"
light/bin/calmix reproduce --list > /dev/null
light/bin/calmix evaluate predictions.csv --json | light/bin/python -c \
  "import json, sys; assert json.load(sys.stdin)['files'][0]['accuracy'] == 0.75"
light/bin/calmix calibrate predictions.csv --fit-on predictions.csv --method temperature --output calibrated > /dev/null
light/bin/calmix map dynamics --output map > /dev/null
test -s calibrated/report.html -a -s map/datamap.html
code=0
light/bin/calmix train --train train.csv --output run 2> refused.txt || code=$?
test "$code" = 2
grep -F "pip install 'calmix[train]'" refused.txt

echo "== with the extra 'demo': the demo"
install full "$wheel[demo]"
full/bin/calmix demo --output demo-run
test -s demo-run/comparison/report.html
run=$(ls -d demo-run/comparison/runs/*/metrics.json | head -1)
full/bin/calmix evaluate "$(dirname "$run")" > /dev/null
echo "== the wheel installs and works without the clone"
