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
};

inline EngineSpec SpecOf(const Shape& shape) {
  EngineSpec spec;
  spec.model = {.layers = shape.layers,
                .hidden = 8,
                .heads = 4,
                .ffn_hidden = 16,
                .sequence_length = 4,
                .vocab_size = 100};
  spec.schedule = {shape.schedule, shape.slices};
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

// The plan of a spec that must be valid.
inline RankPlan PlanOf(const Shape& shape, int rank = 0, Variant variant = Variant::kSchedule) {
  absl::StatusOr<RankPlan> plan = BuildPlan(SpecOf(shape), rank, variant);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : RankPlan{};
}

// A few shapes that cover both schedules, sizes, types and micro-batches.
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

inline std::string Describe(const Shape& shape) {
  return shape.schedule + " tp" + std::to_string(shape.tp_size) + " slices" +
         std::to_string(shape.slices.size()) + " mb" + std::to_string(shape.micro_batches) + " " +
         NameOf(shape.dtype);
}

}  // namespace stretto
