// SPDX-License-Identifier: Apache-2.0

// Whole steps on a GPU: our kernels and cuBLASLt, all ranks on one device, with and without graphs.
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/cublaslt_products.h"
#include "tests/parity/cuda_agreement.h"
#include "tests/parity/matrix.h"
#include "tests/parity/torch_golden.h"
#include "worker/engine/exec/backend_cuda/cuda_backend.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::parity {
namespace {

// Nothing is measured, so that two machines choose the same algorithms.
MakeMachine GpuMachine(bool graphs) {
  return [=](const std::vector<RankPlan>& plans, const Options&) {
    std::vector<CudaRank> ranks;
    for (const RankPlan& plan : plans)
      ranks.push_back({plan.step, plan.program, plan.arenas, {}, {}});
    const auto products = [tunings = std::make_shared<cuda::Tunings>(*TuningsOfDevice())](
                              void* stream,
                              void* workspace) -> absl::StatusOr<std::unique_ptr<MatrixProducts>> {
      return MakeCublasLtProducts(
          {.stream = stream, .workspace = workspace, .tunings = tunings.get(), .tune = false});
    };
    auto executors = MakeCudaExecutors(
        std::move(ranks),
        {.make_ops = KernelsWith(0, products), .graphs = graphs, .collective_sms = 4});
    EXPECT_TRUE(executors.ok()) << executors.status();
    Machine machine;
    machine.executors = *std::move(executors);
    return machine;
  };
}

class CudaStepsTest : public ::testing::TestWithParam<Layout> {};

TEST_P(CudaStepsTest, AgreesWithTheCpuAndHasTheBitsOfItsSerialOracle) {
  for (bool graphs : {false, true})
    ExpectAgreesWithTheCpu(GetParam(), GpuMachine(graphs), GpuMachine(false));
}

std::vector<Layout> Layouts() {
  std::vector<Layout> layouts = CudaLayouts();
  for (const ScheduleRules& takes : kSchedules) {
    layouts.push_back({.schedule = takes.name,
                       .slices = takes.sliced() ? std::vector<int>{2, 2} : std::vector<int>{4},
                       .splits = takes.splits ? 2 : 1,
                       .micro_batches = 3});
  }
  layouts.push_back({.family = Family::kLlama,
                     .schedule = "domino_row",
                     .tp_size = 4,
                     .slices = {2, 2},
                     .sequence_parallel = true,
                     .micro_batches = 2});
  return layouts;
}

std::vector<TorchCase> TorchCases() {
  std::vector<TorchCase> cases;
  for (const char* golden :
       {"gpt", "gpt_odd", "gpt_untied", "llama", "llama_grouped", "llama_tied"}) {
    const Family family = golden[0] == 'g' ? Family::kGpt : Family::kLlama;
    cases.push_back({golden, {.family = family, .tp_size = 1}});
    cases.push_back({golden, {.family = family, .schedule = "domino_row", .slices = {2, 2}}});
  }
  return cases;
}

class CudaTorchTest : public ::testing::TestWithParam<TorchCase> {};

TEST_P(CudaTorchTest, TenLossesAndEveryGradientAgree) {
  ExpectAgreesWithTorch(GetParam(), GpuMachine(true));
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaTorchTest, ::testing::ValuesIn(TorchCases()), NameOfTorchCase);
INSTANTIATE_TEST_SUITE_P(Layouts, CudaStepsTest, ::testing::ValuesIn(Layouts()), NameOfLayout);

}  // namespace
}  // namespace stretto::parity
