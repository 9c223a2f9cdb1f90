// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layouts over every axis: a covering set of all pairs of values, and the full matrix.

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "proto/base/random.h"
#include "proto/spec/pipelines.h"
#include "proto/spec/schedules.h"
#include "tests/parity/specs.h"

namespace stretto::parity {

enum Axis : size_t {
  kSchedule,  // first: what it takes decides about others
  kFamily,
  kTpSize,
  kSlices,
  kSequenceParallel,
  kRecompute,
  kDropout,
  kMicroBatches,
  kDpSize,
  kZero,
  kPpSize,
  kStages,    // alike, TP size falling, TP size rising
  kReplicas,  // of the stages: alike, falling, rising
  kPipeline,
  kDelay,  // of weight gradients
  kTransfer,
  kCut,  // slices as equal as can be, or not
  kSplits,
  kDefer,
  kMerge,      // nothing, slices, all micro-batches
  kUpdate,     // behind the norm, or at once
  kOptions,    // of the model: its family's, or others
  kDocuments,  // attention to the whole sequence, or to the own document
  kType,       // f32, bf16, f32 with a bf16 wire
  kAxes,
};
inline constexpr std::array<int, kAxes> kValues = {kSchedules.size(),
                                                   std::size(kArchitectures),
                                                   3,
                                                   3,
                                                   2,
                                                   3,
                                                   2,
                                                   3,
                                                   3,
                                                   2,
                                                   3,
                                                   3,
                                                   3,
                                                   kPipelines.size() + 1,
                                                   3,
                                                   4,
                                                   2,
                                                   3,
                                                   2,
                                                   3,
                                                   2,
                                                   2,
                                                   2,
                                                   3};
static_assert(kValues.back() > 0);

// A value per axis, by number; -1: open.
using Row = std::array<int, kAxes>;

// Whether no two values of a row exclude each other.
inline bool Allowed(const Row& row) {
  // ZeRO needs replicas. An order other than the first needs stages, and so do transfers, and a
  // delay, which not all of them take. Unlike stages need several ranks, or several replicas. There
  // are at most 16 ranks, and micro-batches are merged in one stage only.
  const bool replicated = row[kZero] > 0 || row[kReplicas] > 0;
  if (row[kDpSize] == 0 && replicated) return false;
  const bool unlike = row[kStages] > 0 || row[kReplicas] > 0;
  const bool staged = row[kPipeline] > 0 || row[kDelay] > 0 || row[kTransfer] > 0 || unlike;
  if ((row[kPpSize] == 0 && staged) || (row[kTpSize] == 0 && row[kStages] > 0)) return false;
  const auto pipeline = static_cast<size_t>(std::max(row[kPipeline], 0));
  bool folds = false;
  if (pipeline < kPipelines.size()) {
    const PipelineRules& order = kPipelines[pipeline];
    const bool bubble = row[kDelay] == static_cast<int>(WgradDelay::kBubble);
    if (order.chunked && (unlike || bubble)) return false;
    if (row[kDelay] > 0 && !order.delays) return false;
    folds = order.folds;
  }
  const int stages = std::max(row[kPpSize], staged ? 1 : 0);  // powers of two
  const int replicas = std::max(row[kDpSize], replicated ? 1 : 0);
  if (std::max(row[kTpSize], row[kStages] > 0 ? 1 : 0) + replicas + stages > 4) return false;
  if (stages > 0 && row[kMerge] == 2) return false;
  const auto fits = [&](const ScheduleRules& takes) {
    using Slices = ScheduleRules::Slices;
    const int slices = row[kSlices] + 1;
    const bool any = takes.slices == Slices::kAny || takes.slices == Slices::kOneOrMore;
    const bool cut = row[kSlices] < 0 || any || slices == (takes.slices == Slices::kTwo ? 2 : 1);
    // Two micro-batches to weave, each with its own weight gradients, in one stage or in folded
    // ones.
    const bool may_fold = folds || (row[kPipeline] < 0 && !unlike && row[kDelay] <= 0);
    const bool woven =
        takes.weaves ? (stages == 0 || may_fold) && row[kMicroBatches] != 0 && row[kMerge] != 2
                     : !folds;
    return cut && woven && (row[kSplits] <= 0 || takes.splits) &&
           (row[kDefer] <= 0 || takes.defers);
  };
  if (row[kSchedule] >= 0) return fits(kSchedules[static_cast<size_t>(row[kSchedule])]);
  return std::any_of(kSchedules.begin(), kSchedules.end(), fits);
}

// Falling by two and by one, to all micro-batches at most.
inline std::vector<int> WarmUpsByHand(int stages, int micro_batches) {
  std::vector<int> warm_ups(static_cast<size_t>(stages), 1);
  for (size_t stage = warm_ups.size() - 1; stage > 0; --stage) {
    const int more = stage % 2 == 0 ? 1 : 2;
    warm_ups[stage - 1] = std::min(warm_ups[stage] + more, micro_batches);
  }
  return warm_ups;
}

// `size` in each stage; or in one, and half as much, down to 1, in each next one or in each one
// before.
enum class Sizes { kAlike, kFalling, kRising };
inline int SizeIn(int stage, int stages, Sizes sizes, int size) {
  if (sizes == Sizes::kAlike) return size;
  return std::max(1, size >> (sizes == Sizes::kRising ? stages - 1 - stage : stage));
}

// A stage in the middle has the layers that the others, of one each, do not have.
inline std::vector<StageSpec> UnlikeStages(int stages, int layers, Sizes tp_sizes, int tp_size,
                                           Sizes dp_sizes, int dp_size) {
  std::vector<StageSpec> all;
  for (int stage = 0; stage < stages; ++stage) {
    all.push_back({.layers = 1, .tp_size = SizeIn(stage, stages, tp_sizes, tp_size)});
    if (dp_sizes != Sizes::kAlike) all.back().dp_size = SizeIn(stage, stages, dp_sizes, dp_size);
  }
  all[static_cast<size_t>(stages / 2)].layers += layers - stages;
  return all;
}

inline Layout LayoutOf(const Row& row) {
  constexpr std::array<int, 3> kSizes = {1, 2, 4}, kPieces = {1, 2, 4};
  const std::vector<int> slices[][2] = {{{4}, {4}}, {{2, 2}, {1, 3}}, {{2, 1, 1}, {1, 2, 1}}};
  const auto at = [&](Axis axis) { return static_cast<size_t>(row[axis]); };
  // Enough for a pipeline to warm up, repeat and end. With several chunks they go in groups, or
  // are more than the stages.
  const bool ordered = at(kPipeline) < kPipelines.size();
  const bool chunked = ordered && kPipelines[at(kPipeline)].chunked;
  const bool folds = ordered && kPipelines[at(kPipeline)].folds;
  const int wanted = row[kMicroBatches] * (row[kPpSize] > 0 ? 3 : 1) + 1;
  const int group = chunked ? kSizes[at(kPpSize)] : 1;
  const int micro_batches = folds ? std::max(wanted, group + 1) : RoundUp(wanted, group);
  // The value behind the orders of the table is 1f1b with warm-ups by hand.
  const std::vector<int> by_hand = at(kPipeline) == kPipelines.size()
                                       ? WarmUpsByHand(kSizes[at(kPpSize)], micro_batches)
                                       : std::vector<int>();
  const bool unlike = row[kStages] > 0 || row[kReplicas] > 0;
  const int layers = folds               ? 2 * group
                     : chunked           ? 2 * group + 1
                     : row[kPpSize] == 2 ? 5
                     : unlike            ? 3
                                         : 2;
  return {.family = kArchitectures[at(kFamily)].family,
          .schedule = kSchedules[at(kSchedule)].name,
          .tp_size = kSizes[at(kTpSize)],
          .dp_size = kSizes[at(kDpSize)],
          .zero = row[kZero],
          .pp_size = kSizes[at(kPpSize)],
          .chunks = chunked ? 2 : 1,
          .stages = unlike ? UnlikeStages(kSizes[at(kPpSize)], layers,
                                          static_cast<Sizes>(row[kStages]), kSizes[at(kTpSize)],
                                          static_cast<Sizes>(row[kReplicas]), kSizes[at(kDpSize)])
                           : std::vector<StageSpec>(),
          .pipeline = by_hand.empty() ? kPipelines[at(kPipeline)].name : kDefaultPipeline,
          .warm_up = by_hand,
          .wgrad_delay = static_cast<WgradDelay>(row[kDelay]),
          .transfer = static_cast<Transfer>(row[kTransfer]),
          .slices = slices[at(kSlices)][at(kCut)],
          .splits = kPieces[at(kSplits)],
          .sequence_parallel = row[kSequenceParallel] == 1,
          .recompute = static_cast<Recompute>(row[kRecompute]),
          .dropout = row[kDropout] * 0.1,
          .other_options = row[kOptions] == 1,
          .merge_wgrads = row[kMerge] == 2 ? row[kMicroBatches] + 1 : row[kMerge],
          .defer_wgrads = 2 * row[kDefer],
          .update_at_once = row[kUpdate] == 1,
          .document_mask = row[kDocuments] == 1,
          .micro_batches = micro_batches,
          .layers = layers,
          .dtype = row[kType] == 1 ? DType::kBF16 : DType::kF32,
          .wire = row[kType] == 2 ? DType::kBF16 : DType::kF32};
}

// Two values of two axes, that of the lower axis first.
using Value = std::pair<size_t, int>;
using ValuePair = std::pair<Value, Value>;

inline std::set<ValuePair> PairsOf(const Row& row) {
  std::set<ValuePair> pairs;
  for (size_t a = 0; a < kAxes; ++a) {
    for (size_t b = a + 1; b < kAxes; ++b) {
      if (row[a] >= 0 && row[b] >= 0) pairs.insert({{a, row[a]}, {b, row[b]}});
    }
  }
  return pairs;
}

inline std::set<ValuePair> AllPairs() {
  std::set<ValuePair> pairs;
  for (size_t a = 0; a < kAxes; ++a) {
    for (size_t b = a + 1; b < kAxes; ++b) {
      for (int va = 0; va < kValues[a]; ++va) {
        for (int vb = 0; vb < kValues[b]; ++vb) {
          Row row;
          row.fill(-1);
          row[a] = va;
          row[b] = vb;
          if (Allowed(row)) pairs.insert({{a, va}, {b, vb}});
        }
      }
    }
  }
  return pairs;
}

inline uint32_t Draw(size_t axis, size_t row) { return Philox(axis, row, 0)[0] >> 8; }

// Rows in which every pair stands at least once. Greedy: each row starts with a pair that is still
// missing and takes, axis after axis, the value that adds most missing pairs, of equals any.
inline std::vector<Row> PairwiseRows() {
  std::set<ValuePair> missing = AllPairs();
  // Of the pairs of one axis, in which alone the candidates for it differ.
  const auto gain = [&](const Row& row, size_t axis) {
    int pairs = 0;
    for (size_t other = 0; other < kAxes; ++other) {
      if (other == axis || row[other] < 0) continue;
      const Value x{axis, row[axis]}, y{other, row[other]};
      pairs += missing.contains(std::minmax(x, y)) ? 1 : 0;
    }
    return pairs;
  };
  std::vector<Row> rows;
  while (!missing.empty()) {
    const auto [a, b] = *missing.begin();
    Row row;
    row.fill(-1);
    row[a.first] = a.second;
    row[b.first] = b.second;
    for (size_t axis = 0; axis < kAxes; ++axis) {
      if (row[axis] >= 0) continue;
      Row best = row;
      const uint32_t shift = Draw(axis, rows.size());
      for (uint32_t i = 0; i < static_cast<uint32_t>(kValues[axis]); ++i) {
        Row candidate = row;
        candidate[axis] = static_cast<int>((shift + i) % static_cast<uint32_t>(kValues[axis]));
        if (Allowed(candidate) && (best[axis] < 0 || gain(candidate, axis) > gain(best, axis)))
          best = candidate;
      }
      row = best;
    }
    for (const ValuePair& pair : PairsOf(row)) missing.erase(pair);
    rows.push_back(row);
  }
  return rows;
}

// Every schedule, family, TP size, number of slices, sequence parallel, recompute, dropout and
// number of micro-batches; the other axes take pseudo-random values.
inline std::vector<Row> FullMatrixRows() {
  std::vector<Row> rows = {{}};
  rows[0].fill(-1);
  for (size_t axis = 0; axis < kAxes; ++axis) {
    std::vector<Row> longer;
    for (Row row : rows) {
      std::vector<Row> candidates;
      for (row[axis] = 0; row[axis] < kValues[axis]; ++row[axis]) {
        if (Allowed(row)) candidates.push_back(row);
      }
      if (axis <= kMicroBatches) {
        longer.insert(longer.end(), candidates.begin(), candidates.end());
      } else {
        longer.push_back(candidates[Draw(axis, longer.size()) % candidates.size()]);
      }
    }
    rows = std::move(longer);
  }
  return rows;
}

inline std::vector<Layout> LayoutsOf(const std::vector<Row>& rows) {
  std::vector<Layout> layouts;
  for (const Row& row : rows) layouts.push_back(LayoutOf(row));
  return layouts;
}

}  // namespace stretto::parity
