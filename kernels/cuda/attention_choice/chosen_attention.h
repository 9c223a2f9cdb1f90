// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention by a library's kernels, for the shapes for which they were measured to be faster.
//
// The first call of a shape (AttentionKey) decides for all later ones. If `tunings` has no times
// for the shape, the library is tried on random numbers (attention_trial.h); then both are timed.
// That takes up to seconds and memory, so it does not happen while the stream is being captured: a
// shape first met during capture stays with our kernels, as does one that the library does not
// support, that needs more scratch than there is, or whose launch fails. Run a step once before
// capturing it. Later calls allocate nothing on the device.
//
// A launch takes several sequences where one has few heads (LibrarySequences), unless the trial
// finds that a sequence's results depend on the others: then it takes one.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/attention_choice/attention_trial.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/tuning/tunings.h"

namespace stretto::cuda {

// A pass of attention of one shape by a library, ready to be launched.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  // Enqueues the pass for all sequences of the tensors. Errors: those of the launch.
  virtual absl::Status Run(const AttentionTensors& tensors) = 0;
};

struct ChosenAttentionOptions {
  void* stream = nullptr;  // cudaStream_t
  int sm_count = 0;        // of the device
  // kCudaWorkspaceBytes of the device, aligned to 256, for our kernels in trials.
  void* workspace = nullptr;
  // The choices for this device, borrowed; several streams may share them from one thread.
  // Measurements change them, and the caller stores them.
  Tunings* tunings = nullptr;
  std::string library;          // its name, for messages
  int64_t library_version = 0;  // as in AttentionKey
  // Whether the bits of a backward pass must be the same in every run.
  bool repeatable = false;
  // Makes the plan of a pass, of which a launch takes at most `together` sequences. Takes up to
  // seconds. Errors: Unimplemented (no such plan), ResourceExhausted (it needs more scratch than
  // calls of the shape have), Unavailable.
  std::function<absl::StatusOr<std::unique_ptr<AttentionPlan>>(const AttentionShape& shape,
                                                               bool backward, int64_t together)>
      make_plan;
  // The approximate number of tokens to measure; at least two sequences are measured.
  int64_t pinned_tokens = 4096;
  // When false, use the library only for shapes in `tunings`.
  bool tune = true;
  // Receives a sentence for every decision, with the reason, for a log; may be empty.
  std::function<void(absl::string_view)> report = {};
};

std::unique_ptr<FusedAttention> MakeChosenAttention(ChosenAttentionOptions options);

}  // namespace stretto::cuda
