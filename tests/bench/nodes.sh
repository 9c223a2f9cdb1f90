# SPDX-License-Identifier: Apache-2.0
# For benchmarks of ranks on links of their own, sourced: network namespaces as nodes, links that
# tbf shapes, and processes in them. All of it goes when the script ends, however it ends.
#
# The script sets FOLDER (this one), nodes (their number), node_ranks (ranks on each) and, to have
# rank r and all its threads on core r, pinned. The interface of node n has the address 10.99.0.(n+1).

burst_kb=256 # of the token buckets
readonly LEAST_BURST_KB=128 # below it tbf splits segments and burns a core
readonly MOST_BURST_KB=1024 # half of what the benchmarks send to drain it
readonly MOST_SEGMENT_KB=508 # of Linux
ME=$(basename "$0")

fail() { # CODE MESSAGE
  echo "$ME: $2" >&2
  exit "$1"
}

is_above_zero() { [[ $1 =~ ^[0-9]+(\.[0-9]+)?$ && ! $1 =~ ^[0.]+$ ]]; }
is_count() { [[ $1 =~ ^[1-9][0-9]*$ ]]; }

# need_nodes TOOL...: ends the script unless nodes can be made here. Sets `load`.
need_nodes() {
  ((EUID == 0)) || fail 2 "needs root, to make network namespaces and shape a link"
  local tool
  for tool in ip tc python3 "$@"; do
    command -v "$tool" >/dev/null || fail 77 "found no program '$tool'"
  done
  read -r load _ </proc/loadavg
  ((${load%.*} == 0)) ||
    echo "$ME: load average $load: what else runs here will show in the times" >&2
  scratch=$(mktemp -d)
  spaces=()
  local node
  for ((node = 0; node < nodes; ++node)); do spaces+=("stretto-$$-$node"); done
  awake=()
  trap clean_up_nodes EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

# shellcheck disable=SC2317  # reached by the trap
clean_up_nodes() {
  local code=$?
  trap - EXIT INT TERM HUP
  # The jobs, too: a signal can come before a process that was started is in its list, and a loop of
  # keep_awake would then wait for this script, which waits for the loop. SIGKILL, because bash loses
  # a SIGTERM that reaches its child between fork and exec.
  local running
  mapfile -t running < <(jobs -p)
  running+=("${awake[@]}")
  ((${#running[@]} == 0)) || kill -KILL "${running[@]}" 2>/dev/null || true
  wait 2>/dev/null
  local space
  for space in "${spaces[@]}" "stretto-$$-switch"; do
    ip netns delete "$space" 2>/dev/null || true
  done
  rm -rf "$scratch"
  exit "$code"
}

shape() { # SPACE DEVICE GBPS: what leaves by the device
  tc -netns "$1" qdisc add dev "$2" root tbf rate "${3}gbit" burst "${burst_kb}kb" latency 50ms
}

# A real NIC takes whole buffers by DMA, and its interrupts are rare. Here every packet costs each rank
# a timer and a wake-up, on a virtual machine 26 us each, so packets are as large as the token bucket
# allows: three quarters of it, because tbf splits what does not fit.
segment_kb() {
  local kb=$((burst_kb * 3 / 4))
  echo $((kb < MOST_SEGMENT_KB ? kb : MOST_SEGMENT_KB))
}

widen() { # SPACE DEVICE
  ip netns exec "$1" python3 -B "$FOLDER/segments.py" "$2" $(($(segment_kb) * 1024)) ||
    echo "$ME: packets on $2 have 64 KiB at most" >&2
}

give_address() { # NODE
  local here=(-netns "${spaces[$1]}")
  widen "${spaces[$1]}" shaped
  # A connection keeps little in the queue of the link, as on a NIC with a short queue. With the
  # kernel's 4 MiB, "a receive is posted" waits behind a whole transfer in the other direction.
  ip netns exec "${spaces[$1]}" \
    sysctl -qw "net.ipv4.tcp_limit_output_bytes=$((2 * $(segment_kb) * 1024))" || return
  ip "${here[@]}" address add "10.99.0.$(($1 + 1))/24" dev shaped &&
    ip "${here[@]}" link set lo up && ip "${here[@]}" link set shaped up
}

# Two nodes, joined by a cable.
make_pair() { # GBPS
  local node
  ip netns add "${spaces[0]}" && ip netns add "${spaces[1]}" &&
    ip -netns "${spaces[0]}" link add name shaped type veth \
      peer name shaped netns "${spaces[1]}" || return
  for node in 0 1; do give_address "$node" && shape "${spaces[node]}" shaped "$1" || return; done
}

# Any number of nodes, each on a port of a switch, which is a namespace too. A node's interface has
# the rate in each direction.
make_switch() { # GBPS
  local switch=stretto-$$-switch node
  ip netns add "$switch" && ip -netns "$switch" link add name bridge type bridge &&
    ip -netns "$switch" link set bridge up || return
  for ((node = 0; node < nodes; ++node)); do
    ip netns add "${spaces[node]}" &&
      ip -netns "$switch" link add name "port$node" type veth \
        peer name shaped netns "${spaces[node]}" &&
      ip -netns "$switch" link set "port$node" master bridge up &&
      give_address "$node" && shape "${spaces[node]}" shaped "$1" &&
      widen "$switch" "port$node" && shape "$switch" "port$node" "$1" || return
  done
}

# A core without work sleeps, and on a virtual machine what runs on it next is slower and varies more
# (docs/BENCHMARKS.md, "Cores that never sleep"). A loop of the idle class, which gives way to every
# other thread at once, keeps the cores of pinned ranks awake. It ends with this script even if that
# is killed.
keep_awake() {
  local core
  for ((core = 0; core < nodes * node_ranks; ++core)); do
    chrt --idle 0 taskset -c "$core" sh -c 'exec 2>/dev/null; while kill -0 "$0"; do :; done' $$ &
    awake+=($!)
    disown $!
  done
}

# run_ranks COMMAND...: one for each rank, in its node. When one fails the others are ended, and its
# code is returned. With by_address set, each gets --address.
run_ranks() {
  local rank node ended code=0 meeting pids=()
  meeting=$(mktemp -d "$scratch/meeting.XXXX")
  for ((rank = 0; rank < nodes * node_ranks; ++rank)); do
    node=$((rank / node_ranks))
    ip netns exec "${spaces[node]}" ${pinned:+taskset -c "$rank"} \
      "$@" --rank "$rank" --rendezvous "$meeting" \
      ${by_address:+--address "10.99.0.$((node + 1))"} >"$scratch/stdout.$rank" &
    pids+=($!)
  done
  for ((rank = 0; rank < nodes * node_ranks; ++rank)); do
    ended=0
    wait -n || ended=$?
    ((ended != 0)) || continue
    if ((code == 0)); then
      code=$ended
      echo "$ME: a rank ended with code $code" >&2
    fi
    kill -KILL "${pids[@]}" 2>/dev/null || true
  done
  return "$code"
}
