// SPDX-License-Identifier: Apache-2.0

// Makes an item of each word of a cell's unit, in the order in which the default plan completes
// them. The weaver knows the words and what they depend on. Of the dependencies between lanes, the
// last on each lane of each queue is enough, because a lane runs the items of a queue in their
// order.

#include "worker/engine/schedule/search/woven_cell.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/schedule/helix.h"
#include "worker/engine/schedule/reorder/expand_unit.h"
#include "worker/engine/schedule/units.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace {

struct WordItem {
  Queue queue = Queue::kForward;
  WeaveLine word;
  std::vector<OpId> ops;  // ascending
};

// Where an operation of the unit is in the cell.
struct Position {
  Queue queue = Queue::kForward;
  int item = -1;  // none
  int op = -1;
};

Queue QueueOf(int role, const std::vector<OpId>& word, const IdVector<OpId, Op>& ops) {
  if (role == kNextRole) return Queue::kNext;
  if (StrandOf(role) == Strand::kForward) return Queue::kForward;
  const bool weights = std::all_of(word.begin(), word.end(), [&](OpId op) {
    return InfoOf(ops[op].kind).role == OperationRole::kWeightGradient;
  });
  return weights ? Queue::kWeights : Queue::kBackward;
}

// Where the default plan plays each operation. A plan for a cell with gathers is one for sequence
// parallelism.
IdVector<OpId, size_t> DefaultPlaces(Weaver weaver, bool gathers) {
  const WeavePlan plan = DefaultWeavePlan(&weaver, gathers);
  KeepMemory(plan.pace, &weaver);
  PlayPlan(plan, &weaver);
  IdVector<OpId, size_t> places(weaver.ops().size());
  size_t place = 0;
  for (OpId op : weaver.Finish()) places[op] = place++;
  return places;
}

// In the present order. Layers are those of the chunk, as in a plan.
std::vector<WordItem> ItemsOf(Weaver weaver) {
  std::vector<WordItem> items;
  for (int role = 0; role < weaver.roles(); ++role) {
    weaver.TurnTo(role);
    for (const auto& [word, ops] : weaver.words_of(role)) {
      const auto& [name, of_model, slice] = word;
      if (IsTransfer(weaver.ops()[ops.front()].kind)) continue;
      const int layer = of_model < 0 ? -1 : of_model - weaver.first_layer();
      items.push_back({.queue = QueueOf(role, ops, weaver.ops()),
                       .word = {.strand = StrandOf(role),
                                .words = {name},
                                .layer = layer,
                                .slice = weaver.slices() > 1 ? slice : -1},
                       .ops = ops});
    }
  }
  std::sort(items.begin(), items.end(),
            [](const WordItem& a, const WordItem& b) { return a.ops.back() < b.ops.back(); });
  return items;
}

// In the order in which all operations of each are placed.
void SortBy(const IdVector<OpId, size_t>& places, std::vector<WordItem>* items) {
  const auto end = [&](const WordItem& item) {
    size_t last = 0;
    for (OpId op : item.ops) last = std::max(last, places[op]);
    return last;
  };
  std::sort(items->begin(), items->end(),
            [&](const WordItem& a, const WordItem& b) { return end(a) < end(b); });
}

// The present order of a cell as a merge of its queues; empty if it is none.
Merge MergeOf(const std::vector<CellWord>& present, const PerQueue<std::vector<WeaveLine>>& words) {
  Merge merge;
  PerQueue<size_t> next = {};
  for (const auto& [queue, line] : present) {
    const auto q = static_cast<size_t>(queue);
    if (words[q][next[q]++] != line) return {};
    merge.push_back(queue);
  }
  return merge;
}

// Adds the items to the cell, without their dependencies. Returns where each operation is; a
// transfer is nowhere. Lanes without an operation are left out.
IdVector<OpId, Position> AddItems(const std::vector<WordItem>& items, WovenCell* woven) {
  CellItems& cell = woven->cell;
  const Program& program = woven->played.program;
  std::map<LaneId, int> lanes = {{LaneId(0), 0}};
  IdVector<OpId, Position> positions(program.ops.size());
  for (const WordItem& item : items) {
    const auto q = static_cast<size_t>(item.queue);
    const auto begin = static_cast<int>(cell.ops.size());
    for (OpId op : item.ops) {
      positions[op] = {item.queue, static_cast<int>(cell.queues[q].size()),
                       static_cast<int>(cell.ops.size())};
      const int next = static_cast<int>(lanes.size());
      const int lane = lanes.try_emplace(program.ops[op].lane, next).first->second;
      const OpKind kind = program.ops[op].kind;
      cell.ops.push_back({.lane = lane,
                          .seconds = woven->played.seconds[op],
                          .kind = IsCollective(kind) ? static_cast<int>(InfoOf(kind).collective)
                                                     : static_cast<int>(ClassOf(kind))});
      woven->ops.push_back(op);
    }
    cell.queues[q].push_back({.begin = begin, .end = static_cast<int>(cell.ops.size())});
    woven->words[q].push_back(item.word);
  }
  cell.lanes = static_cast<int>(lanes.size());
  return positions;
}

// What each class of computation and each kind of collective take from each other.
std::vector<std::vector<Contention>> TogetherOf(const Program& program, const CostModel& cost) {
  std::vector<std::vector<Contention>> together(std::size(kComputeClasses),
                                                std::vector<Contention>(std::size(kCollectives)));
  for (const Op& op : program.ops) {
    if (op.group >= 0) continue;
    std::vector<Contention>& row = together[static_cast<size_t>(ClassOf(op.kind))];
    for (const CollectiveInfo& collective : kCollectives)
      row[static_cast<size_t>(collective.kind)] = cost.Together(op.kind, collective.kind);
  }
  return together;
}

// Adds the times that an operation has to wait for.
void AddWaits(const IdVector<OpId, Position>& positions, OpId op, const std::vector<OpId>& needs,
              CellItems* cell) {
  CellOp& waiting = cell->ops[static_cast<size_t>(positions[op].op)];
  std::map<std::pair<Queue, int>, std::pair<int, int>> last;  // by lane: item, operation
  for (OpId needed : needs) {
    const Position& at = positions[needed];
    if (at.item < 0) continue;
    const int lane = cell->ops[static_cast<size_t>(at.op)].lane;
    if (lane == waiting.lane) continue;
    auto& latest = last.try_emplace({at.queue, lane}, at.item, at.op).first->second;
    latest = std::max(latest, {at.item, at.op});
  }
  for (const auto& [lane, latest] : last) waiting.after.push_back(latest.second);
}

// Keeps the item of an operation behind those of `needs`.
absl::Status AddOrder(const IdVector<OpId, Position>& positions, OpId op,
                      const std::vector<OpId>& needs, WovenCell* woven) {
  const Position& at = positions[op];
  const auto q = static_cast<size_t>(at.queue);
  CellItem& item = woven->cell.queues[q][static_cast<size_t>(at.item)];
  for (OpId needed : needs) {
    const Position& earlier = positions[needed];
    if (earlier.item < 0) continue;
    const auto of = static_cast<size_t>(earlier.queue);
    if (earlier.queue != at.queue) {
      item.behind[of] = std::max(item.behind[of], earlier.item + 1);
    } else if (earlier.item > at.item) {
      const auto word = [&](const Position& place) {
        const WeaveLine& line = woven->words[q][static_cast<size_t>(place.item)];
        return absl::StrCat(line.words.front(), " L", line.layer, " s", line.slice);
      };
      return absl::InternalError(
          absl::StrCat("the word ", word(at), " needs the later word ", word(earlier)));
    }
  }
  return absl::OkStatus();
}

// The half-block of a word of backward, as a number from the first layer to the head. As for the
// pace, the gradients of a first norm count as part of the layer before; those of a second norm are
// played behind attention.
int HalfBlockOf(const WeaveLine& line, int layers) {
  const std::string& word = line.words.front();
  if (line.layer < 0) return 2 * layers;
  if (word == "w.ln1") return 2 * line.layer - 2;
  constexpr absl::string_view kAttention[] = {"d.proj", "d.attention", "d.qkv", "d.ln1",
                                              "w.proj", "w.qkv",       "w.ln2"};
  const bool attention =
      std::find(std::begin(kAttention), std::end(kAttention), word) != std::end(kAttention);
  return 2 * line.layer + (attention ? 0 : 1);
}

// Keeps backward from running far ahead of its weight gradients: what these need is in memory until
// then, and the pace bounds only what forward adds to it. Backward enters a layer behind those of
// the layers above and of the head. Where layers are computed again they keep little, so that what
// weight gradients need counts for more: backward then enters attention behind those of the MLP
// above it, and forward enters the MLP of a layer only when backward has left the MLP that is
// `pace` layers further up. With sequence parallelism, what a layer keeps outside the products is
// in shards, and this bound would cost more than it saves.
void BoundBacklog(int layers, int pace, bool recomputes, bool gathers, WovenCell* woven) {
  const std::vector<WeaveLine>& weights = woven->words[static_cast<size_t>(Queue::kWeights)];
  // By half-block, the weight gradients that must be played for backward to leave it behind.
  std::vector<int> behind(2 * static_cast<size_t>(layers) + 1, 0);
  bool head = true;  // those outside the layers that come first
  for (size_t i = 0; i < weights.size(); ++i) {
    head = head && weights[i].layer < 0;
    const int block = HalfBlockOf(weights[i], layers);
    if (block < 0 || (weights[i].layer < 0 && !head)) continue;
    behind[static_cast<size_t>(block)] = static_cast<int>(i) + 1;
  }
  for (size_t above = behind.size() - 1; above-- > 0;)
    behind[above] = std::max(behind[above], behind[above + 1]);
  const std::vector<WeaveLine>& words = woven->words[static_cast<size_t>(Queue::kBackward)];
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].layer < 0 || words[i].words.front() == "r.ln1") continue;
    const int block = HalfBlockOf(words[i], layers);
    const int enters = recomputes ? block + 1 : 2 * words[i].layer + 2;
    int& most = woven->cell.queues[static_cast<size_t>(Queue::kBackward)][i]
                    .behind[static_cast<size_t>(Queue::kWeights)];
    most = std::max(most, behind[static_cast<size_t>(enters)]);
  }
  if (!recomputes || gathers) return;
  constexpr absl::string_view kMlp[] = {"fc1", "act", "fc2"};
  const std::vector<WeaveLine>& forward = woven->words[static_cast<size_t>(Queue::kForward)];
  for (size_t i = 0; i < forward.size(); ++i) {
    const int block = 2 * (layers - 1 - forward[i].layer + pace) - 1;
    const bool mlp =
        std::find(std::begin(kMlp), std::end(kMlp), forward[i].words.front()) != std::end(kMlp);
    if (!mlp || block < 0 || block >= static_cast<int>(behind.size())) continue;
    int& most = woven->cell.queues[static_cast<size_t>(Queue::kForward)][i]
                    .behind[static_cast<size_t>(Queue::kWeights)];
    most = std::max(most, behind[static_cast<size_t>(block)]);
  }
}

// Puts the embedding of the next micro-batch before the third layer of forward. Later places hide
// no more, and a front that has yet to play it is compared with fewer others.
void BoundNext(WovenCell* woven) {
  const auto next = static_cast<size_t>(Queue::kNext),
             forward = static_cast<size_t>(Queue::kForward);
  const auto all = static_cast<int>(woven->cell.queues[next].size());
  for (size_t i = 0; i < woven->words[forward].size(); ++i) {
    if (woven->words[forward][i].layer >= 2) woven->cell.queues[forward][i].behind[next] = all;
  }
}

}  // namespace

PlayedCell PlayedCellOf(const StepProgram& step, UnitId unit, const CostModel& cost) {
  PlayedCell cell = {
      .weaver = Weaver(step, unit), .program = ExpandUnit(step, unit), .seconds = {}};
  for (const Op& op : cell.program.ops)
    cell.seconds.push_back(IsTransfer(op.kind) ? 0 : cost.Alone(cell.program, op));
  return cell;
}

absl::StatusOr<WovenCell> WovenCellOf(const StepProgram& step, const WovenUnit& unit,
                                      const CostModel& cost, int pace) {
  WovenCell woven = {.forward_chunk = unit.forward_chunk,
                     .backward_chunk = unit.backward_chunk,
                     .cell = {},
                     .words = {},
                     .present = {},
                     .given = {},
                     .ops = {},
                     .played = PlayedCellOf(step, unit.unit, cost)};
  Weaver weaver = woven.played.weaver;
  const IdVector<OpId, std::vector<OpId>> waits = weaver.needs();
  const bool recomputes = std::any_of(weaver.ops().begin(), weaver.ops().end(), [](const Op& op) {
    return op.tag.phase == Phase::kRecompute;
  });
  const bool gathers = std::any_of(weaver.ops().begin(), weaver.ops().end(),
                                   [](const Op& op) { return op.kind == OpKind::kAllGather; });
  std::vector<WordItem> items = ItemsOf(weaver);
  for (const WordItem& item : items) woven.present.push_back({item.queue, item.word});
  SortBy(DefaultPlaces(weaver, gathers), &items);
  KeepMemory(pace, &weaver);
  const IdVector<OpId, Position> positions = AddItems(items, &woven);
  woven.given = MergeOf(woven.present, woven.words);
  woven.cell.together = TogetherOf(woven.played.program, cost);
  for (OpId op : weaver.ops().ids()) {
    if (positions[op].item < 0) continue;
    AddWaits(positions, op, waits[op], &woven.cell);
    RETURN_IF_ERROR(AddOrder(positions, op, weaver.needs()[op], &woven));
  }
  weaver.TurnTo(1);
  BoundBacklog(weaver.layers() - weaver.first_layer(), pace, recomputes, gathers, &woven);
  BoundNext(&woven);
  return woven;
}

}  // namespace stretto
