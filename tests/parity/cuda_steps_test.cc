// Whole steps on a GPU: our kernels and cuBLASLt, all ranks on one device, with and without graphs.
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/cublaslt_products.h"
#include "tests/parity/cuda_agreement.h"
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
  for (const char* schedule : {"megatron_sync", "megatron_async", "nanotron"}) {
    const bool sliced = std::string(schedule) == "nanotron";
    layouts.push_back({.schedule = schedule,
                       .slices = sliced ? std::vector<int>{2, 2} : std::vector<int>{4},
                       .micro_batches = 3});
  }
  layouts.push_back({.family = Family::kLlama,
                     .schedule = "domino_row",
                     .tp_size = 4,
                     .slices = {2, 2},
                     .sequence_parallel = true,
                     .micro_batches = 2});
  layouts.push_back(
      {.schedule = "domino_hybrid", .slices = {2, 2}, .splits = 2, .micro_batches = 2});
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaStepsTest, ::testing::ValuesIn(Layouts()), NameOfLayout);

}  // namespace
}  // namespace stretto::parity
