// SPDX-License-Identifier: Apache-2.0

// Against PyTorch, on the CPU.
#include "tests/parity/torch_golden.h"

namespace stretto::parity {
namespace {

std::vector<TorchCase> Cases() {
  const Layout hybrid = {.schedule = "domino_hybrid",
                         .slices = {1, 3},
                         .splits = 2,
                         .recompute = Recompute::kSelective};
  std::vector<TorchCase> cases;
  for (const char* golden : {"gpt", "gpt_odd", "gpt_untied", "llama", "llama_grouped", "llama_tied",
                             "gpt_deep", "llama_deep"}) {
    cases.push_back({golden, {.tp_size = 1}});
    cases.push_back({golden, {.schedule = "domino_row", .slices = {2, 2}}});
    cases.push_back({golden, hybrid});
  }
  cases.push_back({"gpt", {.tp_size = 2}});
  cases.push_back({"gpt", {.schedule = "domino_row", .tp_size = 4, .slices = {1, 2, 1}}});
  cases.push_back(
      {"llama", {.schedule = "megatron_async", .tp_size = 4, .sequence_parallel = true}});
  cases.push_back({"llama_grouped",
                   {.schedule = "domino_row",
                    .tp_size = 4,
                    .slices = {1, 2, 1},
                    .sequence_parallel = true,
                    .recompute = Recompute::kFull}});
  cases.push_back({"gpt_untied", {.schedule = "megatron_async", .sequence_parallel = true}});
  cases.push_back(
      {"llama_tied", {.schedule = "domino_row", .slices = {1, 3}, .sequence_parallel = true}});
  cases.push_back({"gpt", {.schedule = "helix", .slices = {2}, .micro_batches = 2}});
  cases.push_back({"llama_grouped",
                   {.schedule = "helix",
                    .tp_size = 4,
                    .slices = {1},
                    .sequence_parallel = true,
                    .recompute = Recompute::kFull,
                    .micro_batches = 4}});
  // Four micro-batches, so that three cells of two passes follow each other.
  cases.push_back({"gpt_deep",
                   {.schedule = "helix",
                    .slices = {1},
                    .sequence_parallel = true,
                    .recompute = Recompute::kSelective,
                    .micro_batches = 4}});
  cases.push_back({"llama_deep", {.schedule = "helix", .slices = {1}, .micro_batches = 4}});
  // Two folded stages, the head tied to the embedding on the first one, and not.
  for (const char* golden : {"gpt_deep", "llama_deep"}) {
    const Layout folded =
        InOrder({.tp_size = 1, .pp_size = 2, .slices = {1}, .micro_batches = 4}, "folded");
    cases.push_back({golden, folded});
    cases.push_back({golden, folded});
    cases.back().layout.tp_size = 2;
    cases.back().layout.sequence_parallel = true;
    cases.back().layout.recompute = Recompute::kFull;
  }
  cases.push_back({"gpt_untied", {.tp_size = 1, .dp_size = 4, .slices = {1}}});
  cases.push_back({"gpt", {.schedule = "megatron_async", .dp_size = 2, .slices = {2}}});
  cases.push_back({"llama_grouped",
                   {.schedule = "domino_row",
                    .tp_size = 4,
                    .dp_size = 2,
                    .slices = {1, 1},
                    .sequence_parallel = true}});
  // Eight ranks: two stages of two replicas of two ranks.
  cases.push_back(
      {"gpt", {.tp_size = 2, .dp_size = 2, .pp_size = 2, .slices = {1}, .micro_batches = 2}});
  cases.push_back(
      {"gpt_untied",
       {.tp_size = 2, .dp_size = 2, .zero = 1, .pp_size = 2, .slices = {1}, .micro_batches = 2}});
  cases.push_back({"llama_grouped",
                   {.schedule = "domino_row",
                    .tp_size = 2,
                    .dp_size = 1,
                    .pp_size = 2,
                    .pipeline = "eager_1f1b",
                    .slices = {1, 1},
                    .recompute = Recompute::kSelective,
                    .micro_batches = 2}});
  // Six ranks: a stage of four and one of two.
  cases.push_back({"gpt",
                   {.tp_size = 4,
                    .pp_size = 2,
                    .stages = {{1, 4}, {1, 2}},
                    .slices = {1},
                    .micro_batches = 4}});
  // A stage of one replica on several ranks, and one of two replicas.
  cases.push_back({"gpt",
                   {.dp_size = 2,
                    .zero = 1,
                    .pp_size = 2,
                    .stages = {{1, 2, 1}, {1, 1, 2}},
                    .slices = {1},
                    .micro_batches = 2}});
  cases.push_back({"gpt_untied",
                   {.schedule = "domino_row",
                    .dp_size = 2,
                    .pp_size = 2,
                    .stages = {{1, 1, 2}, {1, 4, 1}},
                    .transfer = Transfer::kGather,
                    .slices = {1, 1}}});
  for (TorchCase& c : cases) {
    if (c.golden.starts_with("llama")) c.layout.family = Family::kLlama;
  }
  return cases;
}

class TorchTest : public ::testing::TestWithParam<TorchCase> {};

TEST_P(TorchTest, TenLossesAndEveryGradientAgree) { ExpectAgreesWithTorch(GetParam(), CpuMachine); }

INSTANTIATE_TEST_SUITE_P(Cases, TorchTest, ::testing::ValuesIn(Cases()), NameOfTorchCase);

}  // namespace
}  // namespace stretto::parity
