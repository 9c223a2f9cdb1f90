// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention by cuDNN's fused kernels, for the shapes for which they were measured to be faster.
//
// The first call of a shape (AttentionKey) decides for all later ones. If `tunings` has no times
// for the shape, cuDNN is tried on random numbers: its results must agree with those of our
// kernels, be bitwise repeatable, and be the same for slices of the batch as for the whole; then
// both are timed. That takes up to seconds and memory, so it does not happen while the stream is
// being captured: a shape first met during capture stays with our kernels, as does one that cuDNN
// does not support, that needs more workspace than there is, or whose launch fails. Run a step once
// before capturing it. Later calls allocate nothing on the device.
//
// One plan serves all numbers of sequences: it computes one sequence (and in backward as many of
// its heads as the workspace allows) and is launched once for each, so the bits of a sequence
// cannot depend on other sequences.

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
  // Memory of the device, aligned to 256, which belongs to the stream; at least
  // kCudaWorkspaceBytes. Backward needs 2 * length^2 bytes for each head of a launch.
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
  // The choices for this device, borrowed; several streams may share them from one thread.
  // Measurements change them, and the caller stores them.
  cuda::Tunings* tunings = nullptr;
  std::string library = "libcudnn.so.9";  // its path, or its name for the loader to find
  // The approximate number of tokens to measure; at least two sequences are measured.
  int64_t pinned_tokens = 4096;
  // When false, use cuDNN only for shapes in `tunings`.
  bool tune = true;
  // Receives a sentence for every decision, with the reason, for a log.
  std::function<void(absl::string_view)> report;
};

// Makes attention on the current device. Errors: NotFound (no library), FailedPrecondition (the
// wrong one), Unavailable with the library's message. Callers log the error and use our own
// kernels.
absl::StatusOr<std::unique_ptr<FusedAttention>> MakeCudnnAttention(CudnnAttentionOptions options);

// Returns the version of the library as in AttentionKey: 91900 for 9.19.0. Errors: NotFound,
// FailedPrecondition.
absl::StatusOr<int64_t> CudnnVersion(const std::string& library);

}  // namespace stretto
