// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/memory/copies.h"

#include <algorithm>
#include <vector>

#include "worker/engine/program/memory_map.h"

namespace stretto {
namespace {

// The places in the program of a micro-batch's first and last access.
struct Span {
  int first = -1, last = -1;
};

// Of one segment of memory, by micro-batch. A micro-batch uses copy `its number modulo slots`, so
// those between two that are at once count even if they do not use it.
int MostAtOnce(const std::vector<Span>& spans) {
  int most = 0;
  size_t next = 0, newest = 0;  // the first that is yet to begin, the last that has
  for (size_t mb = 0; mb < spans.size(); ++mb) {
    if (spans[mb].first < 0) continue;
    // They begin and end in their order.
    for (; next < spans.size() && spans[next].first <= spans[mb].last; ++next) {
      if (spans[next].first >= 0) newest = next;
    }
    most = std::max(most, static_cast<int>(newest - mb) + 1);
  }
  return most;
}

}  // namespace

void KeepCopies(StepProgram* step) {
  IdVector<BufferId, Buffer>& buffers = step->buffers;
  const auto is_activation = [&](BufferId id) {
    return buffers[id].arena == ArenaClass::kActivation;
  };
  // By segment: two micro-batches may fill different rows of a buffer that one product reads.
  const Segments segments = SegmentsOf(RegionsOf(buffers));
  std::vector<std::vector<Span>> spans(segments.count);
  IdVector<BufferId, bool> crosses(buffers.size());  // roots
  int now = 0;
  for (const Instance& instance : step->instances) {
    for (const Op& op : step->units[instance.unit].ops) {
      ++now;
      if (op.tag.micro_batch < 0) continue;
      const auto mb = static_cast<size_t>(instance.micro_batches.at(op.tag.micro_batch));
      for (const BufferList* ids : {&op.in, &op.out}) {
        for (BufferId id : *ids) {
          if (!is_activation(id)) continue;
          if (IsTransfer(op.kind)) crosses[RootOf(buffers, id).buffer] = true;
          for (size_t s = segments.begin[id]; s < segments.end[id]; ++s) {
            if (spans[s].size() <= mb) spans[s].resize(mb + 1);
            if (spans[s][mb].first < 0) spans[s][mb].first = now;
            spans[s][mb].last = now;
          }
        }
      }
    }
  }
  for (BufferId id : buffers.ids()) {
    const BufferId root = RootOf(buffers, id).buffer;
    int most = 0;
    for (size_t s = segments.begin[root]; is_activation(id) && s < segments.end[root]; ++s)
      most = std::max(most, MostAtOnce(spans[s]));
    if (most == 0) continue;
    buffers[id].slots = std::min(most + (crosses[root] ? 1 : 0), step->micro_batches);
  }
}

}  // namespace stretto
