// SPDX-License-Identifier: Apache-2.0
#pragma once
// Placement of gangs over a view of the cluster. Pure; who is tried next, and what is reserved for
// jobs that wait, is the queue's rule (coordinator/core/queue.cc). A job that would not fit if all
// known slots were free cannot run on this cluster as it is.
//
// A gang is placed whole or not at all. If it fits on one worker, it goes to the one that keeps the
// fewest free slots (best fit); otherwise it is spread over as few workers as possible (gang.h). A
// block is never cut by the border of workers, unless its job allows that and would otherwise wait.
// Ties go to the smaller worker id. The same input gives the same output.

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace stretto::coordinator {

inline constexpr int32_t kGpuKind = 2;  // v1alpha1.DEVICE_CUDA

struct SlotView {
  int32_t slot = 0;
  int32_t kind = 0;
  bool free = true;
  bool healthy = true;  // a faulty slot does not count as a slot until it is repaired
};

struct WorkerView {
  std::string id;
  // Slots of a worker that is not ready, or cordoned, count as known, never as free.
  bool ready = true;
  bool cordoned = false;
  bool open() const { return ready && !cordoned; }
  std::vector<SlotView> slots;
};

// The ranks of a stage: blocks of consecutive ranks. Ranks communicate most within a block, and
// then within a stage.
struct StageBlocks {
  int32_t blocks = 1;
  int32_t size = 1;  // ranks of a block

  int32_t ranks() const { return blocks * size; }
  auto operator<=>(const StageBlocks&) const = default;
};

// What a job asks for: a slot for each rank.
struct Gang {
  std::vector<StageBlocks> stages = {{}};  // in the order of ranks
  bool split_blocks = false;               // a block may be on several workers

  int32_t ranks() const;
  auto operator<=>(const Gang&) const = default;
};

struct QueuedJob {
  std::string id;
  Gang gang;
  int32_t kind = 0;
};

struct RankSlot {
  std::string worker;
  int32_t slot = 0;
  bool operator==(const RankSlot&) const = default;
};

struct Placed {
  std::string job_id;
  std::vector<RankSlot> ranks;  // by rank
};

struct Unplaced {
  std::string job_id;
  std::string reason;   // NoWorkers, NotEnoughSlots, BehindEarlierJob
  std::string message;  // "needs 4 GPUs; 3 free of 3 on 2 workers (1 faulty)"
};

struct Placement {
  std::vector<Placed> placed;  // both in queue order
  std::vector<Unplaced> unplaced;
};

// Whether some block of a gang is on more than one worker. `ranks` are all of the gang's.
bool CutsBlock(const std::vector<RankSlot>& ranks, const Gang& gang);

// A view of the cluster on which jobs are tried one after the other. A copy costs a bit for each
// slot: copies share the workers, and what has been found out about them. So a placer and its
// copies belong to one thread at a time.
class Placer {
 public:
  // Worker ids are unique.
  explicit Placer(std::vector<WorkerView> workers);

  // Returns the slots by rank and takes them; empty if the gang does not fit.
  std::vector<RankSlot> Take(const QueuedJob& job);
  // Whether Take would find slots.
  bool Fits(const QueuedJob& job) const;

  // Marks slots as free or as taken; unknown ones are ignored.
  void SetFree(const std::vector<RankSlot>& slots, bool free);

  // From now on nothing is placed on a worker that could ever hold a block of this job: not now,
  // but with all its slots free and repaired. Slots on other workers are of no use to the job.
  void Reserve(const QueuedJob& job);
  // Whether a slot of this kind is free that is not reserved.
  bool HasRoom(int32_t kind) const;

  // Whether the gang would fit if it had the cluster for itself. If not, it blocks nobody.
  bool IsPossible(const QueuedJob& job) const { return FitsAlone(job.gang, job.kind, false); }
  // The same without the workers that take no new ranks.
  bool IsPossibleNow(const Gang& gang, int32_t kind) const { return FitsAlone(gang, kind, true); }

  // Of a job that is not possible: what it needs and what the cluster has, "needs 4 slots; this
  // cluster has 2 on 2 workers".
  std::string WhyImpossible(const QueuedJob& job) const;

  // Healthy slots of a kind, of all workers, ready or not.
  int64_t KnownSlots(int32_t kind) const;

  // Why a job waits. `head` is the job that blocks its kind of slot; null if there is none or if it
  // is `job`.
  Unplaced WhyWaiting(const QueuedJob& job, const QueuedJob* head) const;

 private:
  struct Cluster {
    std::vector<WorkerView> workers;                // by id; `free` is as it was in the beginning
    std::vector<size_t> first;                      // by worker: its first slot in free_
    std::map<int32_t, std::vector<int32_t>> known;  // by kind and worker: healthy slots
    // By whether workers must be open, kind and gang. A cache: many jobs ask for the same.
    std::map<std::tuple<bool, int32_t, Gang>, bool> fits_alone;
  };
  bool FitsAlone(const Gang& gang, int32_t kind, bool on_open) const;
  std::vector<int32_t> RoomFor(int32_t kind) const;  // free slots by worker
  bool IsFree(size_t worker, size_t slot, int32_t kind) const;
  std::string Shortage(const QueuedJob& job) const;  // why a gang does not fit

  std::shared_ptr<Cluster> cluster_;  // shared by copies; all but the cache is constant
  std::vector<bool> free_;            // by slot
  std::map<int32_t, std::vector<bool>> reserved_;  // by kind and worker
};

// "1 slot", "2 slots" or "2 GPUs", by the kind.
std::string CountOf(int32_t slots, int32_t kind);

// The number of faulty slots of `kind` over all workers, ready or not.
int32_t FaultySlots(const std::vector<WorkerView>& workers, int32_t kind);
// " (2 faulty)", or nothing.
std::string FaultyNote(int32_t faulty);

}  // namespace stretto::coordinator
