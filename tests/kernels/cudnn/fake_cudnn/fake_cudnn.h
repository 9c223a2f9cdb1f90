// SPDX-License-Identifier: Apache-2.0
#pragma once
// A cuDNN made of the CPU: it computes operation graphs one operation after the other, by the
// definition of each, in the types and strides that tensors have. It checks what its callers pass
// (attributes of the right type, set before the descriptor is finalized, of finalized descriptors)
// and answers CUDNN_STATUS_BAD_PARAM where they are wrong. One thread at a time.

#include <cudnn_graph.h>

#include <functional>
#include <vector>

namespace fake_cudnn {

// What it proposes for a graph.
struct Engine {
  bool varies = false;  // says that its numbers do
  bool compiles = true;
  int64_t bytes_per_score = 2;  // of workspace, for backward
};

struct Faults {
  size_t version = 91900;
  bool handle = true, stream = true;     // whether there is one
  bool forward = true, backward = true;  // whether such graphs are supported
  std::vector<Engine> engines = {Engine()};
  int executions = -1;     // that succeed, forward and backward; -1: all
  float factor = 1;        // on every result but the logs
  float log_offset = 0;    // on these
  bool bits_vary = false;  // between runs
};

// A new world: no faults, nothing counted. Work is passed to `enqueue`.
void Reset(std::function<void(cudaStream_t, std::function<void()>)> enqueue);
void Set(const Faults& faults);

struct Counts {
  int plans = 0, forward = 0, backward = 0;  // plans made, launches
};
Counts CountsSoFar();
// Handles and descriptors that were not given back.
int Live();

}  // namespace fake_cudnn
