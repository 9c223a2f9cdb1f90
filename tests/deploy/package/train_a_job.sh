#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With what is installed here, a job trains on a cluster of this machine and SUCCEEDS. Run as the user that is to train.
#
#   train_a_job.sh EXAMPLES   the folder with first-job.yaml
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A service's user may have none that can be written.
export HOME=$work
fail() { echo "$*" >&2; exit 1; }

stretto version | head -1
coproc UP { exec stretto up --workers 1 --slots 2 --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 --state-dir "$work/state" 2>"$work/up.err"; }
up=$UP_PID said=""
while read -r -t 60 line <&"${UP[0]}"; do
  said+=$line$'\n'
  if [[ "$line" =~ STRETTO_COORDINATOR=([^ ]+) ]]; then export STRETTO_COORDINATOR=${BASH_REMATCH[1]}; break; fi
done
[[ -n "${STRETTO_COORDINATOR:-}" ]] || fail "no cluster: $said$(cat "$work/up.err")"

stretto data prepare /usr/share/common-licenses/GPL-3 --output "$work/state/data/text"
stretto job submit "$1/first-job.yaml" --wait || { stretto job logs first-job || true; fail "the job did not succeed"; }
job=$(stretto job get first-job -o json)
[[ "$job" == *'"state": "succeeded"'* ]] || fail "found no state "succeeded" in: $job"
kill -INT "$up"
wait "$up" || fail "stretto up ended with $?: $(cat "$work/up.err")"
