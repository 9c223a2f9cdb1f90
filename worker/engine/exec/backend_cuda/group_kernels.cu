// SPDX-License-Identifier: Apache-2.0

// Collectives among ranks on one device, as plain kernels over the buffers of all ranks. Each
// thread reads an element of every rank in rank order, combines them in f32 and writes the result
// to all outputs that need it, so the sum is bitwise equal on every rank and in every schedule.

#include <algorithm>

#include "kernels/bf16.h"
#include "worker/engine/exec/backend_cuda/group_kernels.h"

namespace stretto::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1024;

// The kernels' argument: the first element, of type T, of every rank's operands.
template <class T>
struct Pointers {
  int ranks;
  const T* in[kMaxLocalRanks];
  T* out[kMaxLocalRanks];
};

struct Exact {
  template <class T>
  __device__ T operator()(T value) const {
    return value;
  }
};
struct Narrow {
  __device__ float operator()(float value) const { return ToFloat(ToBF16(value)); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
// A NaN wins over any number.
struct Max {
  __device__ float operator()(float a, float b) const { return b > a || b != b ? b : a; }
};

template <class T, class Combine, class Wire>
__device__ T Reduced(const Pointers<T>& p, int64_t i, Combine combine, Wire wire) {
  float total = wire(ToFloat(p.in[0][i]));
  for (int r = 1; r < p.ranks; ++r) total = combine(total, wire(ToFloat(p.in[r][i])));
  return FromFloat<T>(wire(total));
}

// Every thread reads its element of all ranks before it writes, so outputs may be inputs.
template <class T, class Combine, class Wire>
__global__ void AllReduce(Pointers<T> p, int64_t count, Combine combine, Wire wire) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const T value = Reduced(p, i, combine, wire);
    for (int r = 0; r < p.ranks; ++r) p.out[r][i] = value;
  }
}

// Rank r receives elements [r * part, (r + 1) * part) of the sum.
template <class T, class Combine, class Wire>
__global__ void ReduceScatter(Pointers<T> p, int64_t part, Combine combine, Wire wire) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < part * p.ranks; i += step)
    p.out[i / part][i % part] = Reduced(p, i, combine, wire);
}

template <class T, class Wire>
__global__ void AllGather(Pointers<T> p, int64_t part, Wire wire) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < part * p.ranks; i += step) {
    const T value = FromFloat<T>(wire(ToFloat(p.in[i / part][i % part])));
    for (int r = 0; r < p.ranks; ++r) p.out[r][i] = value;
  }
}

// The first rank sends, and the others receive.
template <class T, class Wire>
__global__ void Broadcast(Pointers<T> p, int64_t count, Wire wire) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const T value = FromFloat<T>(wire(ToFloat(p.in[0][i])));
    for (int r = 1; r < p.ranks; ++r) p.out[r][i] = value;
  }
}

template <class From, class To>
__global__ void Convert(const From* from, To* to, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    to[i] = FromFloat<To>(ToFloat(from[i]));
}

template <class... P, class... A>
cudaError_t Launch(int64_t count, cudaStream_t stream, void (*kernel)(P...), A... args) {
  cudaLaunchConfig_t config = {};
  const int64_t blocks = std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks);
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...);
}

template <class T, class Combine, class Wire>
cudaError_t LaunchTyped(CollectiveKind kind, const GroupTensors& tensors, Combine combine,
                        Wire wire, cudaStream_t stream) {
  Pointers<T> p = {};
  p.ranks = tensors.ranks;
  for (int r = 0; r < tensors.ranks; ++r) {
    p.in[r] = tensors.in[r].as<const T>();
    p.out[r] = tensors.out[r].as<T>();
  }
  const int64_t in = tensors.in[0].count(), out = tensors.out[0].count();
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return Launch(in, stream, AllReduce<T, Combine, Wire>, p, in, combine, wire);
    case CollectiveKind::kReduceScatter:
      return Launch(in, stream, ReduceScatter<T, Combine, Wire>, p, out, combine, wire);
    case CollectiveKind::kAllGather:
      return Launch(out, stream, AllGather<T, Wire>, p, in, wire);
    case CollectiveKind::kBroadcast:
      return Launch(in, stream, Broadcast<T, Wire>, p, in, wire);
    case CollectiveKind::kBarrier:
      break;
  }
  return cudaErrorInvalidValue;  // not on a device
}

template <class T, class Wire>
cudaError_t LaunchReducing(CollectiveKind kind, ReduceOp op, const GroupTensors& tensors, Wire wire,
                           cudaStream_t stream) {
  return op == ReduceOp::kMax ? LaunchTyped<T>(kind, tensors, Max{}, wire, stream)
                              : LaunchTyped<T>(kind, tensors, Sum{}, wire, stream);
}

}  // namespace

cudaError_t LaunchGroupCall(CollectiveKind kind, ReduceOp op, bool narrow,
                            const GroupTensors& tensors, cudaStream_t stream) {
  STRETTO_CHECK(tensors.ranks >= 1 && tensors.ranks <= kMaxLocalRanks);
  const DType dtype = tensors.in[0].dtype;
  STRETTO_CHECK(dtype != DType::kI32);
  if (dtype == DType::kBF16) return LaunchReducing<BF16>(kind, op, tensors, Exact{}, stream);
  if (narrow) return LaunchReducing<float>(kind, op, tensors, Narrow{}, stream);
  return LaunchReducing<float>(kind, op, tensors, Exact{}, stream);
}

cudaError_t LaunchConvert(TensorView from, TensorView to, cudaStream_t stream) {
  STRETTO_CHECK(from.count() == to.count());
  if (from.dtype == DType::kF32 && to.dtype == DType::kBF16) {
    return Launch(to.count(), stream, Convert<float, BF16>, from.as<const float>(), to.as<BF16>(),
                  to.count());
  }
  STRETTO_CHECK(from.dtype == DType::kBF16 && to.dtype == DType::kF32);
  return Launch(to.count(), stream, Convert<BF16, float>, from.as<const BF16>(), to.as<float>(),
                to.count());
}

}  // namespace stretto::cuda
