// SPDX-License-Identifier: Apache-2.0

// Writes words one after the other, with the transfers that are no words of a search.

#include "worker/engine/schedule/search/cell_plan.h"

namespace stretto {
namespace {

// The plan that plays the words in this order (PlanOfMerge).
WeavePlan PlanOfWords(const WovenCell& cell, int pace, const std::vector<CellWord>& words,
                      const std::vector<size_t>& barriers) {
  WeavePlan plan = {.forward_chunk = cell.forward_chunk,
                    .backward_chunk = cell.backward_chunk,
                    .pace = pace,
                    .lines = {}};
  std::vector<WeaveLine>& lines = plan.lines;
  const auto add = [&](const WeaveLine& word) {
    const bool joins = !lines.empty() && !lines.back().is_barrier() &&
                       lines.back().strand == word.strand && lines.back().layer == word.layer &&
                       lines.back().slice == word.slice;
    if (!joins) lines.push_back(word);
    if (joins) lines.back().words.push_back(word.words.front());
  };
  const bool folded = cell.forward_chunk != cell.backward_chunk;
  if (folded) add({.strand = Strand::kForward, .words = {"recv"}});
  if (folded) add({.strand = Strand::kBackward, .words = {"d.recv"}});
  PerQueue<size_t> last = {};  // of the words in layers
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].line.layer >= 0) last[static_cast<size_t>(words[i].queue)] = i;
  }
  auto barrier = barriers.begin();
  for (size_t i = 0; i < words.size(); ++i) {
    for (; barrier != barriers.end() && *barrier == i; ++barrier) lines.emplace_back();
    add(words[i].line);
    const Queue queue = words[i].queue;
    const bool forward = queue == Queue::kForward;
    const bool sends = forward || queue == Queue::kBackward;
    if (!folded || !sends || last[static_cast<size_t>(queue)] != i) continue;
    add({.strand = forward ? Strand::kForward : Strand::kBackward,
         .words = {forward ? "send" : "d.send"}});
  }
  for (; barrier != barriers.end(); ++barrier) lines.emplace_back();
  return plan;
}

}  // namespace

WeavePlan PlanOfMerge(const WovenCell& cell, int pace, const Merge& order,
                      const std::vector<size_t>& barriers) {
  std::vector<CellWord> words;
  PerQueue<size_t> next = {};
  for (Queue queue : order) {
    const auto q = static_cast<size_t>(queue);
    words.push_back({.queue = queue, .line = cell.words[q][next[q]++]});
  }
  return PlanOfWords(cell, pace, words, barriers);
}

WeavePlan PresentPlan(const WovenCell& cell, int pace) {
  return PlanOfWords(cell, pace, cell.present, {});
}

}  // namespace stretto
