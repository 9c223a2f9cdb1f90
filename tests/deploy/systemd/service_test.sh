#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The services under a real systemd, booted in a clean Debian root with namespaces of its own: confined as they are, both
# daemons come up and a job trains; a restart of either costs no step; after a stop trainers write a checkpoint and end.
#
#   service_test.sh SOURCE PACKAGES FOLDER    FOLDER: for clean roots
set -euo pipefail
source=$1 packages=$2 folder=$3
. "$source/tests/deploy/package/clean_root.sh"
fail() { echo "$*" >&2; [[ -z "${boot:-}" ]] || guest journalctl --no-pager -n 60 -u 'stretto*' >&2 || true; exit 1; }

clean_root_begin "$folder"
unified=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
[[ -n "$unified" ]] && mkdir "$unified/stretto-services.$$" 2>/dev/null || clean_root_skip "no cgroups (version 2) to give away here"
cgroup=$unified/stretto-services.$$
boot=""
finish() {
  [[ -z "$boot" ]] || { kill -KILL "$boot" && wait "$boot"; } 2>/dev/null || true
  for _ in {1..100}; do  # busy until the last process is reaped
    find "$cgroup" -depth -type d -exec rmdir {} \; 2>/dev/null
    [[ -d "$cgroup" ]] || break
    sleep 0.1
  done
  rm -rf --one-file-system "$clean_root_folder"/root.*
}
trap finish EXIT

root=$(clean_root services)
cp "$packages"/stretto_*.deb "$root/srv/"
in_root "$root" sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd dbus procps /srv/stretto_*.deb' >"$root/srv/log" 2>&1 ||
  fail "$(tail -30 "$root/srv/log")"
# Several restarts, and a step that takes a while: kill and start are to fall into the middle of the run.
cp "$source/deploy/examples/first-job.yaml" "$root/srv/job.yaml"
sed -i 's/^steps:.*/steps: 400/' "$root/srv/job.yaml"
echo 'emulated_link: {gigabits_per_second: 100, latency_microseconds: 2000}' >>"$root/srv/job.yaml"
sed -i 's/^\(STRETTO_WORKER_FLAGS=.*\)/\1 --slots 2/' "$root/etc/stretto/worker.env"

# Its own processes, mounts, network and cgroups; it ends with the first process. Not by chroot, where the kernel allows no
# namespaces of users (PrivateUsers=).
(
  echo "$BASHPID" >"$cgroup/cgroup.procs"
  exec unshare --mount --pid --net --ipc --uts --cgroup --fork --kill-child bash -c '
    root=$1
    mount --bind "$root" "$root" && cd "$root" && mount -t proc proc proc && mount -t sysfs -o ro sysfs sys && mount -t cgroup2 cgroup2 sys/fs/cgroup &&
      mount -t tmpfs tmpfs run && mount -t tmpfs -o mode=755 tmpfs dev && mkdir dev/pts dev/shm && mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts &&
      mount -t tmpfs tmpfs dev/shm && ln -s pts/ptmx dev/ptmx && ln -s /proc/self/fd dev/fd &&
      for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"; done &&
      mknod -m 666 dev/tty c 5 0 && pivot_root . mnt && cd / && umount -l /mnt &&
      exec env -i container=test PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --unit=multi-user.target
  ' services "$root"
) >"$root/srv/boot.log" 2>&1 </dev/null &
boot=$!

guest() { # COMMAND...
  local pid
  pid=$(pgrep -P "$boot" | head -1)
  [[ -n "$pid" ]] || return 1
  nsenter --target "$pid" --mount --pid --net --ipc --uts --cgroup --root --wd env -i PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 "$@"
}
# Until it is true, or nothing else is to be expected.
await() { # WHAT COMMAND...
  local what=$1 end=$((SECONDS + 90))
  shift
  until "$@"; do
    ((SECONDS < end)) || fail "waited for: $what"
    sleep 0.2
  done
}
booted() { [[ "$(guest systemctl is-system-running 2>/dev/null)" =~ ^(running|degraded)$ ]]; }
await "a system that has booted" booted

guest systemctl start stretto-coordinator stretto-worker || fail "the services do not start"
workers() { [[ "$(guest stretto worker list 2>/dev/null)" == *READY* ]]; }
await "a worker that is READY" workers
guest runuser -u stretto -- stretto data prepare /usr/share/common-licenses/GPL-3 --output /var/lib/stretto/data/text
guest stretto job submit /srv/job.yaml
step() { guest stretto job get first-job -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["progress"]["steps"])'; }
beyond() { (($(step) > $1)); }
await "its first steps" beyond 5
trainers=$(guest pgrep stretto-trainer | xargs)
[[ "$(wc -w <<<"$trainers")" -eq 2 ]] || fail "expected two trainers, found '$trainers'"

guest systemctl restart stretto-worker
await "a worker that is READY again" workers
await "steps after a restart of the worker" beyond "$(step)"
[[ "$(guest pgrep stretto-trainer | xargs)" == "$trainers" ]] || fail "a restart of the worker ended trainers $trainers"
guest systemctl kill --signal=KILL --kill-who=main stretto-worker
revived() { [[ "$(guest systemctl show -p NRestarts --value stretto-worker)" == 1 ]] && workers; }
await "a worker that systemd started again" revived
guest systemctl restart stretto-coordinator
await "a worker that is READY at a new coordinator" workers
await "steps after a restart of the coordinator" beyond "$(step)"
[[ "$(guest pgrep stretto-trainer | xargs)" == "$trainers" ]] || fail "a restart of a daemon ended trainers $trainers"

guest systemctl stop stretto-worker
no_trainers() { ! guest pgrep stretto-trainer >/dev/null; }
await "trainers that end once their lease is over" no_trainers
ls -d "$root"/var/lib/stretto/checkpoints/first-job/step-* >/dev/null || fail "they left no checkpoint"
waits() { [[ "$(guest stretto job get first-job -o json)" == *'"WorkersReachable"'* ]]; }
await "a job that waits for its worker" waits
guest systemctl start stretto-worker
ended() { [[ "$(guest stretto job get first-job -o json)" == *'"state": "failed"'* ]]; }
await "the job's end once the worker tells of it" ended
guest stretto job get first-job -o json >"$root/srv/job.json"
grep -q DaemonLost "$root/srv/job.json" || fail "expected reason DaemonLost: $(cat "$root/srv/job.json")"
guest systemctl stop stretto-coordinator
[[ "$(guest systemctl show -p Result --value stretto-coordinator)" == success ]] || fail "the coordinator did not end well"
