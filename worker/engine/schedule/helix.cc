// SPDX-License-Identifier: Apache-2.0

// helix (Wang et al. 2024, "DHelix"): forward of micro-batch k + 1 is woven with backward of
// micro-batch k. The two have nothing to wait for from each other, so each computes while the
// other communicates, also in a micro-batch of one sequence. Forward and backward of the first and
// last micro-batch have no partner; slices make these hide their own collectives as in domino_row.
// The embedding of micro-batch k + 2 is in the same cell, because nothing would hide its collective
// at the begin of its own.
// On p folded stages micro-batch k + p is woven with k, in two cells (pipeline/folded.cc).
//
// The default plan takes half-blocks in turn: forward, then the dgrads of backward, then the weight
// gradients that they have made available. Forward thus runs under the collective of backward,
// dgrads under that of forward, and weight gradients under their own:
//
//   compute | F.ATT(l) | d(MLP) | w(MLP) | F.MLP(l) | d(ATT) | w(ATT) | F.ATT(l+1) | ...
//   comm.tp |          | AR F ..| AR B ......       | AR F ..| AR B ......         |
//
// With sequence parallelism a half-block has a second collective, the gather behind its norm. The
// norm of forward is played before the weight gradients and that of backward behind them:
//
//   compute | F.QKV..PROJ | d(MLP) | F.LN2 | w(MLP) | d.LN2 | F.FC1..FC2 | d(ATT) | F.LN1 | ...
//   comm.tp |             | RS F   | RS B    AG F            | AG B      | RS F   | RS B
//
// What a plan must not decide is added to the dependencies, so that every plan keeps it: its pace
// (proto/spec/strands/weave_plan.h), and that backward computes a layer again no earlier than it
// has come to the layer above. Otherwise a plan could keep the activations of all layers at once.

#include "worker/engine/schedule/helix.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/status_macros.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/reorder/reorder.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

constexpr int RoleOf(Strand strand) { return strand == Strand::kForward ? 0 : 1; }

// Collects lines, without words that the cell lacks. A layer above the last is what is outside the
// layers, as for the weaver.
class PlanWriter {
 public:
  explicit PlanWriter(Weaver* weaver) : weaver_(weaver) {}

  void Forward(absl::string_view words, int layer = -1) { Add(Strand::kForward, words, layer); }
  void Backward(absl::string_view words, int layer = -1) { Add(Strand::kBackward, words, layer); }
  // The embedding of the next micro-batch. The lines around it are two also where a cell has none,
  // so that one text gives all cells of a step their default order.
  void Next() {
    apart_ = true;
    if (weaver_->roles() > kNextRole)
      plan_.lines.push_back({.strand = Strand::kForward, .words = {"embed"}});
  }
  WeavePlan Take() { return std::move(plan_); }

 private:
  void Add(Strand strand, absl::string_view words, int layer) {
    std::vector<std::string> present;
    weaver_->TurnTo(RoleOf(strand));
    if (layer >= weaver_->layers()) layer = -1;
    for (absl::string_view word : absl::StrSplit(words, ' ')) {
      if (weaver_->Has(word, layer, -1)) present.emplace_back(word);
    }
    if (present.empty()) return;
    if (layer >= 0) layer -= weaver_->first_layer();
    std::vector<WeaveLine>& lines = plan_.lines;
    const bool joins =
        !apart_ && !lines.empty() && lines.back().strand == strand && lines.back().layer == layer;
    apart_ = false;
    if (!joins) lines.push_back({.strand = strand, .layer = layer});
    lines.back().words.insert(lines.back().words.end(), present.begin(), present.end());
  }

  Weaver* const weaver_;
  WeavePlan plan_;
  bool apart_ = false;  // the next line joins none
};

// Forward of layer `f` beside backward of layer `b`.
void WeaveLayers(int f, int b, PlanWriter* plan) {
  plan->Backward("r.qkv r.attention r.proj", b);
  plan->Forward("ln1 qkv attention proj", f);
  plan->Backward("r.fc1 r.act d.fc2 d.act d.fc1", b);
  plan->Backward("w.fc2 w.fc1", b);
  plan->Backward("w.ln1 w.final_norm", b + 1);
  plan->Forward("res1 ln2 fc1 act fc2", f);
  plan->Backward("d.ln2 d.proj d.attention d.qkv", b);
  plan->Backward("w.proj w.qkv w.ln2", b);
}

// The same with gathers. What a line of norms launches runs under the line behind it.
void WeaveLayersWithGathers(int f, int b, PlanWriter* plan) {
  plan->Backward("r.qkv r.attention r.proj", b);
  plan->Forward("qkv attention", f);
  plan->Backward("r.res1 r.ln2", b);
  plan->Forward("proj", f);
  plan->Backward("r.fc1 r.act d.fc2 d.act d.fc1", b);
  plan->Forward("res1 ln2", f);
  plan->Backward("w.fc2 w.fc1", b);
  plan->Backward("w.ln1 w.final_norm", b + 1);
  plan->Backward("d.ln2 d.res1", b);
  plan->Forward("fc1 act fc2", f);
  plan->Backward("d.proj d.attention d.qkv", b);
  plan->Forward("res2", f);
  plan->Forward("ln1 final_norm", f + 1);
  plan->Backward("r.ln1", b - 1);
  plan->Backward("w.proj w.qkv w.ln2", b);
  plan->Backward("d.ln1", b);
  plan->Backward("d.res2", b - 1);
}

bool IsDgrad(const Op& op) {
  return op.tag.phase == Phase::kBackward && InfoOf(op.kind).role != OperationRole::kWeightGradient;
}

}  // namespace

void KeepMemory(int pace, Weaver* weaver) {
  const IdVector<OpId, Op>& ops = weaver->ops();
  std::map<int, std::vector<OpId>> backward;  // by layer
  for (OpId op : ops.ids()) {
    if (ops[op].tag.micro_batch == RoleOf(Strand::kBackward) && !IsTransfer(ops[op].kind))
      backward[ops[op].tag.layer].push_back(op);
  }
  weaver->TurnTo(RoleOf(Strand::kForward));
  const int first = weaver->first_layer();  // of forward
  weaver->TurnTo(RoleOf(Strand::kBackward));
  const int last = weaver->layers() - 1;  // of backward
  for (OpId op : ops.ids()) {
    const auto& [layer, name, phase, role, slice] = ops[op].tag;
    const bool enters = layer >= 0 && name != "ln1" && !IsTransfer(ops[op].kind);
    if (role == RoleOf(Strand::kForward) && enters) {
      for (OpId earlier : backward[last - (layer - first) + pace]) {
        if (ops[earlier].tag.name != "ln1") weaver->Require(op, earlier);
      }
    }
    if (phase != Phase::kRecompute) continue;
    // Backward comes to a layer behind the dgrads of the MLP above it, or of the head.
    for (OpId earlier : backward[layer == last ? -1 : layer + 1]) {
      const bool above = ops[earlier].tag.name == (layer == last ? "head" : "fc1");
      if (above && IsDgrad(ops[earlier])) weaver->Require(op, earlier);
    }
  }
}

void PlayPlan(const WeavePlan& plan, Weaver* weaver) {
  for (const WeaveLine& line : plan.lines) {
    if (line.is_barrier()) {
      weaver->Barrier();
      continue;
    }
    weaver->TurnTo(RoleOf(line.strand));
    const int layer = line.layer < 0 ? -1 : weaver->first_layer() + line.layer;
    const int begin = std::max(line.slice, 0), end = line.slice < 0 ? weaver->slices() : begin + 1;
    for (int slice = begin; slice < end; ++slice) {
      for (const std::string& word : line.words) {
        for (int role = RoleOf(line.strand); role < weaver->roles(); role += kNextRole) {
          weaver->TurnTo(role);
          weaver->Play(word, layer, slice);
        }
      }
    }
  }
}

namespace {

// Weaves a unit by the given plan or, without one, by the default plan.
absl::Status WeaveUnit(const ScheduleSpec& schedule, const WeavePlan* given, UnitId unit,
                       StepProgram* step) {
  Weaver weaver(*step, unit);
  const WeavePlan plan =
      given != nullptr ? *given : DefaultWeavePlan(&weaver, schedule.sequence_parallel);
  KeepMemory(plan.pace, &weaver);
  PlayPlan(plan, &weaver);
  const std::vector<OpId> order = weaver.Finish();
  for (OpId op : weaver.barriers()) step->units[unit].ops[op].barrier = true;
  return Reorder(step, unit, order);
}

// Puts the embedding of the next micro-batch behind the first layer of forward, which has no other
// partner.
absl::Status PlaceEmbedding(UnitId unit, StepProgram* step) {
  const IdVector<OpId, Op>& ops = step->units[unit].ops;
  std::vector<OpId> order;
  for (OpId op : ops.ids()) order.push_back(op);
  const auto forward = std::find_if(order.begin(), order.end(),
                                    [&](OpId op) { return ops[op].tag.micro_batch == 0; });
  const auto second_layer =
      std::find_if(forward, order.end(), [&](OpId op) { return ops[op].tag.layer > 0; });
  std::rotate(order.begin(), forward, second_layer);
  return Reorder(step, unit, order);
}

}  // namespace

WeavePlan DefaultWeavePlan(Weaver* weaver, bool sequence_parallel) {
  PlanWriter plan(weaver);
  weaver->TurnTo(RoleOf(Strand::kForward));
  const int f = weaver->first_layer(), layers = weaver->layers() - f;
  weaver->TurnTo(RoleOf(Strand::kBackward));
  const int b = weaver->layers() - 1, b_end = weaver->first_layer();
  plan.Forward("recv embed");
  // Only the host reads the losses.
  plan.Backward("d.recv d.loss d.head w.head loss");
  if (sequence_parallel) {
    plan.Forward("position");
    plan.Forward("ln1", f);
    plan.Backward("r.ln1", b);
    plan.Backward("d.final_norm");
    plan.Backward("d.res2", b);
  }
  for (int i = 0; i < layers; ++i) {
    sequence_parallel ? WeaveLayersWithGathers(f + i, b - i, &plan)
                      : WeaveLayers(f + i, b - i, &plan);
    if (i == 0) plan.Next();
  }
  plan.Forward(sequence_parallel ? "send head max" : "send final_norm head max");
  weaver->TurnTo(RoleOf(Strand::kForward));
  const bool read = weaver->Has("send", -1, -1) || weaver->Has("final_norm", -1, -1);
  if (!read) plan.Forward("res2", weaver->layers() - 1);  // by the next chunk of this stage
  // Another stage waits for what backward sends, and nobody for the gradients of the norm.
  plan.Backward("d.send");
  plan.Backward(sequence_parallel ? "w.ln1" : "d.ln1 w.ln1", b_end);
  plan.Forward("sum");
  plan.Backward("d.position d.embed w.embed w.position");
  return plan.Take();
}

// Each strand alone is ordered as in domino_row, also where it has no partner.
absl::Status Helix(const EngineSpec& spec, StepProgram* step) { return DominoRow(spec, step); }

absl::Status WeaveCells(const EngineSpec& spec, StepProgram* step) {
  std::vector<WeavePlan> plans;
  if (!spec.schedule.weave.empty()) {
    ASSIGN_OR_RETURN(plans, ParseWeavePlans(spec.schedule.weave));
  }
  for (const WovenUnit& cell : WovenUnits(*step)) {
    const auto given = std::find_if(plans.begin(), plans.end(), [&](const WeavePlan& plan) {
      return plan.forward_chunk == cell.forward_chunk;
    });
    RETURN_IF_ERROR(
        WeaveUnit(spec.schedule, given == plans.end() ? nullptr : &*given, cell.unit, step));
  }
  const std::string first = absl::StrCat("forward", kWovenWith, kEmbeddingUnit);
  for (UnitId unit : step->units.ids()) {
    if (step->units[unit].name == first) RETURN_IF_ERROR(PlaceEmbedding(unit, step));
  }
  return absl::OkStatus();
}

}  // namespace stretto
