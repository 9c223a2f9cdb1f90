#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The benchmark of moves between meshes on links of its own: four network namespaces as nodes, two
# processes on each, behind a switch whose ports tbf shapes in both directions.
set -euo pipefail

FOLDER=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$FOLDER/nodes.sh"

usage() {
  cat <<'TEXT'
usage: tests/bench/reshard_link.sh [FLAGS] [-- FLAGS OF stretto-bench reshard]
Moves tensors between meshes on four nodes of two processes, prints a table and writes JSON. The
processes only communicate, so two cores suffice. Needs root, ip, tc and python3.
  --gbps RATE         of a node's interface, each direction, frames included (default: 0.2)
  --json FILE         what was measured (default: reshard.json)
  --repeats N         runs that a median is over (default: 3)
  --peer torch        also send and receive the same boxes with torch.distributed on gloo; needs
                      STRETTO_PEER_PYTHON (tests/bench/peer_env.sh makes it), is left out with the
                      reason without it
  --bench FILE        stretto-bench (default: build/release/bin/stretto-bench)
Exit: 0; 1 a run failed or a receiver has wrong elements; 2 arguments, or not root; 77 namespaces
cannot be made here.
TEXT
}

gbps=0.2 json=reshard.json peer='' repeats=3
bench=$FOLDER/../../build/release/bin/stretto-bench
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --) shift; break ;;
    --gbps | --json | --peer | --repeats | --bench)
      (($# > 1)) || fail 2 "$1: found no value, expected one; see --help"
      declare "${1#--}=$2"
      shift 2
      ;;
    *) fail 2 "found argument '$1', expected one of those in --help" ;;
  esac
done
is_above_zero "$gbps" || fail 2 "--gbps: found '$gbps', expected a number above 0"
is_count "$repeats" || fail 2 "--repeats: found '$repeats', expected a number above 0"
[[ -z $peer || $peer == torch ]] || fail 2 "--peer: found '$peer', expected torch"
[[ -x $bench ]] || fail 2 "--bench: found no program $bench; build stretto-bench first"
nodes=4 node_ranks=2
need_nodes
make_switch "$gbps" || fail 77 "network namespaces or the tbf queue cannot be made here"

code=0
by_address=yes run_ranks "$bench" reshard --gbps "$gbps" --repeats "$repeats" \
  --json "$scratch/reshard.json" "$@" || code=$?
[[ -s $scratch/reshard.json ]] || fail "$code" "stretto-bench reshard failed"
cp "$scratch/reshard.json" "$json"
[[ $peer == torch ]] || exit "$code"
if [[ -z ${STRETTO_PEER_PYTHON-} ]]; then
  echo "$ME: PyTorch is left out: STRETTO_PEER_PYTHON is not set; tests/bench/peer_env.sh" >&2
  exit "$code"
fi
run_ranks "$STRETTO_PEER_PYTHON" "$FOLDER/torch_reshard_peer.py" --interface shaped \
  --repeats "$repeats" --report "$json" || code=$?
exit "$code"
