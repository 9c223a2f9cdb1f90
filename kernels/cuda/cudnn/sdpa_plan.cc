// SPDX-License-Identifier: Apache-2.0

// Turns a graph into an execution plan: asks the heuristics for engines and takes the first one
// that is deterministic, builds, and fits the workspace. Run binds the addresses of one call and
// executes it.

#include "kernels/cuda/cudnn/sdpa_plan.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stretto::cuda {
namespace {

constexpr int64_t kMostProposals = 16, kMostNotes = 32;

int64_t RoundedUp(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

SdpaPlan::SdpaPlan(const CudnnLibrary& library, const SdpaShape& shape, bool backward)
    : shape_(shape), backward_(backward), descriptors_(std::make_unique<Descriptors>(library)) {
  if (backward) row_sum_bytes_ = RoundedUp(4 * shape.kv_heads * shape.group * shape.length);
}

absl::StatusOr<SdpaPlan> SdpaPlan::Make(const CudnnLibrary& library, const SdpaDevice& device,
                                        const SdpaShape& shape, bool backward,
                                        int64_t workspace_bytes) {
  SdpaPlan plan(library, shape, backward);
  const absl::Status status = plan.Compile(device, workspace_bytes - plan.row_sum_bytes_);
  if (!status.ok()) return status;
  return plan;
}

absl::Status SdpaPlan::Compile(const SdpaDevice& device, int64_t engine_room) {
  Descriptors& made = *descriptors_;
  const Descriptor graph = backward_ ? BackwardGraph(shape_, device.handle, &made)
                                     : ForwardGraph(shape_, device.handle, &made);
  Descriptor properties = nullptr;
  if (device.handle == nullptr) {
    properties = made.Make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    made.Set(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             std::vector<char>(device.properties.begin(), device.properties.end()));
    made.Finalize(properties);
  }
  const Descriptor heuristic = made.Make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  made.Set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  made.Set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  if (properties != nullptr) made.Set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
  made.Finalize(heuristic);
  std::vector<Descriptor> proposals;
  for (int64_t i = 0; i < kMostProposals; ++i)
    proposals.push_back(made.Make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  const int64_t found = made.Get(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, kMostProposals, proposals.data());
  if (!made.status().ok()) return made.status();

  absl::Status reason = absl::UnimplementedError("cuDNN proposes no engine");
  for (int64_t i = 0; i < std::min(found, kMostProposals); ++i) {
    plan_ = PlanOf(device, properties, proposals[i], engine_room, &reason);
    if (plan_ != nullptr) return absl::OkStatus();
  }
  return reason;
}

Descriptor SdpaPlan::PlanOf(const SdpaDevice& device, Descriptor properties, Descriptor proposal,
                            int64_t engine_room, absl::Status* reason) {
  Descriptors& made = *descriptors_;
  if (NumbersVary(proposal)) {
    *reason = absl::UnimplementedError("the numbers of cuDNN's engine vary between runs");
    return nullptr;
  }
  const Descriptor plan = made.Make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  made.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal);
  if (properties != nullptr) {
    made.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties);
  } else {
    made.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, device.handle);
  }
  made.Finalize(plan);
  made.Get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &engine_bytes_);
  if (absl::Status status = made.TakeStatus(); !status.ok()) {
    *reason = std::move(status);
    return nullptr;
  }
  if (engine_bytes_ > engine_room) {
    *reason = absl::ResourceExhaustedError(
        absl::StrCat("cuDNN needs ", workspace_bytes(), " bytes of workspace, there are ",
                     std::max<int64_t>(engine_room, 0) + row_sum_bytes_));
    return nullptr;
  }
  return plan;
}

// The absence of the note proves nothing: atomics have been seen without it.
bool SdpaPlan::NumbersVary(Descriptor proposal) {
  Descriptors& made = *descriptors_;
  Descriptor engine = made.Make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  made.Get(proposal, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
  std::array<cudnnBackendNumericalNote_t, kMostNotes> notes;
  const int64_t count = made.Get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, kMostNotes, notes.data());
  const auto end = notes.begin() + std::min(count, kMostNotes);
  return std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) != end;
}

absl::Status SdpaPlan::Run(cudnnHandle_t handle, float scale, const SdpaAddresses& addresses,
                           void* workspace) const {
  float minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;
  SdpaAddresses all = addresses;
  all[kScale] = &scale;
  all[kMinusInfinity] = &minus_infinity;
  std::vector<SdpaTensor> tensors = {kQuery, kKey, kValue, kContext, kLse, kScale, kMinusInfinity};
  if (backward_) {
    all[kOne] = &one;
    all[kRowSums] = workspace;
    tensors.insert(tensors.end(), {kDContext, kDQuery, kDKey, kDValue, kRowSums, kOne});
  }
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const SdpaTensor tensor : tensors) {
    ids.push_back(tensor);
    pointers.push_back(all[tensor]);
  }
  void* const engine_workspace = static_cast<char*>(workspace) + row_sum_bytes_;

  Descriptors made(descriptors_->library());
  const Descriptor pack = made.Make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  made.Set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids);
  made.Set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
  made.Set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, engine_workspace);
  made.Finalize(pack);
  if (!made.status().ok()) return made.status();
  const CudnnLibrary& library = made.library();
  return library.StatusOf(library.BackendExecute(handle, plan_, pack), "cudnnBackendExecute");
}

}  // namespace stretto::cuda
