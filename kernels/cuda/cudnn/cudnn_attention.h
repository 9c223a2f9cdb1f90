// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention by cuDNN's fused kernels, for the shapes for which they were measured to be faster
// (kernels/cuda/attention_choice). A launch computes one sequence with all its heads, so the bits
// of a sequence cannot depend on other sequences.

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
  // kCudaWorkspaceBytes of the device, aligned to 256, which belong to the stream. The backward
  // pass has its memory in the scratch of each call (LibraryScratch).
  void* workspace = nullptr;
  // As in ChosenAttentionOptions.
  cuda::Tunings* tunings = nullptr;
  bool repeatable = false;
  int64_t pinned_tokens = 4096;
  bool tune = true;
  std::function<void(absl::string_view)> report = {};
  std::string library = "libcudnn.so.9";  // its path, or its name for the loader to find
};

// Makes attention on the current device. Errors: NotFound (no library), FailedPrecondition (the
// wrong one), Unavailable with the library's message. Callers log the error and use our own
// kernels.
absl::StatusOr<std::unique_ptr<FusedAttention>> MakeCudnnAttention(CudnnAttentionOptions options);

// Returns the version of the library as in AttentionKey: 91900 for 9.19.0. Errors: NotFound,
// FailedPrecondition.
absl::StatusOr<int64_t> CudnnVersion(const std::string& library);

}  // namespace stretto
