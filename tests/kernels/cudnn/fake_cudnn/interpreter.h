// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs an operation graph on the CPU.

#include <cudnn_graph.h>

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace fake_cudnn {

using Four = std::array<int64_t, 4>;

struct TensorInfo {
  int64_t id = -1;  // none
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Four sizes = {1, 1, 1, 1}, strides = {1, 1, 1, 1};
  bool is_virtual = false, by_value = false;

  // Elements from the first to the last.
  int64_t span() const;
};

struct Operation {
  cudnnBackendDescriptorType_t kind;
  int mode = 0;  // cudnnPointwiseMode_t or cudnnReduceTensorOp_t
  int64_t axis = 0;
  TensorInfo x, b, where, y;  // matmul: x times b
};

using Program = std::vector<Operation>;

// Addresses by id; scalars' values by id. Results are multiplied by `factor`, those with one column
// get `log_offset` added.
struct Call {
  std::map<int64_t, void*> addresses;
  std::map<int64_t, float> scalars;
  float factor = 1, log_offset = 0;
};
void Run(const Program& program, const Call& call);

}  // namespace fake_cudnn
