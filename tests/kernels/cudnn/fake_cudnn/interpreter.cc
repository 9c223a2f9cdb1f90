// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cudnn/fake_cudnn/interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/bf16.h"
#include "proto/base/check.h"

namespace fake_cudnn {
namespace {

using stretto::BF16;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float Rounded(float value, cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 ? stretto::ToFloat(stretto::ToBF16(value)) : value;
}

void ForEach(const Four& sizes, const std::function<void(const Four&)>& body) {
  Four at = {};
  for (at[0] = 0; at[0] < sizes[0]; ++at[0])
    for (at[1] = 0; at[1] < sizes[1]; ++at[1])
      for (at[2] = 0; at[2] < sizes[2]; ++at[2])
        for (at[3] = 0; at[3] < sizes[3]; ++at[3]) body(at);
}

int64_t Offset(const TensorInfo& tensor, const Four& at) {
  int64_t offset = 0;
  for (size_t i = 0; i < 4; ++i) offset += at[i] * tensor.strides[i];
  return offset;
}

class Machine {
 public:
  explicit Machine(const Call& call) : call_(call) {}

  void Do(const Operation& operation) {
    switch (operation.kind) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return Matmul(operation);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return Reduce(operation);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return Reshape(operation);
      default:  // any other of the vendor's
        return Pointwise(operation);
    }
  }

 private:
  // The element at an offset of the tensor's memory.
  float Load(const TensorInfo& tensor, int64_t offset) {
    if (tensor.by_value) return call_.scalars.at(tensor.id);
    if (tensor.is_virtual) return Virtual(tensor)[static_cast<size_t>(offset)];
    const void* memory = call_.addresses.at(tensor.id);
    if (tensor.type == CUDNN_DATA_BFLOAT16)
      return stretto::ToFloat(static_cast<const BF16*>(memory)[offset]);
    return static_cast<const float*>(memory)[offset];
  }
  // One that a smaller tensor repeats along its dimensions of size 1.
  float At(const TensorInfo& tensor, Four at, const Four& of) {
    for (size_t i = 0; i < 4; ++i) {
      STRETTO_CHECK(tensor.sizes[i] == of[i] || tensor.sizes[i] == 1);
      if (tensor.sizes[i] == 1) at[i] = 0;
    }
    return Load(tensor, Offset(tensor, at));
  }
  void Store(const TensorInfo& tensor, int64_t offset, float value) {
    if (tensor.is_virtual) {
      Virtual(tensor)[static_cast<size_t>(offset)] = Rounded(value, tensor.type);
      return;
    }
    void* memory = call_.addresses.at(tensor.id);
    if (tensor.type == CUDNN_DATA_BFLOAT16) {
      static_cast<BF16*>(memory)[offset] = stretto::ToBF16(value * call_.factor);
    } else {
      static_cast<float*>(memory)[offset] = value + call_.log_offset;
    }
  }
  std::vector<float>& Virtual(const TensorInfo& tensor) {
    std::vector<float>& values = virtual_[tensor.id];
    values.resize(static_cast<size_t>(tensor.span()), kNan);
    return values;
  }

  void Matmul(const Operation& o) {
    ForEach(o.y.sizes, [&](const Four& at) {
      float sum = 0;
      for (int64_t k = 0; k < o.x.sizes[3]; ++k) {
        const Four left = {at[0], at[1], at[2], k}, right = {at[0], at[1], k, at[3]};
        sum += At(o.x, left, {o.y.sizes[0], o.y.sizes[1], o.y.sizes[2], o.x.sizes[3]}) *
               At(o.b, right, {o.y.sizes[0], o.y.sizes[1], o.x.sizes[3], o.y.sizes[3]});
      }
      Store(o.y, Offset(o.y, at), sum);
    });
  }
  void Reduce(const Operation& o) {
    const bool adds = o.mode == CUDNN_REDUCE_TENSOR_ADD;
    const float start = adds ? 0 : -std::numeric_limits<float>::infinity();
    std::vector<float> results(static_cast<size_t>(o.y.span()), start);
    const auto to = [&](Four at) {
      for (size_t i = 0; i < 4; ++i) at[i] = std::min(at[i], o.y.sizes[i] - 1);
      return Offset(o.y, at);
    };
    ForEach(o.x.sizes, [&](const Four& at) {
      float& result = results[static_cast<size_t>(to(at))];
      const float value = Load(o.x, Offset(o.x, at));
      result = adds ? result + value : std::max(result, value);
    });
    ForEach(o.y.sizes, [&](const Four& at) {
      Store(o.y, Offset(o.y, at), results[static_cast<size_t>(Offset(o.y, at))]);
    });
  }
  void Reshape(const Operation& o) {
    ForEach(o.y.sizes, [&](const Four& at) {
      const int64_t offset = Offset(o.y, at);
      Store(o.y, offset, Load(o.x, offset));
    });
  }
  void Pointwise(const Operation& o) {
    ForEach(o.y.sizes, [&](const Four& at) {
      const auto x = [&] { return At(o.x, at, o.y.sizes); };
      const auto b = [&] { return At(o.b, at, o.y.sizes); };
      float value = kNan;
      switch (o.mode) {
        case CUDNN_POINTWISE_ADD:
          value = x() + b();
          break;
        case CUDNN_POINTWISE_MUL:
          value = x() * b();
          break;
        case CUDNN_POINTWISE_SUB:
          value = x() - b();
          break;
        case CUDNN_POINTWISE_DIV:
          value = x() / b();
          break;
        case CUDNN_POINTWISE_EXP:
          value = std::exp(x());
          break;
        case CUDNN_POINTWISE_LOG:
          value = std::log(x());
          break;
        case CUDNN_POINTWISE_CMP_GE:
          value = x() >= b() ? 1 : 0;
          break;
        case CUDNN_POINTWISE_GEN_INDEX:
          value = static_cast<float>(at[static_cast<size_t>(o.axis)]);
          break;
        case CUDNN_POINTWISE_BINARY_SELECT:
          value = At(o.where, at, o.y.sizes) != 0 ? x() : b();
          break;
        default:  // any other of the vendor's
          break;
      }
      Store(o.y, Offset(o.y, at), value);
    });
  }

  const Call& call_;
  std::map<int64_t, std::vector<float>> virtual_;
};

}  // namespace

int64_t TensorInfo::span() const {
  int64_t last = 0;
  for (size_t i = 0; i < 4; ++i) last += (sizes[i] - 1) * strides[i];
  return last + 1;
}

void Run(const Program& program, const Call& call) {
  Machine machine(call);
  for (const Operation& operation : program) machine.Do(operation);
}

}  // namespace fake_cudnn
