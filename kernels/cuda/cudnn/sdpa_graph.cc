// SPDX-License-Identifier: Apache-2.0

// Builds the operation graphs with cuDNN's backend descriptors. Graph has one method per kind of
// tensor and of operation, each of which adds a descriptor; the two functions at the end write
// forward and backward in these terms.

#include "kernels/cuda/cudnn/sdpa_graph.h"

#include <vector>

namespace stretto::cuda {
namespace {

using Sizes = std::vector<int64_t>;
using Tensor = Descriptor;

constexpr auto kF32 = CUDNN_DATA_FLOAT;
constexpr auto kBF16 = CUDNN_DATA_BFLOAT16;
constexpr auto kI32 = CUDNN_DATA_INT32;
constexpr auto kBool = CUDNN_DATA_BOOLEAN;

// Returns the dense strides of sizes.
Sizes Dense(const Sizes& sizes) {
  Sizes strides(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}

// Exchanges the last two dimensions of sizes or strides.
Sizes Turned(Sizes of) {
  std::swap(of[2], of[3]);
  return of;
}

class Graph {
 public:
  Graph(const SdpaShape& shape, Descriptors* descriptors) : shape_(shape), made_(*descriptors) {}

  // Tensors in memory.
  Tensor InQkv(SdpaTensor id, bool of_queries, bool turned = false) {
    const Sizes sizes = {shape_.kv_heads, of_queries ? shape_.group : 1, shape_.length,
                         shape_.head_dim};
    const Sizes strides = {shape_.kv_columns(), of_queries ? shape_.head_dim : shape_.kv_columns(),
                           shape_.qkv_columns(), 1};
    if (turned) return Real(id, kBF16, Turned(sizes), Turned(strides), 16);
    return Real(id, kBF16, sizes, strides, 16);
  }
  Tensor InContext(SdpaTensor id) {
    return Real(id, kBF16, PerQuery(shape_.head_dim),
                {shape_.group * shape_.head_dim, shape_.head_dim, shape_.context_columns(), 1}, 16);
  }
  Tensor Lse() {
    return Real(kLse, kF32, PerQuery(1), {shape_.group * shape_.length, shape_.length, 1, 1}, 4);
  }
  Tensor RowSums() { return Real(kRowSums, kF32, PerQuery(1), Dense(PerQuery(1)), 16); }
  Tensor Scalar(SdpaTensor id) {
    return Make(id, kF32, {1, 1, 1, 1}, {1, 1, 1, 1}, 4, /*is_virtual=*/false, /*by_value=*/true);
  }

  // Tensors between operations.
  Tensor Scores(cudnnDataType_t type = kF32) { return Virtual(type, PerQuery(shape_.length)); }
  Tensor ScoresTurned() {
    return Virtual(kBF16, PerQuery(shape_.length), Turned(Dense(PerQuery(shape_.length))));
  }
  Tensor Rows() { return Virtual(kF32, PerQuery(1)); }
  Tensor Products() { return Virtual(kF32, PerQuery(shape_.head_dim)); }
  Tensor KeyGradsOfQueries() { return Virtual(kBF16, PerQuery(shape_.head_dim)); }
  Tensor Keys() {
    return Virtual(kBF16, {shape_.kv_heads, 1, shape_.length, shape_.head_dim},
                   {shape_.kv_columns(), shape_.kv_columns(), shape_.qkv_columns(), 1});
  }

  // Operations; each returns the tensor that it writes.
  Tensor Matmul(Tensor a, Tensor b, Tensor y) {
    const Descriptor matmul = made_.Make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    made_.Set(matmul, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, kF32);
    made_.Finalize(matmul);
    const Descriptor operation = made_.Make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    made_.Set(operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul);
    made_.Set(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    made_.Set(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    made_.Set(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
    return Add(operation, y);
  }
  Tensor Unary(cudnnPointwiseMode_t mode, Tensor x, Tensor y) {
    return Pointwise({.mode = mode, .x = x, .y = y});
  }
  Tensor Binary(cudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor y) {
    return Pointwise({.mode = mode, .x = x, .b = b, .y = y});
  }
  Tensor Reduce(cudnnReduceTensorOp_t with, Tensor x, Tensor y) {
    const Descriptor reduction = made_.Make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    made_.Set(reduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, with);
    made_.Set(reduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, kF32);
    made_.Set(reduction, CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, CUDNN_TYPE_BOOLEAN, true);
    made_.Finalize(reduction);
    const Descriptor operation = made_.Make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    made_.Set(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
    made_.Set(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    made_.Set(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    return Add(operation, y);
  }
  // Returns the memory of x with the sizes and strides of y.
  Tensor Reshape(Tensor x, Tensor y) {
    const Descriptor operation = made_.Make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    made_.Set(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    made_.Set(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    return Add(operation, y);
  }
  // Sets the scores of keys after the query to minus infinity.
  Tensor Masked(Tensor scores) {
    const Tensor query =
        Pointwise({.mode = CUDNN_POINTWISE_GEN_INDEX, .x = scores, .y = Scores(kI32), .axis = 2});
    const Tensor key =
        Pointwise({.mode = CUDNN_POINTWISE_GEN_INDEX, .x = scores, .y = Scores(kI32), .axis = 3});
    const Tensor seen = Pointwise({.mode = CUDNN_POINTWISE_CMP_GE,
                                   .x = query,
                                   .b = key,
                                   .y = Scores(kBool),
                                   .precision = kBool});
    return Pointwise({.mode = CUDNN_POINTWISE_BINARY_SELECT,
                      .x = scores,
                      .b = Scalar(kMinusInfinity),
                      .where = seen,
                      .y = Scores()});
  }

  Descriptor Finalized(cudnnHandle_t handle) {
    const Descriptor graph = made_.Make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    made_.Set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_);
    if (handle != nullptr)
      made_.Set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
    made_.Finalize(graph);
    return made_.status().ok() ? graph : nullptr;
  }

 private:
  struct PointwiseCall {
    cudnnPointwiseMode_t mode;
    Tensor x = nullptr, b = nullptr, where = nullptr, y = nullptr;
    int64_t axis = -1;
    cudnnDataType_t precision = kF32;
  };

  Tensor Pointwise(const PointwiseCall& call) {
    const Descriptor pointwise = made_.Make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    made_.Set(pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, call.mode);
    made_.Set(pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, call.precision);
    if (call.axis >= 0)
      made_.Set(pointwise, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, call.axis);
    made_.Finalize(pointwise);
    const Descriptor operation = made_.Make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    made_.Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    made_.Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, call.x);
    if (call.b != nullptr) made_.Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, call.b);
    if (call.where != nullptr)
      made_.Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, call.where);
    made_.Set(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, call.y);
    return Add(operation, call.y);
  }

  Tensor Add(Descriptor operation, Tensor y) {
    operations_.push_back(made_.Finalize(operation));
    return y;
  }

  Sizes PerQuery(int64_t columns) const {
    return {shape_.kv_heads, shape_.group, shape_.length, columns};
  }
  Tensor Real(SdpaTensor id, cudnnDataType_t type, const Sizes& sizes, const Sizes& strides,
              int64_t alignment) {
    return Make(id, type, sizes, strides, alignment, /*is_virtual=*/false, /*by_value=*/false);
  }
  Tensor Virtual(cudnnDataType_t type, const Sizes& sizes) {
    return Virtual(type, sizes, Dense(sizes));
  }
  Tensor Virtual(cudnnDataType_t type, const Sizes& sizes, const Sizes& strides) {
    return Make(next_id_++, type, sizes, strides, 16, /*is_virtual=*/true, /*by_value=*/false);
  }
  Tensor Make(int64_t id, cudnnDataType_t type, const Sizes& sizes, const Sizes& strides,
              int64_t alignment, bool is_virtual, bool by_value) {
    const Tensor tensor = made_.Make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made_.Set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
    made_.Set(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    made_.Set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes);
    made_.Set(tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
    made_.Set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
    made_.Set(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
    if (by_value) made_.Set(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
    return made_.Finalize(tensor);
  }

  const SdpaShape shape_;
  Descriptors& made_;
  std::vector<Descriptor> operations_;
  int64_t next_id_ = kSdpaTensors;
};

}  // namespace

Descriptor ForwardGraph(const SdpaShape& shape, cudnnHandle_t handle, Descriptors* descriptors) {
  Graph g(shape, descriptors);
  const Tensor products = g.Matmul(g.InQkv(kQuery, true), g.InQkv(kKey, false, true), g.Scores());
  const Tensor scaled = g.Binary(CUDNN_POINTWISE_MUL, products, g.Scalar(kScale), g.Scores());
  const Tensor scores = g.Masked(scaled);

  const Tensor most = g.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, g.Rows());
  const Tensor below = g.Binary(CUDNN_POINTWISE_SUB, scores, most, g.Scores());
  const Tensor powers = g.Unary(CUDNN_POINTWISE_EXP, below, g.Scores());
  const Tensor sum = g.Reduce(CUDNN_REDUCE_TENSOR_ADD, powers, g.Rows());
  const Tensor log = g.Unary(CUDNN_POINTWISE_LOG, sum, g.Rows());
  g.Binary(CUDNN_POINTWISE_ADD, most, log, g.Lse());
  const Tensor probabilities = g.Binary(CUDNN_POINTWISE_DIV, powers, sum, g.Scores(kBF16));
  g.Matmul(probabilities, g.InQkv(kValue, false), g.InContext(kContext));
  return g.Finalized(handle);
}

Descriptor BackwardGraph(const SdpaShape& shape, cudnnHandle_t handle, Descriptors* descriptors) {
  Graph g(shape, descriptors);
  const Tensor query = g.InQkv(kQuery, true), key_turned = g.InQkv(kKey, false, true);
  const Tensor dcontext = g.InContext(kDContext), scale = g.Scalar(kScale);

  // The factor of one is part of the pattern that cuDNN recognises.
  const Tensor both = g.Binary(CUDNN_POINTWISE_MUL, dcontext, g.InContext(kContext), g.Products());
  const Tensor sums = g.Reduce(CUDNN_REDUCE_TENSOR_ADD, both, g.Rows());
  const Tensor row_sums = g.Binary(CUDNN_POINTWISE_MUL, sums, g.Scalar(kOne), g.RowSums());

  const Tensor products = g.Matmul(query, key_turned, g.Scores());
  const Tensor scaled = g.Binary(CUDNN_POINTWISE_MUL, products, scale, g.Scores());
  const Tensor logs = g.Binary(CUDNN_POINTWISE_SUB, scaled, g.Lse(), g.Scores());
  const Tensor probabilities = g.Unary(CUDNN_POINTWISE_EXP, g.Masked(logs), g.Scores());

  // The gradient of a key/value head is the sum over its queries.
  const auto key_grad = [&](Tensor weights, Tensor rows, SdpaTensor id) {
    const Tensor turned = g.Reshape(weights, g.ScoresTurned());
    if (shape.group == 1) {
      g.Matmul(turned, rows, g.InQkv(id, false));
      return;
    }
    const Tensor of_queries = g.Matmul(turned, rows, g.KeyGradsOfQueries());
    g.Reduce(CUDNN_REDUCE_TENSOR_ADD, of_queries, g.InQkv(id, false));
  };
  key_grad(probabilities, dcontext, kDValue);

  const Tensor dprobabilities = g.Matmul(dcontext, g.InQkv(kValue, false, true), g.Scores());
  const Tensor centred = g.Binary(CUDNN_POINTWISE_SUB, dprobabilities, row_sums, g.Scores());
  const Tensor weighted = g.Binary(CUDNN_POINTWISE_MUL, centred, probabilities, g.Scores());
  const Tensor dscores = g.Binary(CUDNN_POINTWISE_MUL, weighted, scale, g.Scores());
  key_grad(dscores, query, kDKey);
  g.Matmul(dscores, g.Reshape(key_turned, g.Keys()), g.InQkv(kDQuery, true));
  return g.Finalized(handle);
}

}  // namespace stretto::cuda
