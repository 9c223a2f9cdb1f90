#!/usr/bin/env bash
# Runs docs/TUTORIAL.md: its block marked `sh cluster` in the background, then those marked `sh tutorial` in order, as one shell.
#
#   tests/docs/tutorial_test.sh BINARIES
#
# Differs from what a reader does in the home folder and in free ports instead of the default ones.
set -euo pipefail
binaries=$(realpath "$1")
page=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../../docs/TUTORIAL.md
[[ -d /usr/share/common-licenses ]] || { echo "no /usr/share/common-licenses: not a Debian, nothing was run"; exit 77; }

work=$(mktemp -d)
cluster=""
finish() {
  if [[ -n $cluster ]]; then
    kill -INT "$cluster" 2>/dev/null || true
    wait "$cluster" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT

# blocks MARK: the text of all blocks with this mark.
blocks() { awk -v fence="\`\`\`sh $1" '$0 == fence {on = 1; next} /^```/ {on = 0} on' "$page"; }
commands=$(blocks tutorial) up=$(blocks cluster)
[[ $(grep -c 'stretto' <<<"$commands") -ge 12 && $up == "stretto up "* ]] ||
  { echo "docs/TUTORIAL.md: found too few marked commands, expected a dozen and one 'stretto up'"; exit 1; }

export HOME=$work PATH=$binaries:$PATH
unset XDG_STATE_HOME STRETTO_COORDINATOR
cd "$work"
# exec, so that the signal at the end reaches it.
bash -c "exec $up --listen 127.0.0.1:0" >up.log 2>&1 &
cluster=$!
for _ in $(seq 600); do
  address=$(sed -n 's/.*STRETTO_COORDINATOR=\([^ ]*\).*/\1/p' up.log | head -1)
  [[ -n $address ]] && break
  kill -0 "$cluster" 2>/dev/null || break
  sleep 0.1
done
[[ -n $address ]] || { cat up.log; echo "the cluster did not start"; exit 1; }
export STRETTO_COORDINATOR=$address

printf '%s\n' "$commands" >tutorial.sh
bash -exuo pipefail tutorial.sh </dev/null 2>&1 | tee output

# What the page says of what these commands show.
expect() { grep -qE "$1" output || { echo "FAILED: found no line like '$1', expected $2"; exit 1; }; }
expect '^FIELD: +job.spec.schedule.parameters' 'stretto explain to print the schedule parameters'
expect '^activation ' 'the dry run to print memory'
expect 'job first SUCCEEDED after 60 of 60 steps' 'the first job to succeed'
expect '^exposed tp ' 'a ledger'
expect 'held-out loss [0-9.]+, perplexity' 'a job to measure itself on held-out data'
expect '^wrote measured.csv: [0-9]+ steps' 'a table of steps'
expect '^second +SUCCEEDED' 'the resumed job to succeed'
echo "every command of docs/TUTORIAL.md ran"
