// SPDX-License-Identifier: Apache-2.0

// Measures algorithms for a product on its stream: it waits until earlier work is done, allocates
// several sets of operands with random numbers, together larger than the cache, and times each
// algorithm over them. Memory is allocated and freed in stream order, because cudaFree would wait
// for streams that may wait for a peer.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kernels/bf16.h"
#include "kernels/cuda/cublaslt_plan.h"

namespace stretto::cuda {
namespace {

constexpr int kRuns = 7;
constexpr int kLaunches = 4;  // within one run
// Twice the second-level cache of a Hopper GPU, so that operands come from memory as in a step.
constexpr int64_t kUncached = int64_t{128} << 20;
constexpr int64_t kSets = 8;

// Frees memory in the stream's order: cudaFree waits for all streams, and another stream may wait
// for a lost peer.
struct GiveBack {
  cudaStream_t stream = nullptr;
  void operator()(void* memory) const { cudaFreeAsync(memory, stream); }
};
using DeviceMemory = std::unique_ptr<void, GiveBack>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;

// Returns the number of elements that the stored matrix spans.
int64_t Span(int64_t ld, int64_t rows, int64_t columns) { return ld * (columns - 1) + rows; }

struct Layout {
  int64_t a, b, d, bias;  // offsets
  int64_t bytes;
};

Layout LayoutOf(const Product& p) {
  const auto in = static_cast<int64_t>(SizeOf(p.in)), out = static_cast<int64_t>(SizeOf(p.out));
  int64_t end = 0;
  const auto place = [&](int64_t bytes) {
    const int64_t at = end;
    end = (end + bytes + 255) / 256 * 256;
    return at;
  };
  Layout layout = {};
  layout.a = place(in * Span(p.lda, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k));
  layout.b = place(in * Span(p.ldb, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n));
  layout.d = place(out * Span(p.ldd, p.m, p.n));
  layout.bias = place(out * p.m);
  layout.bytes = end;
  return layout;
}

// Returns a megabyte of random numbers of the type in (-1, 1). Power, and therefore speed, depends
// on the bits.
std::vector<std::byte> Values(DType dtype) {
  std::vector<std::byte> bytes(size_t{1} << 20);
  std::mt19937 random(1);
  const size_t size = SizeOf(dtype);
  for (size_t at = 0; at < bytes.size(); at += size) {
    const float value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
    const BF16 rounded = ToBF16(value);
    if (dtype == DType::kBF16) {
      std::memcpy(&bytes[at], &rounded, size);
    } else {
      std::memcpy(&bytes[at], &value, size);
    }
  }
  return bytes;
}

absl::Status AwaitRest(const Workspace& workspace) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + workspace.patience;
  while (true) {
    const cudaError_t error = cudaStreamQuery(workspace.stream);
    if (error != cudaErrorNotReady) return CudaStatus(error, "cudaStreamQuery");
    if (Clock::now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("not measured: what is on its stream did not end within ",
                       workspace.patience.count(), " ms"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

absl::StatusOr<DeviceMemory> FilledMemory(int64_t bytes, DType dtype, cudaStream_t stream) {
  void* memory = nullptr;
  if (absl::Status status = CudaStatus(cudaMallocAsync(&memory, bytes, stream), "cudaMallocAsync");
      !status.ok()) {
    cudaGetLastError();  // handled here; not an error of the stream
    return status;
  }
  DeviceMemory owned(memory, GiveBack{stream});
  const std::vector<std::byte> values = Values(dtype);
  for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(values.size())) {
    const size_t part = std::min(values.size(), static_cast<size_t>(bytes - at));
    const absl::Status status =
        CudaStatus(cudaMemcpyAsync(static_cast<std::byte*>(memory) + at, values.data(), part,
                                   cudaMemcpyHostToDevice, stream),
                   "cudaMemcpyAsync");
    if (!status.ok()) return status;
  }
  const absl::Status status = CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (!status.ok()) return status;
  return owned;
}

absl::StatusOr<Event> MakeEvent() {
  cudaEvent_t event = nullptr;
  const absl::Status status = CudaStatus(cudaEventCreate(&event), "cudaEventCreate");
  if (!status.ok()) return status;
  return Event(event);
}

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> TimesOf(cublasLtHandle_t handle,
                                                         const Product& product, const Plan& plan,
                                                         const std::vector<Algorithm>& algorithms,
                                                         const Workspace& workspace) {
  if (absl::Status status = AwaitRest(workspace); !status.ok()) return status;
  const Layout layout = LayoutOf(product);
  const int64_t sets = std::clamp<int64_t>(kUncached / layout.bytes + 1, 1, kSets);
  absl::StatusOr<DeviceMemory> memory =
      FilledMemory(sets * layout.bytes, product.in, workspace.stream);
  if (!memory.ok()) return memory.status();
  absl::StatusOr<Event> begin = MakeEvent(), end = MakeEvent();
  if (!begin.ok()) return begin.status();
  if (!end.ok()) return end.status();

  int64_t launches = 0;
  const auto launch = [&](const cublasLtMatmulAlgo_t& algorithm) {
    auto* base = static_cast<std::byte*>(memory->get()) + launches++ % sets * layout.bytes;
    const ProductCall call{.product = product,
                           .a = base + layout.a,
                           .b = base + layout.b,
                           .bias = product.bias ? base + layout.bias : nullptr,
                           .d = base + layout.d};
    return Launch(handle, plan, algorithm, call, workspace) == CUBLAS_STATUS_SUCCESS;
  };
  const auto run = [&](const cublasLtMatmulAlgo_t& algorithm, double* microseconds) {
    bool good = cudaEventRecord(begin->get(), workspace.stream) == cudaSuccess;
    for (int i = 0; i < kLaunches; ++i) good = good && launch(algorithm);
    float milliseconds = 0;
    good = good && cudaEventRecord(end->get(), workspace.stream) == cudaSuccess &&
           cudaEventSynchronize(end->get()) == cudaSuccess &&
           cudaEventElapsedTime(&milliseconds, begin->get(), end->get()) == cudaSuccess;
    *microseconds = 1e3 * static_cast<double>(milliseconds) / kLaunches;
    return good;
  };

  // In turns, because the clock falls while the device gets warm: whoever came first would win.
  std::vector<std::vector<double>> times(algorithms.size());
  std::vector<bool> failed(algorithms.size());
  for (int round = 0; round <= kRuns; ++round) {
    for (size_t i = 0; i < algorithms.size(); ++i) {
      double microseconds = 0;
      failed[i] = failed[i] || !run(WordsOf(algorithms[i]), &microseconds);
      if (round > 0) times[i].push_back(microseconds);  // the first round warms up
    }
  }
  for (size_t i = 0; i < algorithms.size(); ++i) {
    if (failed[i]) times[i].clear();
  }
  return times;
}

}  // namespace stretto::cuda
