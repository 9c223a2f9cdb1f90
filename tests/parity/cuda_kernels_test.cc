// SPDX-License-Identifier: Apache-2.0

// Whole steps by the CUDA kernels on the emulated device, against the CPU's.
#include <cuda_runtime.h>

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/parity/cuda_agreement.h"
#include "tests/parity/torch_golden.h"
#include "worker/engine/exec/backend_cuda/cuda_backend.h"

namespace stretto::parity {
namespace {

// Those of the CPU, put on the stream: the library for them is no code of ours.
class EnqueuedProducts final : public MatrixProducts {
 public:
  explicit EnqueuedProducts(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) override {
    Do([=](Ops& ops) { ops.Gemm(x, w, bias, y); });
  }
  void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) override {
    Do([=](Ops& ops) { ops.GemmDgrad(dy, w, first_column, dx); });
  }
  void GemmWgrad(TensorView dy, TensorView x, TensorView dw) override {
    Do([=](Ops& ops) { ops.GemmWgrad(dy, x, dw); });
  }
  void LimitSms(int) override {}

 private:
  void Do(std::function<void(Ops&)> call) {
    // Weights are written by kernels that its packed forms know nothing of.
    const cudaError_t status =
        cuda_emulator::Enqueue(stream_, [ops = ops_, call = std::move(call)] {
          ops->WeightsChanged();
          call(*ops);
        });
    STRETTO_CHECK(status == cudaSuccess);
  }

  const cudaStream_t stream_;
  const std::shared_ptr<Ops> ops_ = MakeCpuOps();
};

MakeMachine KernelMachine(uint64_t seed) {
  return [=](const std::vector<RankPlan>& plans, const Options&) {
    cuda_emulator::Seed(seed);
    std::vector<CudaRank> ranks;
    for (const RankPlan& plan : plans)
      ranks.push_back({plan.step, plan.program, plan.arenas, {}, {}});
    const auto products = [](void* stream,
                             void*) -> absl::StatusOr<std::unique_ptr<MatrixProducts>> {
      return std::make_unique<EnqueuedProducts>(stream);
    };
    auto executors = MakeCudaExecutors(std::move(ranks), {.make_ops = KernelsWith(0, products)});
    EXPECT_TRUE(executors.ok()) << executors.status();
    Machine machine;
    machine.executors = *std::move(executors);
    return machine;
  };
}

class CudaKernelsTest : public ::testing::TestWithParam<Layout> {
 protected:
  ~CudaKernelsTest() override {
    EXPECT_EQ(cuda_emulator::Leaks(), 0);
    cuda_emulator::Reset();
  }
};

TEST_P(CudaKernelsTest, AgreesWithTheCpuAndHasTheBitsOfItsSerialOracle) {
  ExpectAgreesWithTheCpu(GetParam(), KernelMachine(1), KernelMachine(2));
}

TEST(CudaKernelsTorchTest, TenLossesAndEveryGradientAgree) {
  ExpectAgreesWithTorch({"gpt", {.schedule = "domino_row", .slices = {2, 2}}}, KernelMachine(3));
  ExpectAgreesWithTorch({"llama_grouped", {.family = Family::kLlama}}, KernelMachine(4));
  ExpectAgreesWithTorch({"gpt_untied", {}}, KernelMachine(5));
  ExpectAgreesWithTorch({"llama_tied", {.family = Family::kLlama}}, KernelMachine(6));
  cuda_emulator::Reset();
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaKernelsTest, ::testing::ValuesIn(CudaLayouts()),
                         NameOfLayout);

}  // namespace
}  // namespace stretto::parity
