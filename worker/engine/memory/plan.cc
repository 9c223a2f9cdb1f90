#include "worker/engine/memory/plan.h"

#include <algorithm>
#include <vector>

#include "proto/base/status_macros.h"
#include "worker/engine/program/happens_before.h"

namespace stretto {
namespace {

int64_t Aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// When an activation is in use: its first access and, per lane, the last. A buffer that several
// micro-batches use (a slot) repeats the same pattern, so the first micro-batch speaks for all; the
// verifier proves the whole.
struct Lifetime {
  int id = -1;
  int first = -1;
  int micro_batch = -1;
  std::vector<int> last;  // per lane, position of the last access, -1 for none
};

std::vector<Lifetime> LifetimesOf(const Program& program, const HappensBefore& order) {
  std::vector<Lifetime> all(program.buffers.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    for (const std::vector<int>* ids : {&op.in, &op.out}) {
      for (int id : *ids) {
        const int root = RootOf(program.buffers, id).buffer;
        Lifetime& life = all[static_cast<size_t>(root)];
        if (life.id < 0) {
          life = {root, static_cast<int>(i), op.tag.micro_batch,
                  std::vector<int>(program.lanes.size(), -1)};
        }
        if (op.tag.micro_batch != life.micro_batch) continue;
        int& last = life.last[static_cast<size_t>(op.lane)];
        last = std::max(last, order.position(static_cast<int>(i)));
      }
    }
  }
  std::erase_if(all, [&](const Lifetime& life) {
    return life.id < 0 ||
           program.buffers[static_cast<size_t>(life.id)].arena != ArenaClass::kActivation;
  });
  std::sort(all.begin(), all.end(),
            [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; });
  return all;
}

// Every access of `earlier` has completed before operation `op` starts. An operand of `op` itself
// has not: an output never lies on an input.
bool DoneBefore(const Lifetime& earlier, int op, int lane_of_op, const HappensBefore& order) {
  const int* clock = order.clock(op);
  for (size_t lane = 0; lane < earlier.last.size(); ++lane) {
    // On its own lane the clock counts `op` too.
    const int done = clock[lane] - (static_cast<int>(lane) == lane_of_op ? 1 : 0);
    if (earlier.last[lane] >= done) return false;
  }
  return true;
}

// Every access has completed before anything that comes after operation `op` in the program,
// whatever its lane: clocks only grow along a lane, so it is enough to ask the last operation of
// each. A lane that has none yet may start at any time.
bool DoneForGood(const Lifetime& earlier, const std::vector<int>& last_of_lane,
                 const HappensBefore& order) {
  for (size_t lane = 0; lane < last_of_lane.size(); ++lane) {
    if (last_of_lane[lane] < 0) return false;
    if (!DoneBefore(earlier, last_of_lane[lane], static_cast<int>(lane), order)) return false;
  }
  return true;
}

// Lowest gap of `bytes` between the buffers that are alive when `op` starts; `placed` ascends by
// offset.
int64_t LowestGap(const std::vector<const Lifetime*>& placed, int op, int64_t bytes,
                  const Program& program, const HappensBefore& order) {
  int64_t offset = 0;
  for (const Lifetime* other : placed) {
    const Buffer& buffer = program.buffers[static_cast<size_t>(other->id)];
    if (buffer.offset + Aligned(buffer.bytes()) <= offset) continue;
    if (DoneBefore(*other, op, program.ops[static_cast<size_t>(op)].lane, order)) continue;
    if (buffer.offset - offset >= bytes) break;
    offset = buffer.offset + Aligned(buffer.bytes());
  }
  return offset;
}

int64_t PlaceActivations(const std::vector<Lifetime>& lives, const HappensBefore& order,
                         Program* program) {
  int64_t total = 0;
  std::vector<const Lifetime*>
      placed;  // by offset; those that may still be alive for a later buffer
  std::vector<int> last_of_lane(program->lanes.size(), -1);
  int next_op = 0;
  for (const Lifetime& life : lives) {
    for (; next_op < life.first; ++next_op) {
      last_of_lane[static_cast<size_t>(program->ops[static_cast<size_t>(next_op)].lane)] = next_op;
    }
    std::erase_if(placed,
                  [&](const Lifetime* other) { return DoneForGood(*other, last_of_lane, order); });
    Buffer& buffer = program->buffers[static_cast<size_t>(life.id)];
    buffer.offset = LowestGap(placed, life.first, Aligned(buffer.bytes()), *program, order);
    total = std::max(total, buffer.offset + Aligned(buffer.bytes()));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), buffer.offset,
                                   [&](int64_t offset, const Lifetime* other) {
                                     return offset <
                                            program->buffers[static_cast<size_t>(other->id)].offset;
                                   }),
                  &life);
  }
  return total;
}

}  // namespace

absl::StatusOr<ArenaBytes> PlanMemory(Program* program) {
  ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Build(*program));
  ArenaBytes arenas = {};
  const std::vector<Lifetime> lives = LifetimesOf(*program, order);
  arenas[static_cast<size_t>(ArenaClass::kActivation)] = PlaceActivations(lives, order, program);
  for (Buffer& buffer : program->buffers) {
    if (buffer.alias >= 0 || buffer.offset >= 0) continue;
    if (buffer.arena == ArenaClass::kActivation) {  // untouched: any place will do
      buffer.offset = 0;
      arenas[static_cast<size_t>(buffer.arena)] =
          std::max(arenas[static_cast<size_t>(buffer.arena)], Aligned(buffer.bytes()));
      continue;
    }
    int64_t& end = arenas[static_cast<size_t>(buffer.arena)];
    buffer.offset = end;
    end += Aligned(buffer.bytes());
  }
  return arenas;
}

absl::StatusOr<int64_t> PeakLiveActivations(const Program& program) {
  ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Build(program));
  const std::vector<Lifetime> lives = LifetimesOf(program, order);
  int64_t peak = 0;
  for (const Lifetime& life : lives) {
    int64_t live = 0;
    for (const Lifetime& other : lives) {
      const bool starts = other.first <= life.first;
      if (starts && !DoneBefore(other, life.first,
                                program.ops[static_cast<size_t>(life.first)].lane, order)) {
        live += Aligned(program.buffers[static_cast<size_t>(other.id)].bytes());
      }
    }
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace stretto
