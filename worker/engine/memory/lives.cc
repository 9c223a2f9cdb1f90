// SPDX-License-Identifier: Apache-2.0

// Finds when each root activation is in use, by one walk over the operations in an order that
// respects happens-before. Each access extends the life of its micro-batch on the buffer; a read of
// a value that another micro-batch wrote extends the life back to that micro-batch's. Whether two
// lives are disjoint is decided per lane: every lane must have passed the last access of the first
// before it enters the second (FirstAfter gives the first operation of a lane after an access).
// Long steps repeat themselves, so only a sample of the micro-batches is examined.

#include "worker/engine/memory/lives.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "worker/engine/program/memory_map.h"

namespace stretto {
namespace {

// Chooses the micro-batches to examine. Let d be the longest distance, in micro-batches, between
// one use of a buffer or view and its next, and p the least common multiple of these distances.
// Then a micro-batch shares time only with those less than d before and after it, it meets those d
// away, and the pattern repeats with period p. The first d have fewer before them and the last d
// fewer after them; in between, every p repeat the p before. So the first d, the p that follow and
// d more show everything that two micro-batches can do to each other, unless one is among the last
// d, which the last 2d show. A step for which this does not hold fails Verify.
class Sample {
 public:
  Sample(const Program& program, const IdVector<BufferId, BufferId>& root) {
    IdVector<BufferId, int> latest(program.buffers.size(), -1);
    IdVector<BufferId, bool> again(program.buffers.size(), false);
    for (const Op& op : program.ops) {
      const int now = op.tag.micro_batch;
      if (now < 0) continue;
      last_ = std::max(last_, now);
      for (const BufferList* ids : {&op.in, &op.out}) {
        for (BufferId id : *ids) {
          if (root[id] < 0 || latest[id] >= now) continue;
          if (latest[id] >= 0) {
            again[id] = true;
            distance_ = std::max(distance_, int64_t{now - latest[id]});
            period_ = std::min(std::lcm(period_, int64_t{now - latest[id]}), kNone);
          }
          latest[id] = now;
        }
      }
    }
    for (BufferId i : latest.ids()) {
      if (latest[i] >= 0 && !again[i]) period_ = kNone;
    }
  }

  bool Has(int micro_batch) const {
    return micro_batch < period_ + 2 * distance_ || micro_batch > last_ - 2 * distance_;
  }

 private:
  static constexpr int64_t kNone = int64_t{1} << 31;  // no period to be seen: everything
  int64_t period_ = 1, distance_ = 1;
  int last_ = -1;
};

// Returns the root of every activation; -1 for other buffers.
IdVector<BufferId, BufferId> ActivationRoots(const Program& program) {
  IdVector<BufferId, BufferId> root(program.buffers.size(), -1);
  for (BufferId id : program.buffers.ids()) {
    if (program.buffers[id].arena == ArenaClass::kActivation)
      root[id] = RootOf(program.buffers, id).buffer;
  }
  return root;
}

void Join(const Life& from, Life* into) {
  into->start = std::min(into->start, from.start);
  into->end = std::max(into->end, from.end);
  into->released = std::max(into->released, from.released);
  for (LaneId lane : from.enters.ids()) {
    into->enters[lane] = std::min(into->enters[lane], from.enters[lane]);
    into->leaves[lane] = std::max(into->leaves[lane], from.leaves[lane]);
  }
}

constexpr int kNobody = -2;

Life* Find(int micro_batch, Lives* lives) {
  const auto found = std::find_if(lives->rbegin(), lives->rend(), [&](const Life& life) {
    return life.micro_batch == micro_batch;
  });
  return found == lives->rend() ? nullptr : &*found;
}

// Returns the life of a micro-batch, which starts with this access if it has none.
Life& LifeFor(int micro_batch, int now, size_t lanes, Lives* lives) {
  if (Life* mine = Find(micro_batch, lives); mine != nullptr) return *mine;
  lives->push_back({.micro_batch = micro_batch,
                    .start = now,
                    .enters = IdVector<LaneId, OpId>(lanes, FirstAfter::kNever),
                    .leaves = IdVector<LaneId, OpId>(lanes, 0)});
  return lives->back();
}

// Joins lives that are not disjoint.
Lives Apart(Lives lives) {
  Lives apart;
  for (Life& life : lives) {
    while (!apart.empty() && !apart.back().Before(life)) {
      Join(apart.back(), &life);
      apart.pop_back();
    }
    apart.push_back(std::move(life));
  }
  return apart;
}

}  // namespace

bool Life::Before(const Life& other) const {
  // The times decide most cases; the lanes decide the rest.
  if (other.start >= released) return true;
  if (other.start <= end) return false;
  for (LaneId lane : leaves.ids()) {
    if (other.enters[lane] < leaves[lane]) return false;
  }
  return true;
}

bool Conflict(const Lives& a, const Lives& b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].Before(b[j])) {
      ++i;
    } else if (b[j].Before(a[i])) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

LiveBuffers LivesOf(const Program& program, const HappensBefore& order) {
  const size_t lanes = program.lanes.size();
  const FirstAfter after(program, order);
  const IdVector<BufferId, BufferId> root = ActivationRoots(program);
  const Sample sample(program, root);
  const auto overlaps = OverlapsOf(RegionsOf(program.buffers));
  IdVector<BufferId, int> writer(program.buffers.size(), kNobody);  // its last, as a micro-batch
  LiveBuffers live;
  live.of.resize(program.buffers.size());
  IdVector<OpId, int> time(program.ops.size());
  for (OpId index : order.order()) {
    const Op& op = program.ops[index];
    time[index] = live.time;
    if (!sample.Has(op.tag.micro_batch)) continue;
    for (const BufferList* ids : {&op.in, &op.out}) {
      for (BufferId id : *ids) {
        const BufferId r = root[id];
        if (r < 0) continue;
        Lives* lives = &live.of[r];
        Life& life = LifeFor(op.tag.micro_batch, live.time, lanes, lives);
        life.end = live.time;
        // The value may be that of another micro-batch: extend this life back to its life.
        const auto reach_back = [&](BufferId other) {
          if (root[other] != r) return;  // elsewhere, at the same address
          const Life* left = Find(writer[other], lives);
          if (left != nullptr) life.start = std::min(life.start, left->end);
        };
        if (ids == &op.in) {
          reach_back(id);
          for (BufferId other : overlaps[id]) reach_back(other);
        } else {
          writer[id] = op.tag.micro_batch;
        }
        OpId& enters = life.enters[op.lane];
        enters = std::min(enters, index);
        for (LaneId lane : life.leaves.ids())
          life.leaves[lane] = std::max(life.leaves[lane], after.of(index)[lane.position()]);
      }
    }
    ++live.time;
  }
  for (Lives& lives : live.of) {
    // An operation that never runs after an access on some lane leaves the memory in use to the
    // end.
    for (Life& life : lives) {
      for (OpId index : life.leaves) {
        const int at = index == FirstAfter::kNever ? live.time : time[index];
        life.released = std::max(life.released, at);
      }
    }
    lives = Apart(std::move(lives));
  }
  return live;
}

}  // namespace stretto
