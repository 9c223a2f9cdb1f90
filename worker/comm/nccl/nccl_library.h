// SPDX-License-Identifier: Apache-2.0
#pragma once
// libnccl, opened at run time: only jobs of several ranks need it, and its path differs between
// machines.

#include <nccl.h>

#include <string>

#include "absl/status/statusor.h"

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0), "needs windows and ncclCommRevoke");

namespace stretto {

// The functions that a library of the right version must have.
#define STRETTO_NCCL_FUNCTIONS(F) \
  F(GetErrorString)               \
  F(GetLastError)                 \
  F(GetUniqueId)                  \
  F(MemAlloc)                     \
  F(MemFree)                      \
  F(CommInitRankConfig)           \
  F(CommGetAsyncError)            \
  F(CommFinalize)                 \
  F(CommDestroy)                  \
  F(CommRevoke)                   \
  F(CommAbort)                    \
  F(CommRegister)                 \
  F(CommDeregister)               \
  F(CommWindowRegister)           \
  F(CommWindowDeregister)         \
  F(AllReduce)                    \
  F(AllGather)                    \
  F(ReduceScatter)                \
  F(Broadcast)

// The functions of one library, which is never closed because it keeps threads. Copies are cheap.
struct NcclLibrary {
  // `path` is the path of the library, or a name for the loader to find. Errors: NotFound (it
  // cannot be opened), FailedPrecondition (a function is missing; its major version differs from
  // that of the header we were built with, or it is older).
  static absl::StatusOr<NcclLibrary> Open(const std::string& path);

  std::string version;  // "2.28.9"

  decltype(&ncclGetVersion) GetVersion;
#define STRETTO_NCCL_MEMBER(name) decltype(&nccl##name) name;
  STRETTO_NCCL_FUNCTIONS(STRETTO_NCCL_MEMBER)
#undef STRETTO_NCCL_MEMBER
};

}  // namespace stretto
