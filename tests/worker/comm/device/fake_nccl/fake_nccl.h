#pragma once
// An NCCL whose ranks are in one process and whose device is host memory, with faults on request.
//
// A collective runs when its last rank has called it; until then it is on its stream. A rank that
// is revoked or aborted, or leaves while a collective waits for it, makes its peers fail with
// ncclRemoteError. All functions are thread-safe.

#include <nccl.h>

#include <map>
#include <string>

namespace fake_nccl {

struct Faults {
  int version = NCCL_VERSION_CODE;
  ncclResult_t init = ncclSuccess;  // of ncclCommInitRankConfig
  ncclResult_t unique_id = ncclSuccess;
  ncclResult_t collective = ncclSuccess;
  ncclResult_t revoke = ncclSuccess;
  bool init_never_ends = false;
  bool finalize_never_ends = false;
  bool revoke_never_ends = false;
  int in_progress = 0;  // questions for which a collective stays in progress
  bool windows = true;  // whether the machine has symmetric memory
  bool memory = true;   // whether ncclMemAlloc finds some
};

// How often each function ran, without the prefix: "CommRevoke".
using Calls = std::map<std::string, int>;

// A new world: no faults, no calls.
void Reset();
void Set(const Faults& faults);
Calls CallsSoFar();
ncclConfig_t LastConfig();
// Makes the communicator of that rank fail by itself.
void Break(int rank, ncclResult_t state);
// Communicators neither destroyed nor aborted.
int Live();
// Whether all work on the stream is done (or was cut short).
bool Idle(const void* stream);

}  // namespace fake_nccl
