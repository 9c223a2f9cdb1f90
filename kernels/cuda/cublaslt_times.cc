// SPDX-License-Identifier: Apache-2.0

// Measures algorithms for a product on its stream: it waits until earlier work is done, allocates
// several sets of operands with random numbers, together larger than the cache, and times each
// algorithm over them, alone or while other SMs are taken. Memory is allocated and freed in stream
// order, because cudaFree would wait for streams that may wait for a peer.

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
using Stream = Owned<cudaStream_t, cudaStreamDestroy>;

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

// Company has the higher priority, as collectives do in a step.
absl::StatusOr<Stream> MakeUrgentStream() {
  int least = 0, greatest = 0;
  cudaStream_t stream = nullptr;
  absl::Status status = CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                                   "cudaDeviceGetStreamPriorityRange");
  if (status.ok()) {
    status = CudaStatus(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
                        "cudaStreamCreateWithPriority");
  }
  if (!status.ok()) return status;
  return Stream(stream);
}

// Times several launches on a stream, alone or beside company.
class Timer {
 public:
  static absl::StatusOr<Timer> Create(cudaStream_t stream, const ProductCompany& company) {
    Timer timer(stream, company);
    absl::StatusOr<Event> begin = MakeEvent(), end = MakeEvent();
    if (!begin.ok()) return begin.status();
    if (!end.ok()) return end.status();
    timer.begin_ = *std::move(begin);
    timer.end_ = *std::move(end);
    if (company.sms_left == 0) return timer;
    absl::StatusOr<Stream> beside = MakeUrgentStream();
    if (!beside.ok()) return beside.status();
    timer.beside_ = *std::move(beside);
    return timer;
  }

  // Returns whether all launches succeeded. `alone`: the microseconds of one launch alone, with
  // which it is timed beside the company; 0: alone.
  template <class F>
  absl::StatusOr<bool> Run(double alone, double* microseconds, const F& launch) {
    bool good = true;
    if (alone > 0) {
      // It has begun when the first launch, which is not timed, has ended, and stays to the end
      // also where products take twice as long.
      const auto hold = std::chrono::nanoseconds(
          static_cast<int64_t>(1e3 * (100 + 2.5 * (kLaunches + 1) * alone)));
      if (const char* why = company_.begin(hold, beside_.get()); why != nullptr)
        return absl::UnavailableError(absl::StrCat("company of a product: ", why));
      good = launch();
    }
    good = good && cudaEventRecord(begin_.get(), stream_) == cudaSuccess;
    for (int i = 0; i < kLaunches; ++i) good = good && launch();
    float milliseconds = 0;
    good = good && cudaEventRecord(end_.get(), stream_) == cudaSuccess &&
           cudaEventSynchronize(end_.get()) == cudaSuccess &&
           cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()) == cudaSuccess;
    *microseconds = 1e3 * static_cast<double>(milliseconds) / kLaunches;
    if (alone > 0) {
      const absl::Status ended =
          CudaStatus(cudaStreamSynchronize(beside_.get()), "company of a product");
      if (!ended.ok()) return ended;
    }
    return good;
  }

 private:
  Timer(cudaStream_t stream, const ProductCompany& company) : stream_(stream), company_(company) {}

  cudaStream_t stream_;
  const ProductCompany& company_;
  Event begin_, end_;
  Stream beside_;  // null without company
};

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> TimesOf(cublasLtHandle_t handle,
                                                         const Product& product,
                                                         const std::vector<Candidate>& candidates,
                                                         const Workspace& workspace,
                                                         const ProductCompany& company) {
  if (absl::Status status = AwaitRest(workspace); !status.ok()) return status;
  const Layout layout = LayoutOf(product);
  const int64_t sets = std::clamp<int64_t>(kUncached / layout.bytes + 1, 1, kSets);
  absl::StatusOr<DeviceMemory> memory =
      FilledMemory(sets * layout.bytes, product.in, workspace.stream);
  if (!memory.ok()) return memory.status();
  absl::StatusOr<Timer> timer = Timer::Create(workspace.stream, company);
  if (!timer.ok()) return timer.status();

  int64_t launches = 0;
  const auto launch = [&](const Candidate& candidate) {
    auto* base = static_cast<std::byte*>(memory->get()) + launches++ % sets * layout.bytes;
    const ProductCall call{.product = product,
                           .a = base + layout.a,
                           .b = base + layout.b,
                           .bias = product.bias ? base + layout.bias : nullptr,
                           .d = base + layout.d};
    return Launch(handle, *candidate.plan, WordsOf(*candidate.algorithm), call, workspace) ==
           CUBLAS_STATUS_SUCCESS;
  };

  // In turns, because the clock falls while the device gets warm: whoever came first would win.
  std::vector<std::vector<double>> times(candidates.size());
  std::vector<bool> failed(candidates.size());
  for (int round = 0; round <= kRuns; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (failed[i]) continue;
      double microseconds = 0;
      absl::StatusOr<bool> good = timer->Run(candidates[i].microseconds, &microseconds,
                                             [&] { return launch(candidates[i]); });
      if (!good.ok()) return good.status();
      failed[i] = !*good;
      if (round > 0) times[i].push_back(microseconds);  // the first round warms up
    }
  }
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (failed[i]) times[i].clear();
  }
  return times;
}

}  // namespace stretto::cuda
