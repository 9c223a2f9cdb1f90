// SPDX-License-Identifier: Apache-2.0

// Runs a library's attention and ours on the same random input and compares them: the results must
// agree within tolerances, also when they are repeated and for one sequence at a time, bit by bit
// where that is asked for. Only then both are timed, in turns, so that a falling clock affects
// both.

#include "kernels/cuda/attention_choice/attention_trial.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/bf16.h"

namespace stretto::cuda {
namespace {

constexpr int kRuns = 7;
constexpr int kLaunches = 4;  // within one run
constexpr float kTolerance = 1.0f / 32, kLogTolerance = 1e-3f;

using Bytes = std::vector<std::byte>;

template <auto Destroy>
struct Destroyer {
  template <class T>
  void operator()(T* value) const {
    (void)Destroy(value);
  }
};
using DeviceMemory = std::unique_ptr<void, Destroyer<cudaFree>>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroyer<cudaEventDestroy>>;

absl::Status StatusOf(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string text = absl::StrCat(call, ": ", cudaGetErrorName(error));
  if (error != cudaErrorMemoryAllocation) return absl::UnavailableError(text);
  cudaGetLastError();  // handled here; not an error of the stream
  return absl::ResourceExhaustedError(text);
}

TensorView RowsOf(TensorView tensor, int64_t first, int64_t count) {
  if (tensor.data == nullptr) return tensor;
  const auto row_bytes = tensor.columns() * static_cast<int64_t>(SizeOf(tensor.dtype));
  tensor.data = static_cast<std::byte*>(tensor.data) + first * row_bytes;
  tensor.shape = {count, tensor.columns(), 1, 1};
  tensor.rank = 2;
  return tensor;
}

float NormOf(const BF16* row, int64_t columns) {
  float sum = 0;
  for (int64_t i = 0; i < columns; ++i) sum += ToFloat(row[i]) * ToFloat(row[i]);
  return std::sqrt(sum);
}

bool LogsAgree(const Bytes& own, const Bytes& other) {
  const auto* a = reinterpret_cast<const float*>(own.data());
  const auto* b = reinterpret_cast<const float*>(other.data());
  for (size_t i = 0; i < own.size() / sizeof(float); ++i) {
    if (!(std::abs(a[i] - b[i]) <= kLogTolerance * (1 + std::abs(a[i])))) return false;
  }
  return true;
}

bool RowsAgree(const Bytes& own, const Bytes& other, int64_t columns) {
  const auto* a = reinterpret_cast<const BF16*>(own.data());
  const auto* b = reinterpret_cast<const BF16*>(other.data());
  const auto rows = static_cast<int64_t>(own.size() / sizeof(BF16)) / columns;
  float mean = 0;
  for (int64_t row = 0; row < rows; ++row)
    mean += NormOf(a + row * columns, columns) / static_cast<float>(rows);
  for (int64_t row = 0; row < rows; ++row) {
    float apart = 0;
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      const float difference = ToFloat(a[i]) - ToFloat(b[i]);
      apart += difference * difference;
    }
    const float most = kTolerance * (mean + NormOf(a + row * columns, columns));
    if (!(std::sqrt(apart) <= most)) return false;
  }
  return true;
}

class Bench {
 public:
  Bench(const Trial& trial, Ops& own, const LibraryAttention& library)
      : trial_(trial), own_(own), library_(library) {}

  absl::Status Prepare();
  absl::Status Compare();
  absl::StatusOr<AttentionTimes> Time();

 private:
  // Returns the tensors that the library may write.
  std::vector<TensorView> Outputs(const AttentionTensors& tensors) const {
    if (trial_.backward) return {tensors.dqkv};
    return {tensors.context, tensors.lse};
  }
  // Returns the library's tensors. Backward runs on the results of our own forward.
  AttentionTensors Theirs() const {
    AttentionTensors tensors = ours_;
    (trial_.backward ? tensors.dqkv : tensors.context) = their_rows_;
    if (trial_.backward) {
      tensors.scratch = scratch_;
    } else {
      tensors.lse = their_lse_;
    }
    return tensors;
  }
  void RunOwn(bool backward) {
    if (backward) {
      own_.AttentionGrad(trial_.shape, {}, {}, {}, ours_.dcontext, ours_.qkv, ours_.context,
                         ours_.lse, ours_.dqkv, scratch_);
    } else {
      own_.Attention(trial_.shape, {}, {}, {}, ours_.qkv, ours_.context, ours_.lse, scratch_);
    }
  }
  absl::Status Fill(TensorView tensor, uint32_t seed) const;
  absl::StatusOr<std::vector<Bytes>> Read(const AttentionTensors& tensors) const;
  // Returns the library's results, computed in calls of `sequences_per_call` sequences.
  absl::StatusOr<std::vector<Bytes>> Theirs(int64_t sequences_per_call) const;
  absl::Status TimeOne(const std::function<absl::Status()>& run, double* microseconds) const;

  const Trial& trial_;
  Ops& own_;
  const LibraryAttention& library_;
  DeviceMemory memory_;
  Event begin_, end_;
  AttentionTensors ours_;
  TensorView their_rows_, their_lse_, scratch_;
};

absl::Status Bench::Prepare() {
  const AttentionShape& shape = trial_.shape;
  const int64_t rows = trial_.sequences * shape.sequence_length;
  int64_t end = 0;
  std::vector<std::pair<TensorView*, int64_t>> places;  // offsets in the memory of all
  const auto place = [&](TensorView* tensor, DType dtype, int64_t columns, int64_t of) {
    *tensor = {.dtype = dtype, .rank = 2};
    tensor->shape = {of, columns, 1, 1};
    places.emplace_back(tensor, end);
    end = (end + tensor->bytes() + 255) / 256 * 256;
  };
  const int64_t logs = trial_.sequences * shape.heads;
  place(&ours_.qkv, DType::kBF16, shape.qkv_columns(), rows);
  place(&ours_.context, DType::kBF16, shape.context_columns(), rows);
  place(&ours_.lse, DType::kF32, shape.sequence_length, logs);
  place(&ours_.dcontext, DType::kBF16, shape.context_columns(), rows);
  place(&ours_.dqkv, DType::kBF16, shape.qkv_columns(), rows);
  place(&their_rows_, DType::kBF16, trial_.backward ? shape.qkv_columns() : shape.context_columns(),
        rows);
  place(&their_lse_, DType::kF32, shape.sequence_length, logs);
  place(&scratch_, DType::kF32, AttentionScratch(shape, rows), 1);

  void* memory = nullptr;
  absl::Status status = StatusOf(cudaMalloc(&memory, end), "cudaMalloc");
  if (!status.ok()) return status;
  memory_.reset(memory);
  for (const auto& [tensor, offset] : places) {
    tensor->data = static_cast<std::byte*>(memory) + offset;
  }
  for (Event* event : {&begin_, &end_}) {
    cudaEvent_t made = nullptr;
    status = StatusOf(cudaEventCreateWithFlags(&made, 0), "cudaEventCreateWithFlags");
    if (!status.ok()) return status;
    event->reset(made);
  }
  status = Fill(ours_.qkv, 1);
  if (status.ok()) status = Fill(ours_.dcontext, 2);
  return status;
}

// Fills a tensor uniformly in (-2, 2), so that softmax is neither flat nor one-hot.
absl::Status Bench::Fill(TensorView tensor, uint32_t seed) const {
  constexpr int64_t kPart = int64_t{1} << 19;
  std::mt19937 random(seed);
  std::vector<BF16> part(kPart);
  absl::Status status;
  for (int64_t at = 0; at < tensor.count() && status.ok(); at += kPart) {
    const size_t count = std::min(kPart, tensor.count() - at);
    for (size_t i = 0; i < count; ++i)
      part[i] = ToBF16(static_cast<float>(static_cast<int32_t>(random())) * 0x1p-30f);
    status = StatusOf(cudaMemcpy(tensor.as<BF16>() + at, part.data(), count * sizeof(BF16),
                                 cudaMemcpyHostToDevice),
                      "cudaMemcpy");
  }
  return status;
}

absl::StatusOr<std::vector<Bytes>> Bench::Read(const AttentionTensors& tensors) const {
  absl::Status status = StatusOf(cudaStreamSynchronize(static_cast<cudaStream_t>(trial_.stream)),
                                 "cudaStreamSynchronize");
  std::vector<Bytes> all;
  for (const TensorView& output : Outputs(tensors)) {
    Bytes& bytes = all.emplace_back(output.bytes());
    if (status.ok()) {
      status = StatusOf(cudaMemcpy(bytes.data(), output.data, bytes.size(), cudaMemcpyDeviceToHost),
                        "cudaMemcpy");
    }
  }
  if (!status.ok()) return status;
  return all;
}

// Outputs start as NaN, so that a missing element is found.
absl::StatusOr<std::vector<Bytes>> Bench::Theirs(int64_t sequences_per_call) const {
  const AttentionTensors tensors = Theirs();
  absl::Status status;
  for (const TensorView& output : Outputs(tensors)) {
    if (!status.ok()) return status;
    status = StatusOf(cudaMemsetAsync(output.data, 0xff, output.bytes(),
                                      static_cast<cudaStream_t>(trial_.stream)),
                      "cudaMemsetAsync");
  }
  for (int64_t at = 0; at < trial_.sequences && status.ok(); at += sequences_per_call) {
    const int64_t count = std::min(sequences_per_call, trial_.sequences - at);
    status = library_(tensors.Sequences(trial_.shape, at, count));
  }
  if (!status.ok()) return status;
  return Read(tensors);
}

absl::Status Bench::Compare() {
  RunOwn(/*backward=*/false);
  if (trial_.backward) RunOwn(/*backward=*/true);
  const auto own = Read(ours_), whole = Theirs(trial_.sequences);
  const auto again = Theirs(trial_.sequences), parts = Theirs(1);
  for (const auto* results : {&own, &whole, &again, &parts}) {
    if (!results->ok()) return results->status();
  }
  const char* const what = trial_.backward ? "gradients" : "context";
  for (const auto* results : {&whole, &again, &parts}) {
    if (!RowsAgree((*own)[0], (**results)[0], their_rows_.columns()))
      return absl::InternalError(absl::StrCat("its ", what, " differ from our kernels'"));
  }
  if (!trial_.backward && !LogsAgree((*own)[1], (*whole)[1]))
    return absl::InternalError("its logs of the denominator differ from our kernels'");
  if (!trial_.repeatable) return absl::OkStatus();
  if (*again != *whole) return absl::InternalError("its bits vary between runs");
  if (*parts != *whole) return absl::InternalError("its bits depend on the number of sequences");
  return absl::OkStatus();
}

absl::Status Bench::TimeOne(const std::function<absl::Status()>& run, double* microseconds) const {
  const auto stream = static_cast<cudaStream_t>(trial_.stream);
  absl::Status status = StatusOf(cudaEventRecord(begin_.get(), stream), "cudaEventRecord");
  for (int i = 0; i < kLaunches && status.ok(); ++i) status = run();
  float milliseconds = 0;
  if (status.ok()) status = StatusOf(cudaEventRecord(end_.get(), stream), "cudaEventRecord");
  if (status.ok()) status = StatusOf(cudaEventSynchronize(end_.get()), "cudaEventSynchronize");
  if (status.ok()) {
    status = StatusOf(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()),
                      "cudaEventElapsedTime");
  }
  *microseconds = 1e3 * static_cast<double>(milliseconds) / kLaunches;
  return status;
}

// Times both in turns, so that a falling clock affects both.
absl::StatusOr<AttentionTimes> Bench::Time() {
  const auto own = [&] {
    RunOwn(trial_.backward);
    return absl::OkStatus();
  };
  const auto library = [&] { return library_(Theirs()); };
  std::vector<double> own_times(kRuns), library_times(kRuns);
  for (size_t i = 0; i < kRuns; ++i) {
    absl::Status status = TimeOne(own, &own_times[i]);
    if (status.ok()) status = TimeOne(library, &library_times[i]);
    if (!status.ok()) return status;
  }
  return AttentionTimes{.own = MedianOf(own_times), .library = MedianOf(library_times)};
}

}  // namespace

AttentionTensors AttentionTensors::Sequences(const AttentionShape& shape, int64_t first,
                                             int64_t count) const {
  const int64_t from = first * shape.sequence_length, rows = count * shape.sequence_length;
  return {.qkv = RowsOf(qkv, from, rows),
          .context = RowsOf(context, from, rows),
          .lse = RowsOf(lse, first * shape.heads, count * shape.heads),
          .dcontext = RowsOf(dcontext, from, rows),
          .dqkv = RowsOf(dqkv, from, rows),
          .scratch = scratch};
}

absl::StatusOr<AttentionTimes> TryAttention(const Trial& trial, Ops& own,
                                            const LibraryAttention& library) {
  Bench bench(trial, own, library);
  absl::Status status = bench.Prepare();
  if (status.ok()) status = bench.Compare();
  if (!status.ok()) return status;
  return bench.Time();
}

}  // namespace stretto::cuda
