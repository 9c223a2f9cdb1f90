// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix products by cuBLASLt.
//
// The first call of a shape builds its descriptors, takes the algorithm from `tunings`, and where
// none is known asks the library and times what it proposes on the real shape, beta and SM target,
// with random numbers that do not fit the cache. That waits for the device and takes memory, so it
// does not happen while the stream is being captured: then the library's first proposal is used.
// Run a step once before capturing it. Later calls allocate nothing.
//
// f32 products are f32 throughout (no TF32); bf16 products add in f32.
//
// GELU and its gradient are kernels of their own here, not epilogues: an epilogue rounds otherwise
// than the kernel that recomputes it.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/tuning/tunings.h"

namespace stretto {

inline constexpr size_t kProductsWorkspaceBytes = size_t{32} << 20;

struct CublasLtOptions {
  void* stream = nullptr;     // cudaStream_t
  void* workspace = nullptr;  // kProductsWorkspaceBytes of the device, aligned to 256; the stream's
  // Choices of this device, borrowed; several streams may share it from one thread. It is changed
  // by what is measured, the caller stores it: told of every new choice, before it is used.
  cuda::Tunings* tunings = nullptr;
  std::function<void()> on_choice = {};  // may be empty
  // One algorithm, without split sums, for all numbers of tokens and all SM limits, so that slices
  // of a batch give the bits of the whole (kernels/ops.h). Without it each shape has its fastest.
  bool pin = true;
  // The number of tokens that a pinned algorithm is chosen for.
  int64_t pinned_tokens = 4096;
  // Off: the library's first proposal.
  bool tune = true;
  // How long measuring waits for what is on the stream, which may wait for a peer that is gone.
  std::chrono::milliseconds patience = std::chrono::minutes(5);
};

// On the current device. Errors: Unavailable with the library's words.
absl::StatusOr<std::unique_ptr<MatrixProducts>> MakeCublasLtProducts(
    const CublasLtOptions& options);

// An empty store for the current device and the library that is loaded.
absl::StatusOr<cuda::Tunings> TuningsOfDevice();

}  // namespace stretto
