// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cudnn/fake_cudnn/fake_cudnn.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "tests/kernels/cudnn/fake_cudnn/interpreter.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace fake_cudnn {
namespace {

struct Plan {
  Program program;
  bool backward = false;
  int64_t workspace_bytes = 0;
};

struct Fake {
  struct Attribute {
    cudnnBackendAttributeType_t type;
    std::vector<char> bytes;
  };
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Attribute> attributes;
  size_t engine = 0;           // of an engine and its configuration
  Fake* graph = nullptr;       // of a configuration
  std::shared_ptr<Plan> plan;  // of an execution plan

  template <class T>
  std::vector<T> All(int name) const {
    const auto at = attributes.find(name);
    if (at == attributes.end()) return {};
    std::vector<T> values(at->second.bytes.size() / sizeof(T));
    std::memcpy(values.data(), at->second.bytes.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T>
  T One(int name, T otherwise = {}) const {
    const std::vector<T> values = All<T>(name);
    return values.empty() ? otherwise : values[0];
  }
  Fake* Of(int name) const { return One<Fake*>(name); }
};

struct World {
  std::function<void(cudaStream_t, std::function<void()>)> enqueue;
  Faults faults;
  Counts counts;
  std::string last_error;
  std::set<const void*> live;
};
World& world() {
  static auto* world = new World;
  return *world;
}

cudnnStatus_t Fail(cudnnStatus_t status, const std::string& why) {
  world().last_error = why;
  return status;
}

size_t SizeOf(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:  // any other of the vendor's
      return 4;
  }
}

// What each kind of descriptor must have when it is finalized.
const std::map<int, std::map<int, cudnnBackendAttributeType_t>>& Required() {
  static const auto* required = new std::map<int, std::map<int, cudnnBackendAttributeType_t>>{
      {CUDNN_BACKEND_TENSOR_DESCRIPTOR,
       {{CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN}}},
      {CUDNN_BACKEND_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE}}},
      {CUDNN_BACKEND_MATMUL_DESCRIPTOR, {{CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE}}},
      {CUDNN_BACKEND_REDUCTION_DESCRIPTOR,
       {{CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE},
        {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
        {CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, CUDNN_TYPE_BOOLEAN}}},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR}}},
      {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR}}},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR}}},
      {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR}}},
      {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
       {{CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE}}},
      {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
       {{CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE}}},
      {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
       {{CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR},
        {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE}}},
      {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
       {{CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR}}}};
  return *required;
}

TensorInfo InfoOf(const Fake* tensor) {
  TensorInfo info;
  if (tensor == nullptr) return info;
  const auto sizes = tensor->All<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  const auto strides = tensor->All<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  std::copy(sizes.begin(), sizes.end(), info.sizes.begin());
  std::copy(strides.begin(), strides.end(), info.strides.begin());
  info.id = tensor->One<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  info.type = tensor->One<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  info.is_virtual = tensor->One<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
  info.by_value = tensor->One<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE) != 0;
  return info;
}

Operation OperationOf(const Fake* o) {
  Operation operation{.kind = o->type, .x = {}, .b = {}, .where = {}, .y = {}};
  const auto tensors = [&](int x, int b, int where, int y) {
    operation.x = InfoOf(o->Of(x));
    operation.b = InfoOf(o->Of(b));
    operation.where = InfoOf(o->Of(where));
    operation.y = InfoOf(o->Of(y));
  };
  constexpr int kNone = -1;
  if (o->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    tensors(CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, kNone,
            CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  } else if (o->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    tensors(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, kNone, kNone,
            CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    operation.mode =
        o->Of(CUDNN_ATTR_OPERATION_REDUCTION_DESC)->One<int>(CUDNN_ATTR_REDUCTION_OPERATOR);
  } else if (o->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
    tensors(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, kNone, kNone, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  } else {
    tensors(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
            CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const Fake* pointwise = o->Of(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    operation.mode = pointwise->One<int>(CUDNN_ATTR_POINTWISE_MODE);
    operation.axis = pointwise->One<int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
  }
  return operation;
}

bool IsBackward(const Fake* graph) {
  for (const Fake* o : graph->All<Fake*>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    if (o->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) return true;
  return false;
}

cudnnStatus_t FinalizePlan(Fake* plan) {
  const Fake* proposal = plan->Of(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Engine& engine = world().faults.engines[proposal->engine];
  if (!engine.compiles) return Fail(CUDNN_STATUS_NOT_SUPPORTED, "the fake does not compile it");
  auto made = std::make_shared<Plan>();
  for (const Fake* o : proposal->graph->All<Fake*>(CUDNN_ATTR_OPERATIONGRAPH_OPS))
    made->program.push_back(OperationOf(o));
  made->backward = IsBackward(proposal->graph);
  for (const Operation& o : made->program) {
    if (made->backward && o.mode == CUDNN_POINTWISE_BINARY_SELECT)
      made->workspace_bytes = engine.bytes_per_score * o.y.span();
  }
  ++world().counts.plans;
  plan->plan = std::move(made);
  return CUDNN_STATUS_SUCCESS;
}

// Descriptors of results that are written need no finalizing.
bool IsResult(cudnnBackendDescriptorType_t type) {
  return type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || type == CUDNN_BACKEND_ENGINE_DESCRIPTOR;
}

}  // namespace

void Reset(std::function<void(cudaStream_t, std::function<void()>)> enqueue) {
  world().enqueue = std::move(enqueue);
  world().faults = Faults();
  world().counts = Counts();
}
void Set(const Faults& faults) { world().faults = faults; }
Counts CountsSoFar() { return world().counts; }
int Live() { return static_cast<int>(world().live.size()); }

}  // namespace fake_cudnn

using namespace fake_cudnn;  // NOLINT: the C interface's other half

size_t cudnnGetVersion() { return world().faults.version; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    default:  // any other of the vendor's
      return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}
void cudnnGetLastErrorString(char* message, size_t max_size) {
  std::strncpy(message, world().last_error.c_str(), max_size - 1);
  message[max_size - 1] = '\0';
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (!world().faults.handle) return Fail(CUDNN_STATUS_NOT_INITIALIZED, "no device");
  *handle = new cudnnContext;
  world().live.insert(*handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  world().live.erase(handle);
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (!world().faults.stream) return Fail(CUDNN_STATUS_BAD_PARAM, "no such stream");
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  auto* made = new Fake{.type = type, .attributes = {}, .plan = {}};
  world().live.insert(made);
  *descriptor = made;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  world().live.erase(descriptor);
  delete static_cast<Fake*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* values) {
  auto& fake = *static_cast<Fake*>(descriptor);
  if (fake.finalized) return Fail(CUDNN_STATUS_BAD_PARAM, "set after it was finalized");
  const char* from = static_cast<const char*>(values);
  const size_t bytes = static_cast<size_t>(count) * SizeOf(type);
  Fake::Attribute attribute{type, std::vector<char>(from, from + bytes)};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      const Fake* part = static_cast<Fake* const*>(values)[i];
      if (part == nullptr || (!part->finalized && !IsResult(part->type)))
        return Fail(CUDNN_STATUS_BAD_PARAM, "set to a descriptor that is not finalized");
    }
  }
  fake.attributes[name] = std::move(attribute);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  auto& fake = *static_cast<Fake*>(descriptor);
  if (fake.finalized) return Fail(CUDNN_STATUS_BAD_PARAM, "finalized twice");
  for (const auto& [name, type] : Required().at(fake.type)) {
    const auto at = fake.attributes.find(name);
    if (at == fake.attributes.end() || at->second.type != type) {
      return Fail(CUDNN_STATUS_BAD_PARAM,
                  "attribute " + std::to_string(name) + " is missing or of another type");
    }
  }
  if (fake.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    const bool supported = IsBackward(&fake) ? world().faults.backward : world().faults.forward;
    if (!supported) return Fail(CUDNN_STATUS_NOT_SUPPORTED, "the fake has no such graph");
  }
  if (fake.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const cudnnStatus_t status = FinalizePlan(&fake);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  fake.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t room, int64_t* count,
                                       void* values) {
  auto& fake = *static_cast<Fake*>(descriptor);
  *count = 1;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = std::min(room, static_cast<int64_t>(world().faults.engines.size()));
    for (int64_t i = 0; i < *count; ++i) {
      Fake* proposal = static_cast<Fake**>(values)[i];
      proposal->engine = static_cast<size_t>(i);
      proposal->graph = fake.Of(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    }
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    (*static_cast<Fake**>(values))->engine = fake.engine;
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    auto* notes = static_cast<cudnnBackendNumericalNote_t*>(values);
    notes[0] = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    notes[1] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    *count = world().faults.engines[fake.engine].varies ? 2 : 1;
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && fake.plan != nullptr) {
    *static_cast<int64_t*>(values) = fake.plan->workspace_bytes;
  } else {
    return Fail(CUDNN_STATUS_BAD_PARAM, "no such attribute");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t descriptor,
                                  cudnnBackendDescriptor_t pack_descriptor) {
  const auto& pack = *static_cast<Fake*>(pack_descriptor);
  const std::shared_ptr<Plan> plan = static_cast<Fake*>(descriptor)->plan;
  if (plan == nullptr || !pack.finalized) return Fail(CUDNN_STATUS_BAD_PARAM, "not finalized");
  Faults& faults = world().faults;
  if (faults.executions == 0) return Fail(CUDNN_STATUS_EXECUTION_FAILED, "the fake fails");
  if (faults.executions > 0) --faults.executions;
  int& runs = plan->backward ? world().counts.backward : world().counts.forward;
  ++runs;

  Call call{.addresses = {},
            .scalars = {},
            .factor = faults.factor,
            .log_offset = plan->backward ? 0 : faults.log_offset};
  if (faults.bits_vary && runs % 3 == 0) call.factor *= 1 + 1.0f / 128;
  const auto ids = pack.All<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.All<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < ids.size(); ++i) call.addresses[ids[i]] = pointers[i];
  for (const Operation& o : plan->program) {
    for (const TensorInfo* tensor : {&o.x, &o.b, &o.y}) {
      if (tensor->id < 0 || tensor->is_virtual) continue;
      const auto at = call.addresses.find(tensor->id);
      if (at == call.addresses.end() || at->second == nullptr)
        return Fail(CUDNN_STATUS_BAD_PARAM, "a tensor has no address");
      if (tensor->by_value) call.scalars[tensor->id] = *static_cast<const float*>(at->second);
    }
  }
  auto* workspace = pack.One<char*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  world().enqueue(handle->stream, [plan, call, workspace] {
    std::memset(workspace, 0xff, static_cast<size_t>(plan->workspace_bytes));
    Run(plan->program, call);
  });
  return CUDNN_STATUS_SUCCESS;
}
