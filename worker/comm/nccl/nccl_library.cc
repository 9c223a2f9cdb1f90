// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/nccl/nccl_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

std::string VersionText(int code) {
  return absl::StrCat(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

template <class Function>
absl::Status Find(void* library, const std::string& path, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("NCCL ('", path, "') has no function ", name,
                                                    ", expected one of version ",
                                                    VersionText(NCCL_VERSION_CODE), " or newer"));
}

absl::Status CheckVersion(const std::string& path, int code) {
  if (code >= NCCL_VERSION_CODE && code / 10000 == NCCL_MAJOR) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("NCCL ('", path, "') is version ", VersionText(code), ", expected ",
                   VersionText(NCCL_VERSION_CODE), " or a newer ", NCCL_MAJOR, ".x"));
}

}  // namespace

absl::StatusOr<NcclLibrary> NcclLibrary::Open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return absl::NotFoundError(
        absl::StrCat("cannot open NCCL: ", reason != nullptr ? reason : "no reason given"));
  }
  NcclLibrary nccl = {};
#define FIND(name) RETURN_IF_ERROR(Find(library, path, "nccl" #name, nccl.name));
  FIND(GetVersion)
  int version = 0;
  if (nccl.GetVersion(&version) != ncclSuccess) version = 0;
  RETURN_IF_ERROR(CheckVersion(path, version));
  nccl.version = VersionText(version);
  STRETTO_NCCL_FUNCTIONS(FIND)
#undef FIND
  return nccl;
}

}  // namespace stretto
