// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a program, divided into runs of segments (memory_map.h) that share one state. A
// buffer that is written becomes one run, even if other buffers have cut its memory, so the cost of
// an access depends only on the runs that it touches.

#include <bit>
#include <cstdint>
#include <vector>

#include "worker/engine/program/memory_map.h"

namespace stretto {

// The numbers [0, count), divided into runs.
class Runs {
 public:
  explicit Runs(size_t count) : count_(count), heads_(count / 64 + 1, 0) { Set(0); }

  // Returns the start of the run after the one that starts at `head`, or `count`.
  size_t Next(size_t head) const {
    size_t word = ++head / 64;
    if (word == heads_.size()) return count_;
    uint64_t bits = heads_[word] >> (head % 64) << (head % 64);
    while (bits == 0) {
      if (++word == heads_.size()) return count_;
      bits = heads_[word];
    }
    return word * 64 + std::countr_zero(bits);
  }
  // Returns the start of the run that contains `at`.
  size_t Head(size_t at) const {
    size_t word = at / 64;
    uint64_t bits = heads_[word] << (63 - at % 64) >> (63 - at % 64);
    while (bits == 0) bits = heads_[--word];
    return word * 64 + 63 - std::countl_zero(bits);
  }
  bool IsHead(size_t at) const { return at == count_ || (heads_[at / 64] >> (at % 64) & 1) != 0; }
  void Set(size_t head) { heads_[head / 64] |= uint64_t{1} << (head % 64); }
  void Clear(size_t head) { heads_[head / 64] &= ~(uint64_t{1} << (head % 64)); }

 private:
  size_t count_;
  std::vector<uint64_t> heads_;  // bits
};

// The runs of a program's memory. The state of a run is kept by the user, at the number of its
// first segment.
class MemoryRuns {
 public:
  explicit MemoryRuns(const IdVector<BufferId, Region>& regions)
      : segments_(SegmentsOf(regions)), runs_(segments_.count) {}

  size_t count() const { return segments_.count; }  // of segments
  // The runs of a buffer whose ends are cut are Begin, Next of it, and so on below End; none when
  // the buffer is empty.
  size_t Begin(BufferId id) const { return segments_.begin[id]; }
  size_t End(BufferId id) const { return segments_.end[id]; }
  size_t Next(size_t run) const { return runs_.Next(run); }
  // Returns where a run begins in its space, in bytes.
  int64_t ByteOf(size_t run) const { return segments_.byte[run]; }

  // Makes runs begin and end at the ends of the buffer. Calls copy(from, to) to give a new run the
  // state of the one that it was a part of.
  template <class Copy>
  void Cut(BufferId id, const Copy& copy) {
    for (const size_t at : {Begin(id), End(id)}) {
      if (runs_.IsHead(at)) continue;
      copy(runs_.Head(at), at);
      runs_.Set(at);
    }
  }
  // Makes the buffer, at whose ends runs are cut, one run.
  void Join(BufferId id) {
    const size_t begin = Begin(id), end = End(id);
    if (begin == end) return;
    for (size_t run = Next(begin); run < end; run = Next(run)) runs_.Clear(run);
  }

 private:
  const Segments segments_;
  Runs runs_;
};

}  // namespace stretto
