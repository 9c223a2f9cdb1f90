// SPDX-License-Identifier: Apache-2.0

// Emulates a link by copies: the bytes of a collective are copied on the device in a few pieces,
// and copies to the host, which do not occupy SMs, fill the remaining time of the emulated link.
// Prepare measures the speed of both kinds of copies.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/link_copies.h"

namespace stretto {
namespace {

constexpr int64_t kScratch = int64_t{64} << 20;  // more than a cache holds
constexpr int64_t kAligned = 512;                // unaligned copies are slower
constexpr int kPieces = 4;  // of a tensor, so that its copy is spread over time
constexpr int64_t kSmall = int64_t{1} << 20, kLarge = int64_t{32} << 20;
constexpr int kRepeats = 5;

struct FreeDevice {
  void operator()(void* memory) const { (void)cudaFree(memory); }
};
struct FreeHost {
  void operator()(void* memory) const { (void)cudaFreeHost(memory); }
};
struct DestroyStream {
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { (void)cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

struct Copy {
  std::byte* to;
  const std::byte* from;
  int64_t bytes;
};

// Copies from a part of `out` that has the data, or receives it here, to all others: the filled
// range doubles on both sides.
std::vector<Copy> Gather(const std::byte* in, std::byte* out, int64_t bytes, int64_t parts) {
  std::vector<Copy> copies;
  int64_t begin = 0;
  const bool within = in >= out && in < out + parts * bytes;
  if (within) {
    begin = (in - out) / bytes;
  } else {
    copies.push_back({out, in, bytes});
  }
  int64_t end = begin + 1;
  while (begin > 0 || end < parts) {
    const int64_t right = std::min(end - begin, parts - end);
    if (right > 0) copies.push_back({out + end * bytes, out + begin * bytes, right * bytes});
    end += right;
    const int64_t left = std::min(end - begin, begin);
    if (left > 0)
      copies.push_back({out + (begin - left) * bytes, out + begin * bytes, left * bytes});
    begin -= left;
  }
  return copies;
}

class Copies final : public LinkCopies {
 public:
  cudaError_t Prepare(const std::optional<CopyPace>& pace) {
    void* memory = nullptr;
    if (const cudaError_t error = cudaMalloc(&memory, kScratch); error != cudaSuccess) return error;
    scratch_.reset(memory);
    if (const cudaError_t error = cudaMallocHost(&memory, kScratch); error != cudaSuccess)
      return error;
    host_.reset(memory);
    if (!pace.has_value()) return Measure();
    pace_ = *pace;
    return cudaSuccess;
  }

  const char* Enqueue(const LinkTransfer& transfer, void* stream) override {
    const auto to = static_cast<cudaStream_t>(stream);
    const std::vector<Copy> copies = CopiesOf(transfer);
    int64_t bytes = 0;
    for (const Copy& copy : copies) bytes += copy.bytes;
    // The time that the copies so far have not used.
    double due = static_cast<double>(transfer.latency_nanoseconds);
    cudaError_t error = Pass(&due, to);
    for (const Copy& copy : copies) {
      if (error != cudaSuccess) break;
      error = cudaMemcpyAsync(copy.to, copy.from, static_cast<size_t>(copy.bytes),
                              cudaMemcpyDeviceToDevice, to);
      const double size = static_cast<double>(copy.bytes);
      due += static_cast<double>(transfer.transfer_nanoseconds) * size / static_cast<double>(bytes);
      due -= pace_.within.nanoseconds + size / pace_.within.bytes_per_nanosecond;
      if (error == cudaSuccess) error = Pass(&due, to);
    }
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
  }

  CopyPace pace() const override { return pace_; }

 private:
  std::vector<Copy> CopiesOf(const LinkTransfer& transfer) const {
    const auto* in = static_cast<const std::byte*>(transfer.in);
    auto* out = static_cast<std::byte*>(transfer.out);
    const int64_t bytes = transfer.count * static_cast<int64_t>(SizeOf(transfer.dtype));
    if (bytes == 0) return {};
    if (transfer.copies > 1) return Gather(in, out, bytes, transfer.copies);
    std::vector<Copy> copies;
    const int64_t part = (bytes + kPieces - 1) / kPieces;
    const int64_t piece = std::min(kScratch, (part + kAligned - 1) / kAligned * kAligned);
    auto* const scratch = static_cast<std::byte*>(scratch_.get());
    for (int64_t at = 0; at < bytes; at += piece) {
      const int64_t size = std::min(piece, bytes - at);
      std::byte* const aside = scratch + at % (kScratch - size + 1) / kAligned * kAligned;
      copies.push_back({in == out ? aside : out + at, in + at, size});
    }
    return copies;
  }

  // Enqueues copies to the host for the time that is due, if that is long enough for one.
  cudaError_t Pass(double* due, cudaStream_t stream) {
    while (*due > pace_.to_host.nanoseconds) {
      const double wanted = (*due - pace_.to_host.nanoseconds) * pace_.to_host.bytes_per_nanosecond;
      const int64_t bytes = std::min(kScratch, static_cast<int64_t>(wanted));
      if (bytes == 0) break;
      const cudaError_t error = cudaMemcpyAsync(
          host_.get(), scratch_.get(), static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream);
      if (error != cudaSuccess) return error;
      *due -= pace_.to_host.nanoseconds +
              static_cast<double>(bytes) / pace_.to_host.bytes_per_nanosecond;
    }
    return cudaSuccess;
  }

  cudaError_t Measure() {
    cudaStream_t made = nullptr;
    if (const cudaError_t error = cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, 0);
        error != cudaSuccess)
      return error;
    const std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream> stream(made);
    auto* const device = static_cast<std::byte*>(scratch_.get());
    cudaError_t error =
        RateOf(device + kLarge, device, cudaMemcpyDeviceToDevice, made, &pace_.within);
    if (error == cudaSuccess)
      error = RateOf(host_.get(), device, cudaMemcpyDeviceToHost, made, &pace_.to_host);
    return error;
  }

  // Measures two sizes, each at its fastest, because a transfer must not end before its time.
  static cudaError_t RateOf(void* to, const void* from, cudaMemcpyKind kind, cudaStream_t stream,
                            CopyRate* rate) {
    double fastest[2] = {1e18, 1e18};
    for (int i = 0; i < 2 * kRepeats + 2; ++i) {
      cudaEvent_t ends[2] = {};
      cudaError_t error = cudaEventCreateWithFlags(&ends[0], 0);
      const Event begin(ends[0]);
      if (error == cudaSuccess) error = cudaEventCreateWithFlags(&ends[1], 0);
      const Event end(ends[1]);
      if (error == cudaSuccess) error = cudaEventRecord(ends[0], stream);
      const auto bytes = static_cast<size_t>(i % 2 == 0 ? kSmall : kLarge);
      if (error == cudaSuccess) error = cudaMemcpyAsync(to, from, bytes, kind, stream);
      if (error == cudaSuccess) error = cudaEventRecord(ends[1], stream);
      if (error == cudaSuccess) error = cudaEventSynchronize(ends[1]);
      float milliseconds = 0;
      if (error == cudaSuccess) error = cudaEventElapsedTime(&milliseconds, ends[0], ends[1]);
      if (error != cudaSuccess) return error;
      if (i >= 2) fastest[i % 2] = std::min(fastest[i % 2], double{milliseconds} * 1e6);
    }
    const double more = std::max(fastest[1] - fastest[0], 1.0);
    rate->bytes_per_nanosecond = static_cast<double>(kLarge - kSmall) / more;
    rate->nanoseconds =
        std::max(0.0, fastest[0] - static_cast<double>(kSmall) / rate->bytes_per_nanosecond);
    return cudaSuccess;
  }

  std::unique_ptr<void, FreeDevice> scratch_;
  std::unique_ptr<void, FreeHost> host_;
  CopyPace pace_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinkCopies>> LinkCopies::Create(std::optional<CopyPace> pace) {
  auto copies = std::make_unique<Copies>();
  const cudaError_t error = copies->Prepare(pace);
  if (error == cudaSuccess) return copies;
  return absl::UnavailableError(cudaGetErrorString(error));
}

}  // namespace stretto
