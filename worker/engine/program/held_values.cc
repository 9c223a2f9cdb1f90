// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/held_values.h"

namespace stretto {

HeldValues::HeldValues(const IdVector<BufferId, Buffer>& buffers)
    : regions_(RegionsOf(buffers)), runs_(regions_), held_(runs_.count()) {}

void HeldValues::Cut(BufferId id) {
  runs_.Cut(id, [this](size_t from, size_t to) { held_[to] = held_[from]; });
}

void HeldValues::Fill(BufferId id, Value value) {
  const size_t begin = runs_.Begin(id);
  if (begin == runs_.End(id)) return;
  Cut(id);
  runs_.Join(id);
  held_[begin] = {value, regions_[id].begin};
}

void HeldValues::Append(BufferId id, HeldWords* words) {
  Cut(id);
  const int64_t origin = regions_[id].begin;
  const size_t begin = runs_.Begin(id), end = runs_.End(id), first = words->size();
  words->push_back(-1);
  Held before = {.value = kNothing - 1};
  for (size_t run = begin; run < end; run = runs_.Next(run)) {
    const Held& held = held_[run];
    if (held == before) continue;  // the run of a value was cut
    before = held;
    --(*words)[first];
    const int64_t start = held.value == kNothing ? 0 : held.start - origin;
    words->insert(words->end(), {held.value, runs_.ByteOf(run) - origin, start});
  }
  const bool whole = (*words)[first] == -2 && before.value >= 0 && before.start == origin;
  if (!whole) return;
  words->resize(first);
  words->push_back(before.value);
}

std::vector<HeldPiece> TakeHeld(absl::Span<const int64_t>* words) {
  const int64_t first = words->front();
  words->remove_prefix(1);
  if (first >= 0) return {{.value = first}};
  std::vector<HeldPiece> pieces;
  for (int64_t left = -1 - first; left > 0; --left) {
    pieces.push_back({(*words)[0], (*words)[1], (*words)[2]});
    words->remove_prefix(3);
  }
  return pieces;
}

}  // namespace stretto
