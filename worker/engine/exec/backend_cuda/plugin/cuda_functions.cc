#include "worker/engine/exec/backend_cuda/plugin/cuda_functions.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cublaslt_products.h"
#include "proto/base/status_macros.h"
#include "worker/comm/emulated_link/emulated_link.h"
#include "worker/engine/exec/backend_cuda/cuda_backend.h"
#include "worker/engine/exec/backend_cuda/plugin/devices.h"
#include "worker/engine/exec/backend_cuda/plugin/kept_tunings.h"
#include "worker/engine/exec/plugin/loader.h"
#if defined(STRETTO_HAVE_NCCL)
#include "worker/comm/nccl/nccl_communicator.h"
#endif

namespace stretto {
namespace {

absl::Status Named(int device, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat("GPU ", device, ": ", status.message())};
}

absl::StatusOr<std::unique_ptr<Backend>> Make(const DeviceOptions& options) {
  RETURN_IF_ERROR(UseDevice(options.device));
  ASSIGN_OR_RETURN(cuda::Tunings tunings, TuningsOfDevice());
  // Shared by the products of every stream of every executor.
  const auto kept = std::make_shared<KeptTunings>(std::move(tunings), options.tuning_folder);
  const MakeProducts products = [kept](void* stream, void* workspace) {
    return MakeCublasLtProducts({.stream = stream,
                                 .workspace = workspace,
                                 .tunings = &kept->tunings(),
                                 .on_choice = [kept] { kept->Save(); }});
  };
  return MakeCudaBackend({.device = options.device,
                          .make_ops = KernelsWith(options.device, products),
                          .graphs = options.graphs,
                          .wait = {.timeout = options.timeout}});
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const DeviceOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, CudaDevices());
  const auto count = static_cast<int>(devices.size());
  if (options.device < 0 || options.device >= count) {
    return absl::NotFoundError(
        absl::StrCat("GPU ", options.device, ": this process sees ", count, " of them"));
  }
  RETURN_IF_ERROR(CheckArchitecture(devices[static_cast<size_t>(options.device)],
                                    CudaFunctions().architectures));
  absl::StatusOr<std::unique_ptr<Backend>> backend = Make(options);
  if (!backend.ok()) return Named(options.device, backend.status());
  return backend;
}

absl::StatusOr<std::unique_ptr<DeviceCommunicator>> Connect(const DeviceGroupOptions& options) {
  RETURN_IF_ERROR(UseDevice(options.device));
#if defined(STRETTO_HAVE_NCCL)
  return NcclCommunicator::Connect({.rank = options.rank,
                                    .size = options.size,
                                    .store = options.store,
                                    .prefix = options.prefix,
                                    .library = CudaLibrary("libnccl.so.2"),
                                    .timeout = options.timeout});
#else
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", options.rank, " of ", options.size,
                   ": the plug-in was built without NCCL, whose header nccl.h it needs for jobs of "
                   "several ranks"));
#endif
}

absl::StatusOr<std::unique_ptr<DeviceCommunicator>> EmulateLink(
    int device, const EmulatedLinkOptions& options) {
  RETURN_IF_ERROR(UseDevice(device));
  return MakeEmulatedLink(options);
}

}  // namespace

const BackendPlugin& CudaFunctions() {
  static const BackendPlugin functions = {.identity = BuildIdentity(),
                                          .architectures = STRETTO_CUDA_ARCHITECTURES,
                                          .devices = CudaDevices,
                                          .make_backend = MakeBackend,
                                          .connect = Connect,
                                          .emulate_link = EmulateLink};
  return functions;
}

}  // namespace stretto
