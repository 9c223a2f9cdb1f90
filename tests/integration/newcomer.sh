#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The path of somebody new to Stretto, as it is documented: quickstart, watching, a picture of a step, the page, the Python
# client, dashboards, the package in a clean Debian root, and the container image. One line per stage with its seconds, then a summary. Needs a built tree to take minutes only.
#
#   tests/integration/newcomer.sh [--keep] [--packed]
#
#   --keep    leave the folder with logs, trace and picture; its name is printed
#   --packed  build/release/packages has the programs of build/release already: do not pack them again
# Exit: 0; 1 a stage failed; 77 nothing failed, but a stage cannot run here (the reason is printed).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
repo=$PWD bin=$PWD/build/release/bin
keep=false packed=false
for argument in "$@"; do
  case "$argument" in
    --keep) keep=true ;;
    --packed) packed=true ;;
    *) sed -n '3,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

source tests/integration/own_home.sh
export TERM=xterm-256color
escape=$'\e'

quickstart() {
  deploy/quickstart.sh --steps 20 --state-dir "$work/state" --report "$work/report.json" 2>&1 | tee "$work/quickstart.txt" || return
  tests/docs/readme_test.py "$work/quickstart.txt" || return
  python3 - "$work/report.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["last_loss"] < report["first_loss"], report
PYTHON
}

# The cluster of the quickstart once more, as its last lines say.
cluster_again() {
  : >"$work/up.log"  # tail needs it at once
  stretto up --slots 2 --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 --state-dir "$work/state" >"$work/up.log" 2>&1 &
  cluster=$!
  STRETTO_COORDINATOR=$(timeout 60 tail -f -n +1 --pid="$cluster" "$work/up.log" | sed -n '/STRETTO_COORDINATOR=/{s/.*STRETTO_COORDINATOR=\([^ ]*\).*/\1/p;q}')
  export STRETTO_COORDINATOR
  [[ -n "$STRETTO_COORDINATOR" ]] || fail "the cluster did not start: $(cat "$work/up.log")"
  stretto job get perl-gpt >/dev/null || fail "the quickstart's job is gone"
}

submit() { # NAME STEPS
  sed "s/^name:.*/name: $1/; s/^steps:.*/steps: $2/; s/prefix: text/prefix: perl-manual/" deploy/examples/first-job.yaml >"$work/$1.yaml"
  stretto job submit "$work/$1.yaml"
}

# To a file it writes plain lines.
watch_piped() {
  submit piped 50 && timeout 120 stretto job watch piped >"$work/watch.txt" || return
  grep -q 'step 50/50' "$work/watch.txt" || fail "no last step in: $(cat "$work/watch.txt")" || return
  ! grep -q "$escape" "$work/watch.txt" || fail "control characters in a file: $(cat -v "$work/watch.txt")"
}

# In a terminal it draws.
watch_terminal() {
  submit drawn 400 || return
  timeout 120 script -qec "stty cols 100 rows 40; stretto job watch drawn" "$work/typescript" </dev/null >/dev/null || return
  grep -q "$escape" "$work/typescript" || fail "nothing is drawn in a terminal: $(cat -v "$work/typescript")"
}

trace() {
  stretto job trace drawn --output "$work/trace.json" || return
  python3 - "$work/trace.json" <<'PYTHON'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
assert any(event.get("ph") == "X" for event in events), events[:3]
PYTHON
}

picture() {
  stretto job timeline drawn --svg "$work/step.svg" >"$work/timeline.txt" || return
  [[ -s "$work/timeline.txt" ]] || fail "nothing is drawn" || return
  python3 -c 'import sys, xml.dom.minidom as x; assert x.parse(sys.argv[1]).documentElement.tagName == "svg"' "$work/step.svg"
}

# At the address that `up` has printed.
page() {
  local address
  address=$(sed -n 's/^page  *//p' "$work/up.log")
  python3 - "$address" <<'PYTHON'
import json, sys, urllib.request
address, key = sys.argv[1].split("#key=")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.addheaders = [("Authorization", "Bearer " + key)]
def get(path):
    return opener.open(address + path, timeout=10).read().decode()
assert "<title>Stretto</title>" in get("")
assert json.loads(get("api/jobs/drawn"))["job"]["state"] == "SUCCEEDED"
assert len(json.loads(get("api/jobs/drawn/steps"))["curve"]) == 400
assert get("api/jobs/drawn/timeline.svg").startswith("<svg ")
PYTHON
}

# As docs/PYTHON.md has it, with the packages of Debian.
python_client() {
  tests/python/install_wheel.sh "$repo" "$work/site" || return
  PYTHONPATH=$work/site /usr/bin/python3 - "$work/drawn.yaml" <<'PYTHON'
import sys
import stretto
with stretto.Client() as client:
    client.submit(sys.argv[1], name="from-python")
    steps = [event for event in client.follow("from-python") if isinstance(event, stretto.StepReport)]
    assert steps[-1].step == 400, steps[-1]
    frame = client.metrics("from-python").to_pandas()
    assert len(frame) == 400 and frame.loss.iloc[-1] < frame.loss.iloc[0], frame
PYTHON
}

# Where buildah is, which tests/run.sh --full installs; elsewhere it says so and counts as skipped.
container() { tests/deploy/container/image_test.py "$repo" "$repo/build/release/packages" "$repo/build/release"; }

dashboards() {
  local fakes=$repo/build/release/tests/integration/gpu/fakes
  [[ -d $fakes ]] || fail "found no $fakes; build the target gpu_job_test" || return
  tests/deploy/grafana/dashboards_test.py "$repo" "$bin" "$fakes"
}

package() {
  $packed || cmake --build build/release --target packages || return
  tests/deploy/package/package_test.sh deb "$repo" "$repo/build/release/packages" "$repo/build/release/clean_root"
}

passed=0 failed=0 skipped=0 begin=$SECONDS
stage() { # FUNCTION WHAT
  local start=$SECONDS code=0
  if [[ "$1" == cluster_again ]]; then "$1" >"$work/$1.log" 2>&1 || code=$?; else ("$1") >"$work/$1.log" 2>&1 || code=$?; fi
  case $code in
    0) echo "passed   $(printf %4d $((SECONDS - start))) s  $2"; passed=$((passed + 1)) ;;
    77) echo "skipped  $(printf %4d $((SECONDS - start))) s  $2: $(sed -n 's/^skipped: //p' "$work/$1.log" | tail -1)"; skipped=$((skipped + 1)) ;;
    *) echo "FAILED   $(printf %4d $((SECONDS - start))) s  $2"; tail -n 25 "$work/$1.log" | sed 's/^/    /'; failed=$((failed + 1)) ;;
  esac
}

export PATH=$bin:$PATH
stage quickstart "deploy/quickstart.sh trains and compares"
stage cluster_again "the cluster starts again on its state"
stage watch_piped "stretto job watch, to a file"
stage watch_terminal "stretto job watch, in a terminal"
stage trace "stretto job trace, for Perfetto"
stage picture "stretto job timeline, a picture of a step"
stage page "the page, and what it asks for"
stage python_client "the Python client submits, follows and makes a table"
stage dashboards "dashboards and rules, asked of a real Prometheus"
stage package "the Debian package in a clean root trains a job"
stage container "the container image, alone and as the pods of the manifest"
echo "$passed passed, $failed failed, $skipped skipped in $((SECONDS - begin)) s"
((failed == 0)) || exit 1
((skipped == 0)) || exit 77
