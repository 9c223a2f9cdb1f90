// SPDX-License-Identifier: Apache-2.0
#include "tests/worker/comm/device/fake_nccl/fake_nccl.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "kernels/bf16.h"

using stretto::BF16;

namespace {

enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast };

struct Call {
  Kind kind;
  const void* in;
  void* out;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  cudaStream_t stream;
  int root = 0;
};

struct Group {
  int size = 0;
  bool stands = false;  // all have joined
  std::map<int, ncclComm*> ranks;
  std::vector<std::map<int, Call>>
      calls;  // in order, by rank; not yet run ones hold fewer than size
};

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;  // of all its ranks
  int rank = 0;
  ncclResult_t state = ncclSuccess;
  int in_progress = 0;
  bool stuck = false;
  bool revoked = false;
  size_t calls = 0;
  std::set<void*> registered = {};
};

namespace fake_nccl {
namespace {

struct World {
  std::mutex mu;
  Faults faults;
  Calls calls;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  int ids = 0;
  std::map<int, std::shared_ptr<Group>> groups;
  std::set<ncclComm*> live;
  std::map<int, std::vector<std::string>> registrations;  // by rank
  Allocate allocate = nullptr;
  Free free = nullptr;
};

World& world() {
  static auto* world = new World;
  return *world;
}

int Count(const char* name) { return ++world().calls[name]; }

float Load(const void* from, ncclDataType_t type, size_t at) {
  switch (type) {
    case ncclFloat32:
      return static_cast<const float*>(from)[at];
    case ncclBfloat16:
      return stretto::ToFloat(static_cast<const BF16*>(from)[at]);
    case ncclInt32:
      break;
  }
  return static_cast<float>(static_cast<const int32_t*>(from)[at]);
}

void Store(void* to, ncclDataType_t type, size_t at, float value) {
  if (type == ncclFloat32) static_cast<float*>(to)[at] = value;
  if (type == ncclBfloat16) static_cast<BF16*>(to)[at] = stretto::ToBF16(value);
  if (type == ncclInt32) static_cast<int32_t*>(to)[at] = static_cast<int32_t>(value);
}

// From the last rank to the first: NCCL's order is not rank order.
std::vector<float> Reduced(const std::map<int, Call>& calls, size_t count) {
  std::vector<float> result;
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    const Call& c = call->second;
    for (size_t i = 0; i < count; ++i) {
      const float value = Load(c.in, c.type, i);
      if (call == calls.rbegin()) {
        result.push_back(value);
      } else {
        result[i] = c.op == ncclMax ? std::max(result[i], value) : result[i] + value;
      }
    }
  }
  return result;
}

void RunAll(const std::map<int, Call>& calls) {
  const Call& first = calls.begin()->second;
  const size_t parts = first.kind == Kind::kReduceScatter ? calls.size() : 1;
  std::vector<float> values;
  if (first.kind == Kind::kAllGather) {
    for (const auto& [rank, call] : calls) {
      for (size_t i = 0; i < call.count; ++i) values.push_back(Load(call.in, call.type, i));
    }
  } else if (first.kind == Kind::kBroadcast) {
    const Call& root = calls.at(first.root);
    for (size_t i = 0; i < root.count; ++i) values.push_back(Load(root.in, root.type, i));
  } else {
    values = Reduced(calls, first.count * parts);
  }
  for (const auto& [rank, call] : calls) {
    const bool part = call.kind == Kind::kReduceScatter;
    const size_t begin = part ? static_cast<size_t>(rank) * call.count : 0;
    const size_t count = part ? call.count : values.size();
    for (size_t i = 0; i < count; ++i) Store(call.out, call.type, i, values[begin + i]);
  }
}

void RemoveCalls(ncclComm* comm) {
  for (auto& calls : comm->group->calls) calls.erase(comm->rank);
}

void FailPeers(const ncclComm* comm) {
  for (const auto& [rank, peer] : comm->group->ranks) {
    if (peer != comm && peer->state == ncclSuccess) peer->state = ncclRemoteError;
  }
}

// Whether a collective still waits for this rank.
bool Awaited(const ncclComm* comm) {
  for (const auto& calls : comm->group->calls) {
    if (!calls.empty() && !calls.contains(comm->rank)) return true;
  }
  return false;
}

void Remove(ncclComm* comm) {
  RemoveCalls(comm);
  comm->group->ranks.erase(comm->rank);
  world().live.erase(comm);
  delete comm;
}

ncclResult_t Register(const char* kind, ncclComm* comm, void* memory, size_t size) {
  if (const ncclResult_t result = world().faults.registration; result != ncclSuccess) {
    if (world().faults.registration_breaks) comm->state = result;
    return result;
  }
  comm->registered.insert(memory);
  world().registrations[comm->rank].push_back(kind + std::string(" ") + std::to_string(size));
  return ncclSuccess;
}

ncclResult_t Deregister(const char* name, ncclComm* comm, void* memory) {
  Count(name);
  if (comm->revoked || comm->state != ncclSuccess) Count("CommDeregister of the dead");
  if (const ncclResult_t result = world().faults.deregistration; result != ncclSuccess)
    return result;
  return comm->registered.erase(memory) == 1 ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t Enqueue(const char* name, ncclComm_t comm, const Call& call) {
  std::lock_guard lock(world().mu);
  Count(name);
  if (comm->state != ncclSuccess) return comm->state;
  if (world().faults.collective != ncclSuccess) return world().faults.collective;
  Group& group = *comm->group;
  const size_t index = comm->calls++;
  if (group.calls.size() <= index) group.calls.resize(index + 1);
  auto& calls = group.calls[index];
  calls[comm->rank] = call;
  if (calls.size() == static_cast<size_t>(group.size)) {
    RunAll(calls);
    calls.clear();
  }
  comm->in_progress = world().faults.in_progress;
  return comm->in_progress > 0 ? ncclInProgress : ncclSuccess;
}

}  // namespace

void Reset() {
  std::lock_guard lock(world().mu);
  world().faults = {};
  world().calls = {};
  world().groups = {};
  world().registrations = {};
  world().allocate = nullptr;
  world().free = nullptr;
}

void Set(const Faults& faults) {
  std::lock_guard lock(world().mu);
  world().faults = faults;
}

Calls CallsSoFar() {
  std::lock_guard lock(world().mu);
  return world().calls;
}

ncclConfig_t LastConfig() {
  std::lock_guard lock(world().mu);
  return world().config;
}

std::vector<std::string> Registrations(int rank) {
  std::lock_guard lock(world().mu);
  return world().registrations[rank];
}

void UseMemory(Allocate allocate, Free free) {
  std::lock_guard lock(world().mu);
  world().allocate = allocate;
  world().free = free;
}

void Break(int rank, ncclResult_t state) {
  std::lock_guard lock(world().mu);
  for (ncclComm* comm : world().live) {
    if (comm->rank == rank) comm->state = state;
  }
}

int Live() {
  std::lock_guard lock(world().mu);
  return static_cast<int>(world().live.size());
}

bool Idle(const void* stream) {
  std::lock_guard lock(world().mu);
  for (const ncclComm* comm : world().live) {
    for (const auto& calls : comm->group->calls) {
      for (const auto& [rank, call] : calls) {
        if (call.stream == stream) return false;
      }
    }
  }
  return true;
}

}  // namespace fake_nccl

using namespace fake_nccl;  // NOLINT: the C interface's other half

ncclResult_t ncclGetVersion(int* version) {
  std::lock_guard lock(world().mu);
  *version = world().faults.version;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclRemoteError:
      return "remote error";
    case ncclSystemError:
      return "system error";
    case ncclInvalidUsage:
      return "invalid usage";
    default:  // any other of the vendor's
      return "other error";
  }
}

const char* ncclGetLastError(ncclComm_t) { return "the fake's last error"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::lock_guard lock(world().mu);
  const int number = ++world().ids;
  std::memset(id->internal, 0, sizeof(id->internal));
  std::memcpy(id->internal, &number, sizeof(number));
  return world().faults.unique_id;
}

ncclResult_t ncclMemAlloc(void** memory, size_t size) {
  std::lock_guard lock(world().mu);
  if (!world().faults.memory) return ncclUnhandledCudaError;
  Count("MemAlloc");
  if (world().allocate != nullptr) {
    return world().allocate(memory, size) ? ncclSuccess : ncclUnhandledCudaError;
  }
  *memory = std::malloc(size);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* memory) {
  std::lock_guard lock(world().mu);
  Count("MemFree");
  for (const ncclComm* comm : world().live) {
    if (comm->registered.contains(memory)) Count("MemFree while registered");
  }
  world().free != nullptr ? world().free(memory) : std::free(memory);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  std::lock_guard lock(world().mu);
  Count("CommInitRankConfig");
  world().config = *config;
  world().config.commName = nullptr;
  if (world().faults.init != ncclSuccess) return world().faults.init;
  int number = 0;
  std::memcpy(&number, id.internal, sizeof(number));
  std::shared_ptr<Group>& group = world().groups[number];
  if (group == nullptr) group = std::make_shared<Group>();
  group->size = ranks;
  auto* made = new ncclComm{.group = group, .rank = rank, .stuck = world().faults.init_never_ends};
  group->ranks[rank] = made;
  group->stands |= group->ranks.size() == static_cast<size_t>(ranks);
  world().live.insert(made);
  *comm = made;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  std::lock_guard lock(world().mu);
  *state = comm->state;
  if (comm->state != ncclSuccess) return ncclSuccess;
  if (comm->stuck || !comm->group->stands || comm->in_progress > 0) {
    *state = ncclInProgress;
    if (comm->in_progress > 0) --comm->in_progress;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  std::lock_guard lock(world().mu);
  Count("CommFinalize");
  comm->stuck = world().faults.finalize_never_ends;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  std::lock_guard lock(world().mu);
  Count("CommDestroy");
  if (Awaited(comm)) FailPeers(comm);
  Remove(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int) {
  std::lock_guard lock(world().mu);
  Count("CommRevoke");
  if (comm->in_progress > 0) return ncclInvalidArgument;
  if (world().faults.revoke != ncclSuccess) return world().faults.revoke;
  FailPeers(comm);
  comm->revoked = true;
  comm->state = ncclSuccess;
  comm->stuck = world().faults.revoke_never_ends;
  if (!comm->stuck) RemoveCalls(comm);
  return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::lock_guard lock(world().mu);
  Count("CommAbort");
  FailPeers(comm);
  Remove(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, size_t size, void** handle) {
  std::lock_guard lock(world().mu);
  Count("CommRegister");
  *handle = memory;
  return Register("buffer", comm, memory, size);
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  std::lock_guard lock(world().mu);
  return Deregister("CommDeregister", comm, handle);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t size,
                                    ncclWindow_t* window, int) {
  std::lock_guard lock(world().mu);
  Count("CommWindowRegister");
  if (!world().faults.windows) return ncclSuccess;
  const ncclResult_t result = Register("window", comm, memory, size);
  if (result != ncclSuccess) return result;
  *window = static_cast<ncclWindow_t>(memory);
  comm->in_progress = world().faults.in_progress;
  return comm->in_progress > 0 ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  std::lock_guard lock(world().mu);
  return Deregister("CommWindowDeregister", comm, window);
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue("AllReduce", comm, {Kind::kAllReduce, in, out, count, type, op, stream});
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Enqueue("AllGather", comm, {Kind::kAllGather, in, out, count, type, ncclSum, stream});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue("ReduceScatter", comm, {Kind::kReduceScatter, in, out, count, type, op, stream});
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Enqueue("Broadcast", comm,
                 {Kind::kBroadcast, in, out, count, type, ncclSum, stream, root});
}
