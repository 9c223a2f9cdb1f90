// SPDX-License-Identifier: Apache-2.0
#pragma once
// An NCCL whose ranks are in one process and whose device is host memory, with faults on request.
//
// A collective runs when its last rank has called it; until then it is on its stream. A rank that
// is revoked or aborted, or leaves while a collective waits for it, makes its peers fail with
// ncclRemoteError. All functions are thread-safe.

#include <nccl.h>

#include <map>
#include <string>
#include <vector>

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
  // What registering returns; it may leave the communicator in that state.
  ncclResult_t registration = ncclSuccess;
  bool registration_breaks = false;
  ncclResult_t deregistration = ncclSuccess;
};

// How often each function ran, without the prefix: "CommRevoke". Also what must never be: memory
// freed that a communicator knows ("MemFree while registered"), a group that was revoked or failed
// and was asked to forget memory, which may hang ("CommDeregister of the dead").
using Calls = std::map<std::string, int>;

// A new world: no faults, no calls.
void Reset();
void Set(const Faults& faults);
Calls CallsSoFar();
ncclConfig_t LastConfig();
// What was registered with the communicators of that rank, in order: "window 4096", "buffer 64".
std::vector<std::string> Registrations(int rank);
// Where ncclMemAlloc has its memory from, until Reset; malloc and free else.
using Allocate = bool (*)(void** memory, size_t bytes);
using Free = void (*)(void* memory);
void UseMemory(Allocate allocate, Free free);
// Makes the communicator of that rank fail by itself.
void Break(int rank, ncclResult_t state);
// Communicators neither destroyed nor aborted.
int Live();
// Whether all work on the stream is done (or was cut short).
bool Idle(const void* stream);

}  // namespace fake_nccl
