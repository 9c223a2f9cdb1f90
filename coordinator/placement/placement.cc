// SPDX-License-Identifier: Apache-2.0

// Tries the queue from its head on a copy of the cluster view and marks the slots that each gang
// takes, so that the next job sees what is left. The head of a kind of slot is the first job that
// could run but did not fit, and therefore blocks the later ones of its kind.

#include "coordinator/placement/placement.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "coordinator/placement/gang.h"

namespace stretto::coordinator {
namespace {

bool IsFree(const WorkerView& worker, const SlotView& slot, int32_t kind) {
  return worker.open() && slot.free && slot.healthy && slot.kind == kind;
}

std::string Count(size_t n, const char* noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

// Says why a gang does not fit.
std::string Shortage(const std::vector<WorkerView>& workers, const QueuedJob& job) {
  size_t known = 0, holders = 0, lost = 0, cordoned = 0;
  int32_t free = 0;
  std::vector<int32_t> room;
  for (const WorkerView& worker : workers) {
    size_t here = 0;
    int32_t free_here = 0;
    for (const SlotView& slot : worker.slots) {
      if (slot.kind != job.kind || !slot.healthy) continue;
      ++here;
      free_here += worker.open() && slot.free;
    }
    room.push_back(free_here);
    free += free_here;
    known += here;
    holders += here > 0;
    lost += here > 0 && !worker.ready;
    cordoned += here > 0 && worker.ready && worker.cordoned;
  }
  std::string text = absl::StrCat("needs ", CountOf(job.gang.ranks(), job.kind), "; ", free,
                                  " free of ", known, " on ", Count(holders, "worker"));
  if (lost > 0) absl::StrAppend(&text, " (", lost, " lost)");
  if (cordoned > 0) absl::StrAppend(&text, " (", cordoned, " cordoned)");
  text += FaultyNote(FaultySlots(workers, job.kind));
  if (free < job.gang.ranks()) return text;
  int32_t blocks = 0, largest = 0;
  for (const StageBlocks& stage : job.gang.stages) {
    blocks += stage.blocks;
    largest = std::max(largest, stage.size);
  }
  if (*std::max_element(room.begin(), room.end()) < largest) {
    absl::StrAppend(&text, ", but no worker has room for a block of ", largest);
  } else {
    absl::StrAppend(&text, ", but whole blocks find room for ", WholeBlocks(room, job.gang), " of ",
                    blocks, " only");
  }
  return text + " (set placement.split_blocks to let one span workers)";
}

}  // namespace

int32_t Gang::ranks() const {
  int32_t sum = 0;
  for (const StageBlocks& stage : stages) sum += stage.ranks();
  return sum;
}

bool CutsBlock(const std::vector<RankSlot>& ranks, const Gang& gang) {
  size_t rank = 0;
  for (const StageBlocks& stage : gang.stages) {
    for (int32_t i = 0; i < stage.ranks(); ++i, ++rank) {
      if (ranks[rank].worker != ranks[rank - static_cast<size_t>(i % stage.size)].worker)
        return true;
    }
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

Placer::Placer(std::vector<WorkerView> workers) : workers_(std::move(workers)) {
  std::sort(workers_.begin(), workers_.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  for (WorkerView& worker : workers_) {
    std::sort(worker.slots.begin(), worker.slots.end(),
              [](const auto& a, const auto& b) { return a.slot < b.slot; });
    for (const SlotView& slot : worker.slots) known_.try_emplace(slot.kind, workers_.size());
  }
  for (auto& [kind, known] : known_) {
    for (size_t i = 0; i < workers_.size(); ++i) {
      for (const SlotView& slot : workers_[i].slots) known[i] += slot.kind == kind && slot.healthy;
    }
  }
}

std::vector<int32_t> Placer::RoomFor(int32_t kind) const {
  const auto reserved = reserved_.find(kind);
  std::vector<int32_t> room(workers_.size());
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (reserved != reserved_.end() && reserved->second[i]) continue;
    for (const SlotView& slot : workers_[i].slots) room[i] += IsFree(workers_[i], slot, kind);
  }
  return room;
}

std::vector<RankSlot> Placer::Take(const QueuedJob& job) {
  std::vector<size_t> passed(workers_.size());  // slots of a worker, up to the last one taken
  std::vector<RankSlot> ranks;
  for (size_t i : DealGang(RoomFor(job.kind), job.gang)) {
    WorkerView& worker = workers_[i];
    while (!IsFree(worker, worker.slots[passed[i]], job.kind)) ++passed[i];
    SlotView& slot = worker.slots[passed[i]];
    slot.free = false;
    ranks.push_back({.worker = worker.id, .slot = slot.slot});
  }
  return ranks;
}

bool Placer::Fits(const QueuedJob& job) const {
  return !DealGang(RoomFor(job.kind), job.gang).empty();
}

void Placer::SetFree(const std::vector<RankSlot>& slots, bool free) {
  for (const RankSlot& of : slots) {
    const auto worker = std::lower_bound(workers_.begin(), workers_.end(), of.worker,
                                         [](const auto& w, const auto& id) { return w.id < id; });
    if (worker == workers_.end() || worker->id != of.worker) continue;
    for (SlotView& slot : worker->slots) {
      if (slot.slot == of.slot) slot.free = free;
    }
  }
}

void Placer::Reserve(const QueuedJob& job) {
  int32_t smallest = INT32_MAX;
  for (const StageBlocks& stage : job.gang.stages) smallest = std::min(smallest, stage.size);
  if (job.gang.split_blocks) smallest = 1;
  std::vector<bool>& reserved = reserved_[job.kind];
  reserved.resize(workers_.size());
  for (size_t i = 0; i < workers_.size(); ++i) {
    int32_t slots = 0;
    for (const SlotView& slot : workers_[i].slots) slots += slot.kind == job.kind;
    if (slots >= smallest) reserved[i] = true;
  }
}

bool Placer::HasRoom(int32_t kind) const {
  const std::vector<int32_t> room = RoomFor(kind);
  return std::any_of(room.begin(), room.end(), [](int32_t free) { return free > 0; });
}

bool Placer::IsPossible(const QueuedJob& job) {
  const auto [entry, added] = is_possible_.try_emplace({job.kind, job.gang});
  if (added) {
    const auto known = known_.find(job.kind);
    entry->second = known != known_.end() && !DealGang(known->second, job.gang).empty();
  }
  return entry->second;
}

Unplaced Placer::WhyWaiting(const QueuedJob& job, const QueuedJob* head) {
  if (workers_.empty()) {
    return {
        job.id, "NoWorkers",
        absl::StrCat("needs ", CountOf(job.gang.ranks(), job.kind), "; no worker has registered")};
  }
  if (head != nullptr && IsPossible(job)) {
    return {job.id, "BehindEarlierJob",
            absl::StrCat("waits behind job ", head->id, ", which ", Shortage(workers_, *head))};
  }
  return {job.id, "NotEnoughSlots", Shortage(workers_, job)};
}

}  // namespace stretto::coordinator
