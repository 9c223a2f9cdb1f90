// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/reference.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/spec/schedules.h"
#include "worker/bench/sim_figures.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace {

constexpr int kLayers = 40;
constexpr double kUnit = 1e-3;  // seconds

struct LayerCost {
  const char* key;  // key of CostTable
  double units;
};

constexpr LayerCost kForward[] = {
    {"ln1 layer_norm", 1.6},
    {"qkv gemm", 6},
    {"attention attention", 0.6},
    {"proj gemm", 2},
    {"fc1 gemm", 8},
    {"act gelu", 0.7},
    {"fc2 gemm", 8},
    {"ln2 layer_norm", 1.6},
    {"res1 bias_residual", 2.6},
    {"res2 bias_residual", 2.6},
};
constexpr LayerCost kBackward[] = {
    {"ln1 layer_norm_dgrad", 1.5 * 1.6},
    {"ln2 layer_norm_dgrad", 1.5 * 1.6},
    {"qkv gemm_dgrad", 6},
    {"qkv gemm_wgrad", 6},
    {"proj gemm_dgrad", 2},
    {"proj gemm_wgrad", 2},
    {"fc1 gemm_dgrad", 8},
    {"fc1 gemm_wgrad", 8},
    {"fc2 gemm_dgrad", 8},
    {"fc2 gemm_wgrad", 8},
    {"attention attention_grad", 2.5 * 0.6},
    {"act gelu_grad", 1.5 * 0.7},
    {"res1 dropout", 2.6},
    {"res2 dropout", 2.6},
};

// Units of computation of a layer, forward and backward.
double LayerUnits() {
  double units = 0;
  for (const LayerCost& part : kForward) units += part.units;
  for (const LayerCost& part : kBackward) units += part.units;
  return units;
}

}  // namespace

const std::vector<ReferenceRow>& ReferenceRows() {
  static const auto* rows = new std::vector<ReferenceRow>{
      {"Megatron, synchronous", "megatron_sync", 1, {1.00, 1.00}, {1.00, 1.00}},
      {"Megatron, asynchronous", "megatron_async", 1, {1.09, 1.09}, {0.50, 0.80}},
      {"Domino, first release", "domino_release1", 2, {1.16, 1.24}, {0.13, 0.55}},
      {"Domino, as drawn", "domino_paper", 2, {1.19, 1.51}, {0.01, 0.21}},
      {"Domino, within layers", "domino_intra", 2, {1.18, 1.32}, {0.05, 0.44}},
      {"Domino, across layers", "domino_inter", 2, {1.19, 1.36}, {0.00, 0.38}},
      {"nanotron", "nanotron", 2, {1.19, 1.37}, {0.00, 0.38}},
      {"ours: backward of its own", "domino_row", 2, {1.19, 1.66}, {0.00, 0.07}},
  };
  return *rows;
}

EngineSpec ReferenceSpec(const std::string& schedule, int slices) {
  EngineSpec spec;
  spec.model = {.layers = kLayers,
                .hidden = 5120,
                .heads = 40,
                .ffn_hidden = 4 * 5120,
                .sequence_length = 1024,
                .vocab_size = 50257,
                .dropout = 0.1};  // its gradient is an operation of backward
  spec.schedule = {.name = schedule, .slices = EvenSlices(2, slices)};
  spec.tp_size = 8;
  spec.micro_batch_size = 2;
  return spec;
}

CostModel ReferenceCosts(int slices, double communication_share) {
  CostModel cost;
  const auto set = [&](absl::string_view phase, const LayerCost& part) {
    cost.table.Set(absl::StrCat(phase, " ", part.key), part.units * kUnit / slices);
  };
  for (const LayerCost& part : kForward) set("fwd", part);
  for (const LayerCost& part : kBackward) set("bwd", part);
  const double communication =
      LayerUnits() * communication_share / (1 - communication_share) * kUnit;
  for (const char* place : {"fwd proj", "fwd fc2", "bwd fc1", "bwd qkv"}) {
    cost.table.Set(absl::StrCat(place, " all_reduce"), communication / 4 / slices);
  }
  return cost;
}

absl::StatusOr<ReferenceResult> SimulateReference(const ReferenceRow& row,
                                                  double communication_share) {
  ASSIGN_OR_RETURN(const RankPlan plan, BuildPlan(ReferenceSpec(row.schedule, row.slices), 0));
  ASSIGN_OR_RETURN(std::vector<Interval> intervals,
                   Simulate(plan.program, ReferenceCosts(row.slices, communication_share)));
  const StepFigures figures = FiguresOf(plan.program, std::move(intervals));
  const double synchronous = kLayers * LayerUnits() * kUnit / (1 - communication_share);
  return ReferenceResult{.speed_up = synchronous / figures.ledger.seconds,
                         .exposed = 1 - figures.ledger.overlap_ratio()};
}

}  // namespace stretto
