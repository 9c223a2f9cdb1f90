// SPDX-License-Identifier: Apache-2.0

// Tries the queue from its head on a view of the cluster and marks the slots that each gang takes,
// so that the next job sees what is left. Only these marks belong to a placer; a cluster of 10,000
// workers is described once for all of them. The head of a kind of slot is the first job that
// could run but did not fit, and therefore blocks the later ones of its kind.

#include "coordinator/placement/placement.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/placement/gang.h"

namespace stretto::coordinator {
namespace {

std::string Count(size_t n, const char* noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
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

Placer::Placer(std::vector<WorkerView> workers) : cluster_(std::make_shared<Cluster>()) {
  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  const auto by_slot = [](const auto& a, const auto& b) { return a.slot < b.slot; };
  // Views of a large cluster come in order.
  if (!std::is_sorted(workers.begin(), workers.end(), by_id))
    std::sort(workers.begin(), workers.end(), by_id);
  for (WorkerView& worker : workers) {
    std::sort(worker.slots.begin(), worker.slots.end(), by_slot);
    cluster_->first.push_back(free_.size());
    for (const SlotView& slot : worker.slots) {
      free_.push_back(slot.free);
      std::vector<int32_t>& known =
          cluster_->known.try_emplace(slot.kind, workers.size()).first->second;
      known[cluster_->first.size() - 1] += slot.healthy;
    }
  }
  cluster_->workers = std::move(workers);
}

bool Placer::IsFree(size_t worker, size_t slot, int32_t kind) const {
  const WorkerView& on = cluster_->workers[worker];
  return on.open() && on.slots[slot].healthy && on.slots[slot].kind == kind &&
         free_[cluster_->first[worker] + slot];
}

std::vector<int32_t> Placer::RoomFor(int32_t kind) const {
  const std::vector<WorkerView>& workers = cluster_->workers;
  const auto reserved = reserved_.find(kind);
  std::vector<int32_t> room(workers.size());
  for (size_t i = 0; i < workers.size(); ++i) {
    if (reserved != reserved_.end() && reserved->second[i]) continue;
    for (size_t slot = 0; slot < workers[i].slots.size(); ++slot) room[i] += IsFree(i, slot, kind);
  }
  return room;
}

std::vector<RankSlot> Placer::Take(const QueuedJob& job) {
  std::vector<size_t> passed(cluster_->workers.size());  // slots of a worker, up to the last taken
  std::vector<RankSlot> ranks;
  for (size_t i : DealGang(RoomFor(job.kind), job.gang)) {
    const WorkerView& worker = cluster_->workers[i];
    while (!IsFree(i, passed[i], job.kind)) ++passed[i];
    free_[cluster_->first[i] + passed[i]] = false;
    ranks.push_back({.worker = worker.id, .slot = worker.slots[passed[i]].slot});
  }
  return ranks;
}

bool Placer::Fits(const QueuedJob& job) const {
  return !DealGang(RoomFor(job.kind), job.gang).empty();
}

void Placer::SetFree(const std::vector<RankSlot>& slots, bool free) {
  const std::vector<WorkerView>& workers = cluster_->workers;
  for (const RankSlot& of : slots) {
    const auto worker = std::lower_bound(workers.begin(), workers.end(), of.worker,
                                         [](const auto& w, const auto& id) { return w.id < id; });
    if (worker == workers.end() || worker->id != of.worker) continue;
    const size_t first = cluster_->first[static_cast<size_t>(worker - workers.begin())];
    for (size_t i = 0; i < worker->slots.size(); ++i) {
      if (worker->slots[i].slot == of.slot) free_[first + i] = free;
    }
  }
}

void Placer::Reserve(const QueuedJob& job) {
  int32_t smallest = INT32_MAX;
  for (const StageBlocks& stage : job.gang.stages) smallest = std::min(smallest, stage.size);
  if (job.gang.split_blocks) smallest = 1;
  const std::vector<WorkerView>& workers = cluster_->workers;
  std::vector<bool>& reserved = reserved_[job.kind];
  reserved.resize(workers.size());
  for (size_t i = 0; i < workers.size(); ++i) {
    int32_t slots = 0;
    for (const SlotView& slot : workers[i].slots) slots += slot.kind == job.kind;
    if (slots >= smallest) reserved[i] = true;
  }
}

bool Placer::HasRoom(int32_t kind) const {
  const std::vector<int32_t> room = RoomFor(kind);
  return std::any_of(room.begin(), room.end(), [](int32_t free) { return free > 0; });
}

bool Placer::FitsAlone(const Gang& gang, int32_t kind, bool on_open) const {
  const auto [entry, added] = cluster_->fits_alone.try_emplace({on_open, kind, gang});
  const auto known = cluster_->known.find(kind);
  if (!added || known == cluster_->known.end()) return entry->second;
  std::vector<int32_t> room = known->second;
  for (size_t i = 0; on_open && i < room.size(); ++i) {
    if (!cluster_->workers[i].open()) room[i] = 0;
  }
  entry->second = !DealGang(room, gang).empty();
  return entry->second;
}

int64_t Placer::KnownSlots(int32_t kind) const {
  const auto known = cluster_->known.find(kind);
  if (known == cluster_->known.end()) return 0;
  return std::accumulate(known->second.begin(), known->second.end(), int64_t{0});
}

std::string Placer::Shortage(const QueuedJob& job) const {
  const std::vector<WorkerView>& workers = cluster_->workers;
  size_t known = 0, holders = 0, lost = 0, cordoned = 0;
  int32_t free = 0;
  std::vector<int32_t> room;
  for (size_t i = 0; i < workers.size(); ++i) {
    const WorkerView& worker = workers[i];
    size_t here = 0;
    int32_t free_here = 0;
    for (size_t slot = 0; slot < worker.slots.size(); ++slot) {
      here += worker.slots[slot].kind == job.kind && worker.slots[slot].healthy;
      free_here += IsFree(i, slot, job.kind);
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

std::string Placer::WhyImpossible(const QueuedJob& job) const {
  int32_t known = 0, most = 0, block = 1;
  size_t holders = 0;
  if (const auto found = cluster_->known.find(job.kind); found != cluster_->known.end()) {
    for (const int32_t here : found->second) {
      known += here;
      most = std::max(most, here);
      holders += here > 0;
    }
  }
  for (const StageBlocks& stage : job.gang.stages) {
    if (!job.gang.split_blocks) block = std::max(block, stage.size);
  }
  return absl::StrCat("needs ", CountOf(job.gang.ranks(), job.kind),
                      block == 1 ? "" : absl::StrCat(" in blocks of up to ", block),
                      "; this cluster has ", known, " on ", Count(holders, "worker"),
                      block == 1 ? "" : absl::StrCat(", at most ", most, " on one"),
                      FaultyNote(FaultySlots(cluster_->workers, job.kind)));
}

Unplaced Placer::WhyWaiting(const QueuedJob& job, const QueuedJob* head) const {
  if (cluster_->workers.empty()) {
    return {
        job.id, "NoWorkers",
        absl::StrCat("needs ", CountOf(job.gang.ranks(), job.kind), "; no worker has registered")};
  }
  if (head != nullptr && IsPossible(job)) {
    return {job.id, "BehindEarlierJob",
            absl::StrCat("waits behind job ", head->id, ", which ", Shortage(*head))};
  }
  return {job.id, "NotEnoughSlots", Shortage(job)};
}

}  // namespace stretto::coordinator
