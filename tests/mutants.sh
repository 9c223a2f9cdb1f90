#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Breaks behaviours, one at a time, and prints the first test that notices (docs/TESTING.md); of a simulated cluster also
# the seed.
#
#   tests/mutants.sh [BUILD [PROGRAM]]
#   tests/mutants.sh --check
#
# BUILD is a configured build folder of this tree, build/release by default. Each source is restored before the next one
# changes; sources with changes of your own are refused. With PROGRAM, only the mutants for this test program.
# Exit: 0 every mutant was caught; 1 one survived, or a line to break has moved.
# --check builds and changes nothing: it prints the mutants whose line to break has moved, and exits with 1 if there is
# one.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/release} only=${2:-} code=0

# behaviour | source | sed expression that breaks it | test program
mutants() {
  cat <<'ROWS'
schedule order|worker/engine/schedule/domino_row.cc|s/d.act d.fc1 w.fc2 w.fc1/w.fc2 d.act d.fc1 w.fc1/|engine_test
late release|worker/engine/memory/taken.cc|s/add(node.starting, possible)/(void)node/|engine_test
later life|worker/engine/memory/taken.cc|s/met.first, met.rest}/met.first}/|engine_test
optimizer epsilon|kernels/cpu/optimizer.cc|s/root_correction2 + step.epsilon/root_correction2/|kernels_test
checkpoint resume|worker/checkpoint/lineage.cc|s/Order(a) > Order(b)/Order(a) < Order(b)/|checkpoint_test
epoch of a report|coordinator/core/reports.cc|s/event.epoch != job->epoch/event.epoch > job->epoch/|core_test
exit code|coordinator/cli/command_line.cc|s/return kUsage;/return kError;/|cli_test
data order|worker/data/sampler.cc|s/Permute(seed, consumed .*epoch,$/Permute(seed, 0, samples_per_epoch,/|data_test
hash of a spec|proto/spec/job/hash.cc|s/^      spec.seed(), ";", Opt/      ";", Opt/|job_spec_test
gradient scale|worker/trainer/profile.cc|s/(1.0 \/ static_cast<double>(std::max/(2.0 \/ static_cast<double>(std::max/|trainer_test
export dtype|worker/exchange/export_hf.cc|s/source.dtype_of(.*) : dtype;/source.dtype() : dtype;/|export_test
path out of a root|proto/base/beneath.cc|s/how.resolve = RESOLVE_BENEATH/how.resolve = 0/|base_test
part out of a root|proto/base/beneath.cc|s/if (size == 0 .. target\[0\] == .*EXDEV};//|base_test
calls of trainers|worker/daemon/rights/rights.cc|s/if (!rights.filter.empty())/if (rights.open_files < 0)/|rights_test
core dumps|worker/daemon/rights/rights.cc|s/if (!rights.core_dumps)/if (rights.open_files < 0)/|rights_test
user of trainers|worker/daemon/rights/rights.cc|s/if (rights.user.has_value())/if (rights.open_files < 0)/|rights_test
pid of a trainer|worker/daemon/run_folder.cc|s/if (info.st_uid != ::geteuid() \&\& info.st_uid != 0)/if (info.st_size < 0)/|daemon_test
placement rule|coordinator/placement/gang.cc|s/room\[worker\] < room\[\*best\]/room[worker] > room[*best]/|core_test
no epoch check|coordinator/core/reports.cc|s/event.epoch != job->epoch/false/|simcluster_test
send before persist|coordinator/core/driver.cc|s/^  const absl::Status stored = Persist(std::move/  for (const Send\& send : effects.sends) transport_.SendToWorker(send);\n&/|simcluster_test
skipped lease|coordinator/membership/membership.cc|s/steady >= worker.lease_end/steady < absl::ZeroDuration()/|simcluster_test
wall clock|coordinator/core/core.cc|s/steady_ = now.steady;/steady_ = now.wall - absl::UnixEpoch();/|simcluster_test
ranks given up early|coordinator/core/lost_workers.cc|s/HasBeenLostFor(rank.worker, options_.lost_rank_timeout)/HasBeenLostFor(rank.worker, absl::ZeroDuration())/|simcluster_test
moved while it trains|coordinator/core/lost_workers.cc|s/if (!ends \&\& MakesSteps(\*job)) continue;.*//|simcluster_test
steps reported again|coordinator/core/reports.cc|s/event.sequence > jobs_.at(id).replayed\[rank\]/event.sequence > 0/|core_test
lease at a restart|coordinator/membership/membership.cc|s/worker.lease_end = lease_;//|simcluster_test
unsynced commits|coordinator/store/schema.cc|s/PRAGMA synchronous = FULL/PRAGMA synchronous = OFF/|simcluster_test
slot in use|worker/daemon/trainers/trainer_table.cc|s/trainer.stopping \&\& trainer.slot == rank.slot()/false \&\& rank.slot() > 0/|simcluster_test
older epoch in use|worker/daemon/trainers/trainer_table.cc|s/if (key.epoch < assign.epoch()) return true;//|simcluster_test
no grace|worker/daemon/trainers/trainer_table.cc|s/absl::InfiniteDuration()), now + grace);/absl::InfiniteDuration()), now);/|simcluster_test
grace that grows|worker/daemon/trainers/trainer_table.cc|s/std::min(trainer.kill_at.*), now + grace);/now + grace;/|simcluster_test
unended exit|worker/daemon/trainers/trainer_table.cc|s/kill_at = now + grace;/kill_at = now + grace + absl::InfiniteDuration();/|simcluster_test
gang without a rank|worker/daemon/trainers/trainer_table.cc|s/if (!failed) return {};/if (static_cast<int>(failed) < 2) return {};/|simcluster_test
waiting after stop|worker/daemon/trainers/trainer_table.cc|s/effects.unstarted.push_back(assign);/return false;/|trainer_table_test
waiting in two sessions|worker/daemon/trainers/trainer_table.h|s/{ waiting_.clear(); }/{}/|trainer_table_test
resend forgotten|worker/daemon/session/report_table.cc|s/^  rank.sent = acked_sequence;//|simcluster_test
done before counted|worker/daemon/session/report_table.cc|s/rank.ended \&\& rank.acked == rank.seen/rank.ended/|simcluster_test
exit of a process|worker/daemon/session/report_table.cc|s/ .. (report->has_exit() \&\& !rank.ended)//|simcluster_test
gap in a stream|worker/daemon/session/report_table.cc|s/report.sequence() != it->second.seen + 1 .. report.has_dropped()) return Arrival/false) return Arrival/|simcluster_test
unlogged forgotten|worker/daemon/session/report_table.cc|s/return !live .. rank.recent.front().sequence() <= rank.acked;/return live ? rank.acked >= 0 : true;/|simcluster_test
dropped counted twice|worker/daemon/session/report_table.cc|s/^    DropOnlyAfter(rank.sent, .*$//|simcluster_test
dropped is a gap|coordinator/core/reports.cc|s/event.sequence - event.dropped > acked/event.sequence > acked/|simcluster_test
numbers of a log|worker/daemon/session/report_table.cc|s/acked_sequence > rank.seen \&\& !rank.ended/false/|session_test
death in an answer|worker/daemon/session/report_table.cc|s/ \&\& rank.offered_alive) {/ \&\& rank.stopped \&\& !rank.ended) {/|simcluster_test
unlogged warning|worker/daemon/session/report_table.cc|s/(!logged \&\& !report.has_exit())/false/|simcluster_test
report first|worker/daemon/session/send_order.cc|s/if (now >= next_heartbeat_) return/if (now >= next_heartbeat_ \&\& !may_have_message_) return/|simcluster_test
epoch of an answer|worker/daemon/session/registration.cc|s/KeyOf(reply) == answer.key/reply.job_uid() == answer.key.job_uid \&\& reply.rank() == answer.key.rank/|simcluster_test
cluster not noted|worker/daemon/session/registration.cc|s/return {cluster_id, /return {before.cluster_id, /|simcluster_test
end never reported|coordinator/core/sessions.cc|s/if (last == 0 .. jobs_.at(id).acked\[i\] < last) continue;/if (last >= 0) continue;/|simcluster_test
numbers that go on|coordinator/core/sessions.cc|s/Touch(id).acked\[rank\] = 0;/Touch(id).acked[rank] += 0;/|simcluster_test
never started|coordinator/core/sessions.cc|s/if (!Get(id).stop_reason.empty()) {/if (never_started.empty()) {/|core_test
ROWS
}

check() {
  local behaviour source broken program
  while IFS='|' read -r behaviour source broken program; do
    if [[ ! -f $source ]]; then
      echo "tests/mutants.sh: $behaviour: found no file $source, expected the one to break"
    elif sed "$broken" "$source" | cmp -s - "$source"; then
      echo "tests/mutants.sh: $behaviour: found no line of $source that $broken changes, expected one"
    else
      continue
    fi
    code=1
  done < <(mutants)
  exit $code
}
[[ ${1:-} != --check ]] || check

while IFS='|' read -r behaviour source broken program; do
  [[ -z $only || $only == "$program" ]] || continue
  git diff --quiet HEAD -- "$source" || { echo "$source: found changes, expected none" >&2; exit 1; }
  trap 'git checkout -q -- "$source"' EXIT
  sed -i "$broken" "$source"
  if git diff --quiet -- "$source"; then
    found="the line to break has moved" code=1
  elif ! log=$(ninja -C "$build" "$program" 2>&1); then
    found="does not compile: $(grep -m1 error: <<<"$log")" code=1
  else
    log=$(timeout 300 "$build/bin/$program" --gtest_fail_fast --gtest_brief=1 2>&1 </dev/null)
    found=$(sed -nE "/^\[  FAILED  \] [A-Za-z]/{s/^\[  FAILED  \] ([^ ,]*).*/\1/p;q}" <<<"$log")
    [[ -n $found ]] || { found=SURVIVED code=1; }
    found+=$(sed -nE "s/^broken: (.*); (seed [0-9]+), event.*/ at \2: \1/p" <<<"$log" | head -1)
  fi
  git checkout -q -- "$source"
  trap - EXIT
  printf '%-18s  %-40s  %s: %s\n' "$behaviour" "$source" "$program" "$found"
done < <(mutants)
exit $code
