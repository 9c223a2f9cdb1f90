// SPDX-License-Identifier: Apache-2.0

// Opens libcudnn once for the process, checks its version, and gives its handle to cuDNN's
// frontend, which looks up everything else by name.

#include "kernels/cuda/cudnn/cudnn_library.h"

#include <dlfcn.h>

#include <atomic>

#include "absl/strings/str_cat.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // declared by its headers, for programs to set
}  // namespace cudnn_frontend

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

absl::Status Find(void* library, const std::string& path, CudnnLibrary* cudnn) {
  absl::Status status;
#define FIND(name) \
  if (status.ok()) status = FindFunction(library, path, "cudnn" #name, &cudnn->name)
  FIND(GetVersion);
  if (!status.ok()) return status;
  cudnn->version = static_cast<int64_t>(cudnn->GetVersion());
  if (cudnn->version < kOldest || cudnn->version >= kNextMajor) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cuDNN ('", path, "') is version ", CudnnVersionText(cudnn->version), ", expected ",
        CudnnVersionText(kOldest), " or a newer ", kOldest / 10000, ".x"));
  }
  FIND(GetErrorString);
  FIND(Create);
  FIND(Destroy);
  FIND(SetStream);
#undef FIND
  return status;
}

}  // namespace

std::string CudnnVersionText(int64_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::StatusOr<CudnnLibrary> CudnnLibrary::Open(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    return absl::NotFoundError(
        absl::StrCat("cannot open cuDNN: ", reason != nullptr ? reason : "no reason given"));
  }
  CudnnLibrary cudnn = {};
  const absl::Status status = Find(library, path, &cudnn);
  if (!status.ok()) return status;
  // Several threads may open it. The frontend has one library for the whole process.
  void* opened = nullptr;
  if (!std::atomic_ref(cudnn_frontend::cudnn_dlhandle).compare_exchange_strong(opened, library) &&
      opened != library) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cuDNN ('", path, "'): found another one open in this process, expected the same"));
  }
  return cudnn;
}

absl::StatusOr<std::shared_ptr<cudnnContext>> CudnnLibrary::MakeHandle(cudaStream_t stream) const {
  cudnnHandle_t made = nullptr;
  cudnnStatus_t status = Create(&made);
  if (status != CUDNN_STATUS_SUCCESS)
    return absl::UnavailableError(absl::StrCat("cudnnCreate: ", GetErrorString(status)));
  std::shared_ptr<cudnnContext> handle(made, Destroy);
  status = SetStream(made, stream);
  if (status != CUDNN_STATUS_SUCCESS)
    return absl::UnavailableError(absl::StrCat("cudnnSetStream: ", GetErrorString(status)));
  return handle;
}

}  // namespace stretto::cuda
