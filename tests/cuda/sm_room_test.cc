// SPDX-License-Identifier: Apache-2.0

// Where blocks run on a GPU. Under a limit on SMs (collective_sms), blocks that need a whole SM, as
// those of a collective do, begin on SMs of their own while a kernel of ours or a product runs. A
// kernel that writes %smid stands for the collective.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <vector>

#include "tests/cuda/sm_stamps.h"
#include "tests/kernels/cuda_device.h"

namespace stretto {
namespace {

constexpr int kCollectiveSms = 8;
// More than any block that fills an SM leaves of its 227 KiB.
constexpr size_t kWholeSm = 200 * 1024;

struct Beside {
  std::set<int> sms;  // of the stamps
  double last = 0;    // when the last of them began: 0 the beginning of the work, 1 its end
};

class SmRoomTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithPriority(&first_, cudaStreamNonBlocking, Greatest()),
              cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&began_, cudaEventDisableTiming), cudaSuccess);
    void* stamps = nullptr;
    ASSERT_EQ(cudaMallocManaged(&stamps, kStamps * sizeof(Stamp)), cudaSuccess);
    stamps_ = static_cast<Stamp*>(stamps);
  }
  void TearDown() override {
    device_.Wait();
    for (void* memory : memory_) cudaFree(memory);
    cudaFree(stamps_);
    cudaEventDestroy(began_);
    cudaStreamDestroy(first_);
  }

  static int Greatest() {
    int least = 0, greatest = 0;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    return greatest;
  }

  // Zeros on the device.
  TensorView Zeros(int64_t rows, int64_t columns, DType dtype = DType::kBF16) {
    TensorView view{.data = nullptr, .dtype = dtype, .shape = {rows, columns, 1, 1}, .rank = 2};
    const auto bytes = static_cast<size_t>(view.bytes());
    EXPECT_EQ(cudaMalloc(&view.data, bytes), cudaSuccess);
    EXPECT_EQ(cudaMemset(view.data, 0, bytes), cudaSuccess);
    memory_.push_back(view.data);
    return view;
  }

  void Launch(const StampLaunch& launch, Stamp* stamps, void* stream) {
    ASSERT_STREQ(LaunchStamps(launch, stamps, stream), nullptr);
  }

  // Runs `work` on the device's stream and kCollectiveSms stamping blocks, which need an SM each,
  // on one of higher priority, shortly after the work has begun.
  Beside StampBeside(const std::function<void()>& work) {
    Stamp *const begin = stamps_, *const end = stamps_ + 1, *const delay = stamps_ + 2,
                 *const blocks = stamps_ + 3;
    device_.Wait();
    Launch({}, begin, device_.stream());
    EXPECT_EQ(cudaEventRecord(began_, static_cast<cudaStream_t>(device_.stream())), cudaSuccess);
    work();
    Launch({}, end, device_.stream());
    EXPECT_EQ(cudaStreamWaitEvent(first_, began_, 0), cudaSuccess);
    Launch({.stay_nanoseconds = 200'000}, delay, first_);
    Launch({.blocks = kCollectiveSms, .threads = 512, .shared_bytes = kWholeSm}, blocks, first_);
    device_.Wait();
    Beside beside;
    int64_t last = 0;
    for (int b = 0; b < kCollectiveSms; ++b) {
      beside.sms.insert(blocks[b].sm);
      last = std::max(last, blocks[b].begin);
    }
    beside.last =
        static_cast<double>(last - begin->begin) / static_cast<double>(end->begin - begin->begin);
    std::cout << "the last of " << kCollectiveSms << " blocks began at " << beside.last << " of "
              << static_cast<double>(end->begin - begin->begin) * 1e-6 << " ms, on "
              << beside.sms.size() << " SMs\n";
    return beside;
  }

  void ExpectRoom(const Beside& beside) {
    EXPECT_EQ(beside.sms.size(), size_t{kCollectiveSms});
    EXPECT_LT(beside.last, 0.8) << "blocks of a collective waited for the work's end";
  }

  // Some milliseconds of attention.
  std::function<void(CudaOps&)> Attention(bool gradient) {
    const AttentionShape shape{
        .sequence_length = 4096, .heads = 32, .kv_heads = 32, .head_dim = 128};
    const int64_t rows = 2 * shape.sequence_length;
    const TensorView qkv = Zeros(rows, shape.qkv_columns()),
                     dqkv = Zeros(rows, shape.qkv_columns());
    const TensorView context = Zeros(rows, shape.context_columns()),
                     dcontext = Zeros(rows, shape.context_columns());
    const TensorView lse = Zeros(2 * shape.heads, shape.sequence_length, DType::kF32);
    const TensorView scratch = Zeros(1, AttentionScratch(shape, rows), DType::kF32);
    return [=](CudaOps& ops) {
      if (gradient) {
        ops.AttentionGrad(shape, {}, {}, {}, dcontext, qkv, context, lse, dqkv, scratch);
      } else {
        ops.Attention(shape, {}, {}, {}, qkv, context, lse, scratch);
      }
      EXPECT_STREQ(ops.error(), "");
    };
  }

  static constexpr int kStamps = 1024;
  CudaDevice& device_ = CudaDevice::Get();
  cudaStream_t first_ = nullptr;
  cudaEvent_t began_ = nullptr;
  Stamp* stamps_ = nullptr;
  std::vector<void*> memory_;
};

// What a limit of one block per SM, and the dealing of attention's tiles, count on.
TEST_F(SmRoomTest, EachSmHasOneBlockBeforeAnyHasTwo) {
  const int sms = device_.sm_count();
  ASSERT_LE(2 * sms, kStamps);
  const auto stamped = [&](int blocks) {
    Launch({.blocks = blocks, .shared_bytes = 100 * 1024, .stay_nanoseconds = 1'000'000}, stamps_,
           device_.stream());
    device_.Wait();
    std::set<int> seen;
    for (int b = 0; b < blocks; ++b) seen.insert(stamps_[b].sm);
    return seen.size();
  };
  EXPECT_EQ(stamped(sms - kCollectiveSms), static_cast<size_t>(sms - kCollectiveSms));
  EXPECT_EQ(stamped(2 * sms), static_cast<size_t>(sms));
  int shared = 0;
  for (int b = 0; b < sms; ++b) shared += stamps_[b].sm == stamps_[b + sms].sm ? 1 : 0;
  std::cout << "of " << sms << " SMs, " << shared << " have the blocks b and b + " << sms << "\n";
}

TEST_F(SmRoomTest, AttentionLeavesItsSms) {
  for (const bool gradient : {false, true}) {
    SCOPED_TRACE(gradient ? "gradient" : "forward");
    const auto work = Attention(gradient);
    const auto limited = device_.Ops(device_.sm_count() - kCollectiveSms), all = device_.Ops(0);
    work(*limited);
    ExpectRoom(StampBeside([&] { work(*limited); }));
    if (gradient) continue;
    // Without a limit there is no room, so the stamps would notice.
    EXPECT_GT(StampBeside([&] { work(*all); }).last, 0.5);
  }
}

TEST_F(SmRoomTest, ProductsLeaveTheirSms) {
  const TensorView x = Zeros(8192, 8192), w = Zeros(8192, 8192), y = Zeros(8192, 8192);
  const auto limited = device_.Ops(device_.sm_count() - kCollectiveSms);
  const auto work = [&] {
    limited->Gemm(x, w, {}, y);
    EXPECT_STREQ(limited->error(), "");
  };
  work();
  ExpectRoom(StampBeside(work));
}

}  // namespace
}  // namespace stretto
