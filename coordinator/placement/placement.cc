// SPDX-License-Identifier: Apache-2.0

// Tries the queue from its head on a copy of the cluster view and marks the slots that each gang
// takes, so that the next job sees what is left. `heads` has, per kind of slot, the first job that
// did not fit and therefore blocks the later ones of its kind.

#include "coordinator/placement/placement.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace stretto::coordinator {
namespace {

// The free slots of one worker that suit one job.
struct Candidate {
  WorkerView* worker;
  std::vector<SlotView*> free;
};

std::vector<Candidate> Candidates(std::vector<WorkerView>& workers, int32_t kind) {
  std::vector<Candidate> candidates;
  for (WorkerView& worker : workers) {
    if (!worker.ready) continue;
    Candidate candidate{.worker = &worker, .free = {}};
    for (SlotView& slot : worker.slots) {
      if (slot.free && slot.healthy && slot.kind == kind) candidate.free.push_back(&slot);
    }
    if (!candidate.free.empty()) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// Takes as many of the free slots as the gang still needs, in multiples of `unit`.
void Take(const Candidate& candidate, int32_t slots, int32_t unit, std::vector<RankSlot>& ranks) {
  const size_t usable = candidate.free.size() / unit * unit;
  for (size_t i = 0; i < usable && static_cast<int32_t>(ranks.size()) < slots; ++i) {
    candidate.free[i]->free = false;
    ranks.push_back({.worker = candidate.worker->id, .slot = candidate.free[i]->slot});
  }
}

// Returns the slots by rank, empty if the gang does not fit, and marks them as taken.
std::vector<RankSlot> TakeGang(std::vector<WorkerView>& workers, const QueuedJob& job) {
  std::vector<Candidate> candidates = Candidates(workers, job.kind);
  const size_t slots = job.slots, block = job.block;
  size_t free = 0, in_blocks = 0;
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    free += candidate.free.size();
    in_blocks += candidate.free.size() / block * block;
    if (candidate.free.size() < slots) continue;
    if (best == nullptr || candidate.free.size() < best->free.size()) best = &candidate;
  }
  std::vector<RankSlot> ranks;
  if (best != nullptr) {
    Take(*best, job.slots, 1, ranks);
  } else if (free >= slots) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.free.size() > b.free.size(); });
    const int32_t unit = in_blocks >= slots ? job.block : 1;
    for (const Candidate& candidate : candidates) Take(candidate, job.slots, unit, ranks);
  }
  return ranks;
}

std::string Count(size_t n, const char* noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

std::string Shortage(const std::vector<WorkerView>& workers, const QueuedJob& job) {
  size_t known = 0, free = 0, holders = 0, lost = 0;
  for (const WorkerView& worker : workers) {
    size_t here = 0;
    for (const SlotView& slot : worker.slots) {
      if (slot.kind != job.kind || !slot.healthy) continue;
      ++here;
      free += worker.ready && slot.free;
    }
    known += here;
    holders += here > 0;
    lost += here > 0 && !worker.ready;
  }
  std::string text = absl::StrCat("needs ", CountOf(job.slots, job.kind), "; ", free, " free of ",
                                  known, " on ", Count(holders, "worker"));
  if (lost > 0) absl::StrAppend(&text, " (", lost, " lost)");
  return absl::StrCat(text, FaultyNote(FaultySlots(workers, job.kind)));
}

}  // namespace

bool CutsBlock(const std::vector<RankSlot>& ranks, int32_t block) {
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].worker != ranks[rank / block * block].worker) return true;
  }
  return false;
}

std::string CountOf(int32_t slots, int32_t kind) {
  return Count(slots, kind == kGpuKind ? "GPU" : "slot");
}

int32_t KnownSlots(const std::vector<WorkerView>& workers, int32_t kind) {
  int32_t known = 0;
  for (const WorkerView& worker : workers) {
    for (const SlotView& slot : worker.slots) known += slot.kind == kind && slot.healthy;
  }
  return known;
}

int32_t FaultySlots(const std::vector<WorkerView>& workers, int32_t kind) {
  int32_t faulty = 0;
  for (const WorkerView& worker : workers) {
    for (const SlotView& slot : worker.slots) faulty += slot.kind == kind && !slot.healthy;
  }
  return faulty;
}

std::string FaultyNote(int32_t faulty) {
  return faulty > 0 ? absl::StrCat(" (", faulty, " faulty)") : "";
}

Placement Place(const std::vector<QueuedJob>& queue, std::vector<WorkerView> workers) {
  std::sort(workers.begin(), workers.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  for (WorkerView& worker : workers) {
    std::sort(worker.slots.begin(), worker.slots.end(),
              [](const auto& a, const auto& b) { return a.slot < b.slot; });
  }
  Placement placement;
  std::map<int32_t, std::string> heads;  // by kind: the job that blocks it, and its need
  for (const QueuedJob& job : queue) {
    if (workers.empty()) {
      placement.unplaced.push_back(
          {job.id, "NoWorkers",
           absl::StrCat("needs ", CountOf(job.slots, job.kind), "; no worker has registered")});
      continue;
    }
    const bool possible = job.slots <= KnownSlots(workers, job.kind);
    if (const auto head = heads.find(job.kind); possible && head != heads.end()) {
      placement.unplaced.push_back(
          {job.id, "BehindEarlierJob", absl::StrCat("waits behind job ", head->second)});
      continue;
    }
    std::vector<RankSlot> ranks;
    if (possible) ranks = TakeGang(workers, job);
    if (!ranks.empty()) {
      placement.placed.push_back({job.id, std::move(ranks)});
      continue;
    }
    const std::string shortage = Shortage(workers, job);
    placement.unplaced.push_back({job.id, "NotEnoughSlots", shortage});
    if (possible) heads.emplace(job.kind, absl::StrCat(job.id, ", which ", shortage));
  }
  return placement;
}

}  // namespace stretto::coordinator
