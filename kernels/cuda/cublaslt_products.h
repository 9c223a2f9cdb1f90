// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix products by cuBLASLt.
//
// The first call of a shape builds its descriptors and takes the algorithm from `tunings`. If none
// is known, it asks the library for proposals and times them on the real shape, beta and SM target,
// with random numbers that do not fit into the cache. That waits for the device and allocates
// memory, so it does not happen while the stream is being captured: then the library's first
// proposal is used. Run a step once before capturing it. Later calls allocate nothing.
//
// Collectives take SMs from products that run at the same time. A kernel with as many blocks as the
// device has SMs then takes twice as long, where one of other tiles loses little. So with `company`
// an algorithm is chosen by its time alone plus its time beside that company.
//
// f32 products are f32 throughout (no TF32); bf16 products add in f32.
//
// GELU and its gradient are separate kernels here, not epilogues: an epilogue rounds differently
// from the kernel that recomputes it.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/tuning/tunings.h"

namespace stretto {

inline constexpr size_t kProductsWorkspaceBytes = size_t{32} << 20;

// What takes SMs from products while a collective runs.
struct ProductCompany {
  int sms_left = 0;  // for products, as in LimitSms; 0: there is no company
  // Enqueues a kernel on the cudaStream_t that takes the other SMs for that long. Returns null, or
  // why it cannot.
  std::function<const char*(std::chrono::nanoseconds hold, void* stream)> begin;
};

struct CublasLtOptions {
  void* stream = nullptr;     // cudaStream_t
  void* workspace = nullptr;  // kProductsWorkspaceBytes on the device, aligned to 256; the stream's
  // The choices for this device, borrowed; several streams may share them from one thread.
  // Measurements change them, and the caller stores them: on_choice is called for every new choice,
  // before it is used.
  cuda::Tunings* tunings = nullptr;
  std::function<void()> on_choice = {};  // may be empty
  // Use one algorithm, without split sums, for all numbers of tokens and all SM limits, so that
  // slices of a batch are bitwise equal to the whole (kernels/ops.h). Otherwise each shape has its
  // fastest.
  bool pin = true;
  // Of a pinned algorithm, chosen for both.
  ProductCompany company = {};
  // The number of tokens for which a pinned algorithm is chosen.
  int64_t pinned_tokens = 4096;
  // When false, use the library's first proposal.
  bool tune = true;
  // How long a measurement waits for earlier work on the stream, which may wait for a lost peer.
  std::chrono::milliseconds patience = std::chrono::minutes(5);
};

// Makes products on the current device. Errors: Unavailable with the library's message.
absl::StatusOr<std::unique_ptr<MatrixProducts>> MakeCublasLtProducts(
    const CublasLtOptions& options);

// Returns an empty store for the current device and the loaded library.
absl::StatusOr<cuda::Tunings> TuningsOfDevice();

}  // namespace stretto
