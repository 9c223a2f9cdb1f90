// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention by cuDNN's fused kernels, for the shapes where they were measured to be the faster
// ones.
//
// The first call of a shape (AttentionKey) decides for all of them. Where `tunings` has no times
// for it, cuDNN is tried on random numbers: its results must agree with our kernels', repeat bit by
// bit, and be the same for slices of the batch as for the whole; then both are timed. That takes up
// to seconds and memory, so it does not happen while the stream is captured: a shape first met
// there stays with our kernels, as does one that cuDNN does not support, that needs more workspace
// than there is, or whose launch fails. Run a step once before capturing it. Later calls allocate
// nothing on the device.
//
// One plan serves all numbers of sequences: it computes one sequence (and as many of its heads as
// the workspace allows in backward) and is launched once for each, so the bits of a sequence cannot
// depend on those beside it.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/tuning/tunings.h"

namespace stretto {

struct CudnnAttentionOptions {
  void* stream = nullptr;  // cudaStream_t
  int sm_count = 0;        // of the device
  // Of the device, aligned to 256, the stream's; kCudaWorkspaceBytes or more. Backward wants
  // 2 * length^2 bytes for each head of a launch.
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
  // Choices of this device, borrowed; several streams may share it from one thread. It is changed
  // by what is measured, the caller stores it.
  cuda::Tunings* tunings = nullptr;
  std::string library = "libcudnn.so.9";  // its path, or its name for the loader to find
  // About how many tokens are measured; at least two sequences are.
  int64_t pinned_tokens = 4096;
  // Off: only shapes that `tunings` has.
  bool tune = true;
  // Gets a sentence for every decision, with the reason; for a log.
  std::function<void(absl::string_view)> report;
};

// On the current device. Errors: NotFound (no library), FailedPrecondition (the wrong one),
// Unavailable with the library's words. The caller logs one and goes on without.
absl::StatusOr<std::unique_ptr<FusedAttention>> MakeCudnnAttention(CudnnAttentionOptions options);

// Of the library, 91900 for 9.19.0: that of AttentionKey. Errors: NotFound, FailedPrecondition.
absl::StatusOr<int64_t> CudnnVersion(const std::string& library);

}  // namespace stretto
