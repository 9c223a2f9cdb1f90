#pragma once
// Small specs that the engine's tests build programs from.

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {

struct Shape {
  std::string schedule = "megatron_sync";
  int tp_size = 2;
  std::vector<int> slices = {2};
  int micro_batches = 1;
  int layers = 2;
  DType dtype = DType::kF32;
  Family family = Family::kGpt;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  int splits = 1;
  int defer_wgrads = 0;
  bool merge_wgrads = false;
  double dropout = 0;
};

inline EngineSpec SpecOf(const Shape& shape) {
  EngineSpec spec;
  spec.model = {.family = shape.family,
                .layers = shape.layers,
                .hidden = 8,
                .heads = 4,
                .kv_heads = shape.family == Family::kLlama ? 2 : 0,
                .ffn_hidden = 16,
                .sequence_length = 4,
                .vocab_size = 100,
                .dropout = shape.dropout};
  spec.schedule = {.name = shape.schedule,
                   .slices = shape.slices,
                   .splits = shape.splits,
                   .sequence_parallel = shape.sequence_parallel,
                   .recompute = shape.recompute,
                   .defer_wgrads = shape.defer_wgrads,
                   .merge_wgrads = shape.merge_wgrads};
  spec.tp_size = shape.tp_size;
  spec.dtype = shape.dtype;
  spec.micro_batch_size = 0;
  for (int sequences : shape.slices) spec.micro_batch_size += sequences;
  spec.micro_batches = shape.micro_batches;
  return spec;
}

inline Shape Domino(std::vector<int> slices, int micro_batches = 1, int layers = 2) {
  return {.schedule = "domino_row",
          .slices = std::move(slices),
          .micro_batches = micro_batches,
          .layers = layers};
}

// Two sequences, cut as the schedule cuts them.
inline Shape ShapeOf(const std::string& schedule, int layers = 2) {
  const bool whole = schedule.starts_with("megatron") || schedule == "domino_col";
  const bool columns = schedule == "domino_col" || schedule == "domino_hybrid";
  return {.schedule = schedule,
          .slices = whole ? std::vector<int>{2} : std::vector<int>{1, 1},
          .layers = layers,
          .splits = columns ? 2 : 1};
}

// The plan of a spec that must be valid.
inline RankPlan PlanOf(const EngineSpec& spec, int rank = 0, Variant variant = Variant::kSchedule) {
  absl::StatusOr<RankPlan> plan = BuildPlan(spec, rank, variant);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : RankPlan{};
}

inline RankPlan PlanOf(const Shape& shape, int rank = 0, Variant variant = Variant::kSchedule) {
  return PlanOf(SpecOf(shape), rank, variant);
}

// A few shapes that cover sizes, types and micro-batches of an unsliced and a sliced schedule.
inline std::vector<Shape> ManyShapes() {
  std::vector<Shape> shapes;
  for (int tp_size : {1, 2}) {
    for (int micro_batches : {1, 2}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        shapes.push_back({"megatron_sync", tp_size, {3}, micro_batches, 2, dtype});
        for (const std::vector<int>& slices : {std::vector<int>{3}, {1, 2}, {1, 1, 1}, {3, 1}}) {
          shapes.push_back({"domino_row", tp_size, slices, micro_batches, 2, dtype});
        }
      }
    }
  }
  return shapes;
}

// Every schedule with both families, with and without sequence parallelism, however much it
// recomputes.
inline std::vector<Shape> EverySchedule(int micro_batches = 2) {
  std::vector<Shape> shapes;
  for (const std::string& name : ScheduleNames()) {
    for (Family family : {Family::kGpt, Family::kLlama}) {
      for (bool sequence_parallel : {false, true}) {
        for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
          Shape shape = ShapeOf(name);
          shape.micro_batches = micro_batches;
          shape.family = family;
          shape.sequence_parallel = sequence_parallel;
          shape.recompute = recompute;
          shapes.push_back(std::move(shape));
        }
      }
    }
  }
  return shapes;
}

inline std::string Describe(const Shape& shape) {
  return shape.schedule + " " + NameOf(shape.family) + " tp" + std::to_string(shape.tp_size) +
         " slices" + std::to_string(shape.slices.size()) + " mb" +
         std::to_string(shape.micro_batches) + " " + NameOf(shape.dtype) +
         (shape.sequence_parallel ? " sp" : "") + " recompute " + NameOf(shape.recompute);
}

}  // namespace stretto
