// SPDX-License-Identifier: Apache-2.0

// Describes attention to cuDNN's frontend, which turns it into the operations that its fused
// kernels are found by, and compiles the first engine that the heuristics propose.

#include "kernels/cuda/cudnn/sdpa_plan.h"

#include <cudnn_frontend.h>

#include <exception>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/bf16.h"

namespace stretto::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Strides = std::vector<int64_t>;

enum Id : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kContext,
  kLse,
  kDContext,
  kDQuery,
  kDKey,
  kDValue,
};

absl::Status StatusOf(fe::error_t error) {
  if (error.is_good()) return absl::OkStatus();
  const std::string text = absl::StrCat("cuDNN: ", error.get_message());
  const bool unsupported =
      error.get_code() == fe::error_code_t::GRAPH_NOT_SUPPORTED ||
      error.get_code() == fe::error_code_t::HEURISTIC_QUERY_FAILED ||
      error.get_code() == fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED;
  return unsupported ? absl::UnimplementedError(text) : absl::UnavailableError(text);
}

// The frontend reports errors by value, but throws where a library or a function is missing.
template <class Call>
absl::Status Caught(const Call& call) {
  try {
    return StatusOf(call());
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("cuDNN: ", error.what()));
  }
}

// Adds the tensors and the operation of a pass to a graph.
class Description {
 public:
  Description(const SdpaPass& pass, fe::graph::Graph& graph) : pass_(pass), graph_(graph) {}

  void Add() {
    graph_.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const Tensor query = Input(Queries(kQuery)), key = Input(Keys(kKey)),
                 value = Input(Keys(kValue));
    if (pass_.backward) {
      AddBackward(query, key, value);
    } else {
      AddForward(query, key, value);
    }
  }

 private:
  using Attributes = fe::graph::Tensor_attributes;

  const AttentionShape& shape() const { return pass_.shape; }
  int64_t group() const { return shape().heads / shape().kv_heads; }
  // Whether the heads of queries, and those of keys, have one stride each, so that the batch can be
  // that of sequences.
  bool regular() const { return shape().kv_heads == 1 || group() == 1; }

  // Rows of `columns`, in which heads lie `head` apart; keys' heads lie `key_head` apart.
  Attributes Of(Id id, int64_t heads, int64_t columns, int64_t row, int64_t head,
                int64_t key_head) const {
    const int64_t length = shape().sequence_length;
    Attributes attributes;
    attributes.set_uid(id).set_data_type(id == kLse ? fe::DataType_t::FLOAT
                                                    : fe::DataType_t::BFLOAT16);
    if (regular()) {
      const int64_t sequence = id == kLse ? shape().heads * length : length * row;
      attributes.set_dim({pass_.sequences, shape().kv_heads * heads, length, columns})
          .set_stride({sequence, group() == 1 ? key_head : head, row, 1});
    } else {
      attributes.set_dim({shape().kv_heads, heads, length, columns})
          .set_stride({key_head, head, row, 1});
    }
    return attributes;
  }
  Attributes Queries(Id id) const { return InQkv(id, group()); }
  Attributes Keys(Id id) const { return InQkv(id, 1); }
  Attributes InQkv(Id id, int64_t heads) const {
    const int64_t d = shape().head_dim;
    return Of(id, heads, d, shape().qkv_columns(), d, (group() + 2) * d);
  }
  Attributes InContext(Id id) const {
    const int64_t d = shape().head_dim;
    return Of(id, group(), d, shape().context_columns(), d, group() * d);
  }
  Attributes Logs() const {
    const int64_t length = shape().sequence_length;
    return Of(kLse, group(), 1, 1, length, group() * length);
  }

  Tensor Input(const Attributes& attributes) { return graph_.tensor(attributes); }
  static void Output(const Tensor& tensor, const Attributes& attributes) {
    tensor->set_output(true)
        .set_uid(attributes.get_uid())
        .set_dim(attributes.get_dim())
        .set_stride(attributes.get_stride())
        .set_data_type(attributes.get_data_type());
  }
  // The mask, and the factor of scores.
  template <class Operation>
  Operation Causal() const {
    Operation operation;
    operation.set_attn_scale(pass_.shape.scale())
        .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
    return operation;
  }

  void AddForward(const Tensor& query, const Tensor& key, const Tensor& value) {
    auto operation = Causal<fe::graph::SDPA_attributes>();
    operation.set_generate_stats(true);
    const auto [context, lse] = graph_.sdpa(query, key, value, operation);
    Output(context, InContext(kContext));
    Output(lse, Logs());
  }
  void AddBackward(const Tensor& query, const Tensor& key, const Tensor& value) {
    auto operation = Causal<fe::graph::SDPA_backward_attributes>();
    operation.set_deterministic_algorithm(pass_.repeatable);
    const auto [dquery, dkey, dvalue] =
        graph_.sdpa_backward(query, key, value, Input(InContext(kContext)),
                             Input(InContext(kDContext)), Input(Logs()), operation);
    Output(dquery, Queries(kDQuery));
    Output(dkey, Keys(kDKey));
    Output(dvalue, Keys(kDValue));
  }

  const SdpaPass& pass_;
  fe::graph::Graph& graph_;
};

fe::error_t Compile(const SdpaDevice& device, const SdpaPass& pass, fe::graph::Graph& graph) {
  // Before operations, which copy it. Otherwise the frontend would look for a CUDA runtime to ask.
  graph.set_sm_version(device.capability);
  Description(pass, graph).Add();
  fe::error_t error;
  const auto then = [&](auto step) {
    if (error.is_good()) error = step();
  };
  if (device.handle == nullptr) {
    const auto properties = std::make_shared<fe::DeviceProperties>();
    then([&] {
      return properties->deserialize({device.properties.begin(), device.properties.end()});
    });
    graph.set_device_properties(properties);
  }
  then([&] { return graph.validate(); });
  then([&] {
    return device.handle == nullptr ? graph.build_operation_graph()
                                    : graph.build_operation_graph(device.handle);
  });
  then([&] { return graph.create_execution_plans({fe::HeurMode_t::A}); });
  if (!pass.backward || pass.repeatable)
    graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
  then([&] { return graph.check_support(); });
  then([&] { return graph.build_plans(); });
  return error;
}

}  // namespace

absl::StatusOr<SdpaPlan> SdpaPlan::Make(const SdpaDevice& device, const SdpaPass& pass,
                                        int64_t workspace_bytes) {
  SdpaPlan plan;
  plan.pass_ = pass;
  plan.graph_ = std::make_shared<fe::graph::Graph>();
  absl::Status status = Caught([&] { return Compile(device, pass, *plan.graph_); });
  if (status.ok()) {
    status = Caught([&] { return plan.graph_->get_workspace_size(plan.workspace_bytes_); });
  }
  if (!status.ok()) return status;
  if (plan.workspace_bytes_ <= workspace_bytes) return plan;
  return absl::ResourceExhaustedError(absl::StrCat(
      "cuDNN needs ", plan.workspace_bytes_, " bytes of workspace, there are ", workspace_bytes));
}

absl::Status SdpaPlan::Run(cudnnHandle_t handle, const AttentionTensors& sequences,
                           void* workspace) const {
  const AttentionShape& shape = pass_.shape;
  const int64_t key = shape.heads / shape.kv_heads * shape.head_dim, value = key + shape.head_dim;
  BF16* const qkv = sequences.qkv.as<BF16>();
  std::unordered_map<int64_t, void*> addresses = {{kQuery, qkv},
                                                  {kKey, qkv + key},
                                                  {kValue, qkv + value},
                                                  {kContext, sequences.context.data},
                                                  {kLse, sequences.lse.data}};
  if (pass_.backward) {
    BF16* const dqkv = sequences.dqkv.as<BF16>();
    addresses.insert({{kDContext, sequences.dcontext.data},
                      {kDQuery, dqkv},
                      {kDKey, dqkv + key},
                      {kDValue, dqkv + value}});
  }
  return Caught([&] { return graph_->execute(handle, addresses, workspace); });
}

}  // namespace stretto::cuda
