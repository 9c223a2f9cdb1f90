// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which values a program's memory holds while its operations are walked. A value is a number that
// the user of this class gives to what fills a whole buffer.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/program/memory_runs.h"

namespace stretto {

using Value = int64_t;
inline constexpr Value kNothing = -1;  // in memory that nothing has filled

// What a buffer holds, as words: the value, if the buffer begins where one value begins and ends
// with or within it. Otherwise -1 - pieces, and then three words for each piece: its value, and
// where in the buffer the piece and its value begin, in bytes. Two buffers of one size hold the
// same if and only if the words are the same.
using HeldWords = std::vector<int64_t>;

class HeldValues {
 public:
  // At first all memory holds kNothing.
  explicit HeldValues(const IdVector<BufferId, Buffer>& buffers);

  void Fill(BufferId id, Value value);
  // Appends what the buffer holds.
  void Append(BufferId id, HeldWords* words);

 private:
  // Values are not moved, so a value is held wherever its run is from the same start on.
  struct Held {
    Value value = kNothing;
    int64_t start = 0;  // the byte of the space at which the value begins; 0 for kNothing
    bool operator==(const Held&) const = default;
  };
  void Cut(BufferId id);

  const IdVector<BufferId, Region> regions_;
  MemoryRuns runs_;
  std::vector<Held> held_;  // [run]
};

// One piece of HeldWords.
struct HeldPiece {
  Value value = kNothing;
  int64_t begin = 0, start = 0;
  bool operator==(const HeldPiece&) const = default;
};
// Removes what one buffer holds from the front of `words` and returns it.
std::vector<HeldPiece> TakeHeld(absl::Span<const int64_t>* words);

}  // namespace stretto
