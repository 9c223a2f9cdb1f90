// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn/cudnn_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"

namespace stretto::cuda {
namespace {

constexpr int64_t kOldest = 91600, kNextMajor = 100000;

template <class Function>
absl::Status FindFunction(void* library, const std::string& path, const char* name,
                          Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cuDNN ('", path, "') has no function ", name,
                                                    ", expected one of version ",
                                                    CudnnVersionText(kOldest), " or newer"));
}

}  // namespace

std::string CudnnVersionText(int64_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::StatusOr<CudnnLibrary> CudnnLibrary::Open(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return absl::NotFoundError(
        absl::StrCat("cannot open cuDNN: ", reason != nullptr ? reason : "no reason given"));
  }
  CudnnLibrary cudnn = {};
  absl::Status status;
#define FIND(name) \
  if (status.ok()) status = FindFunction(library, path, "cudnn" #name, &cudnn.name)
  FIND(GetVersion);
  if (!status.ok()) return status;
  cudnn.version = static_cast<int64_t>(cudnn.GetVersion());
  if (cudnn.version < kOldest || cudnn.version >= kNextMajor) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cuDNN ('", path, "') is version ", CudnnVersionText(cudnn.version), ", expected ",
        CudnnVersionText(kOldest), " or a newer ", kOldest / 10000, ".x"));
  }
  FIND(GetErrorString);
  FIND(GetLastErrorString);
  FIND(Create);
  FIND(Destroy);
  FIND(SetStream);
  FIND(BackendCreateDescriptor);
  FIND(BackendDestroyDescriptor);
  FIND(BackendSetAttribute);
  FIND(BackendGetAttribute);
  FIND(BackendFinalize);
  FIND(BackendExecute);
#undef FIND
  if (!status.ok()) return status;
  return cudnn;
}

absl::Status CudnnLibrary::StatusOf(cudnnStatus_t status, const char* call) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char why[512] = "";
  GetLastErrorString(why, sizeof(why));
  const std::string text =
      absl::StrCat(call, ": ", GetErrorString(status), why[0] != '\0' ? ": " : "", why);
  const bool unsupported =
      status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR;
  return unsupported ? absl::UnimplementedError(text) : absl::UnavailableError(text);
}

}  // namespace stretto::cuda
