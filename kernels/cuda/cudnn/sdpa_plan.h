// SPDX-License-Identifier: Apache-2.0
#pragma once
// A pass of causal attention over sequences, all heads at once, as a graph of cuDNN's frontend
// (https://docs.nvidia.com/deeplearning/cudnn/frontend/latest, "Attention") that is compiled for a
// device.
//
// The interleaved rows of qkv (kernels/ops.h) are read where they are. Where each query has a key
// of its own, or all have one, heads have one stride, and sequences are cuDNN's batch. Otherwise a
// pass has one sequence, the key/value heads are cuDNN's batch, and the queries of one are its
// heads.

#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/attention_choice/attention_trial.h"

// Declared here so that one source alone includes the frontend's 38,000 lines.
namespace cudnn_frontend::graph {
class Graph;
}

namespace stretto::cuda {

// The device to make plans for: that of the handle or, without a handle, one with these properties
// (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Plans of the latter cannot run.
struct SdpaDevice {
  cudnnHandle_t handle = nullptr;
  int capability = 0;  // 90 for compute capability 9.0
  std::string properties = {};
};

struct SdpaPass {
  AttentionShape shape;
  bool backward = false;
  // Of backward. Otherwise its gradients of queries are f32 sums by atomics, whose order varies.
  bool repeatable = false;
  int64_t sequences = 1;  // at most LibrarySequences
};

class SdpaPlan {
 public:
  // Takes the first engine that the library proposes. Takes up to seconds, because kernels are
  // compiled. Errors: Unimplemented (not supported), ResourceExhausted (needs more than
  // `workspace_bytes`), Unavailable.
  static absl::StatusOr<SdpaPlan> Make(const SdpaDevice& device, const SdpaPass& pass,
                                       int64_t workspace_bytes);

  int64_t workspace_bytes() const { return workspace_bytes_; }  // on the device, aligned to 256

  // Enqueues the pass for its number of sequences on the handle's stream. Errors: Unavailable.
  absl::Status Run(cudnnHandle_t handle, const AttentionTensors& sequences, void* workspace) const;

 private:
  SdpaPass pass_;
  std::shared_ptr<cudnn_frontend::graph::Graph> graph_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace stretto::cuda
