#pragma once
// libnccl, opened at run time: only jobs with several ranks need it, and its place differs between
// machines.

#include <nccl.h>

#include <string>

#include "absl/status/statusor.h"

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0), "needs windows and ncclCommRevoke");

namespace stretto {

// The functions of one library that is never closed (it keeps threads). Copies are cheap.
struct NcclLibrary {
  // `path`: of the library, or its name for the loader to find. Errors: NotFound (cannot be
  // opened), FailedPrecondition (a function is missing; another major version than the header we
  // were built with, or an older one).
  static absl::StatusOr<NcclLibrary> Open(const std::string& path);

  std::string version;  // "2.28.9"

  decltype(&ncclGetVersion) GetVersion;
  decltype(&ncclGetErrorString) GetErrorString;
  decltype(&ncclGetLastError) GetLastError;
  decltype(&ncclGetUniqueId) GetUniqueId;
  decltype(&ncclMemAlloc) MemAlloc;
  decltype(&ncclMemFree) MemFree;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&ncclCommFinalize) CommFinalize;
  decltype(&ncclCommDestroy) CommDestroy;
  decltype(&ncclCommRevoke) CommRevoke;
  decltype(&ncclCommAbort) CommAbort;
  decltype(&ncclCommRegister) CommRegister;
  decltype(&ncclCommDeregister) CommDeregister;
  decltype(&ncclCommWindowRegister) CommWindowRegister;
  decltype(&ncclCommWindowDeregister) CommWindowDeregister;
  decltype(&ncclAllReduce) AllReduce;
  decltype(&ncclAllGather) AllGather;
  decltype(&ncclReduceScatter) ReduceScatter;
};

}  // namespace stretto
