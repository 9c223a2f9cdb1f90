// SPDX-License-Identifier: Apache-2.0

// The functions of the plug-in: devices, a backend with kernels, tuned products and attention, and
// communicators. cuDNN and NCCL are optional at build time.

#include "worker/engine/exec/backend_cuda/plugin/cuda_functions.h"

#include <cuda_runtime.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cublaslt_products.h"
#include "kernels/cuda/link.h"
#include "proto/base/status_macros.h"
#include "worker/comm/emulated_link/emulated_link.h"
#include "worker/engine/exec/backend_cuda/cuda_backend.h"
#include "worker/engine/exec/backend_cuda/cuda_status.h"
#include "worker/engine/exec/backend_cuda/kept_tunings/kept_tunings.h"
#include "worker/engine/exec/backend_cuda/plugin/devices.h"
#include "worker/engine/exec/plugin/loader.h"
#if defined(STRETTO_HAVE_CUDNN)
#include "kernels/cuda/cudnn/cudnn_attention.h"
#endif
#if defined(STRETTO_HAVE_NCCL)
#include "worker/comm/nccl/nccl_communicator.h"
#endif

namespace stretto {
namespace {

absl::Status Named(int device, const absl::Status& status) {
  if (status.ok()) return status;
  return {status.code(), absl::StrCat("GPU ", device, ": ", status.message())};
}

// Returns cuDNN's attention unless STRETTO_CUDNN is "0"; otherwise "1" or the library's path may be
// there. If it is not available, a line is logged and our own kernels are used.
MakeAttention AttentionByCudnn([[maybe_unused]] const std::shared_ptr<KeptTunings>& kept,
                               [[maybe_unused]] const DeviceOptions& options) {
  const char* asked = std::getenv("STRETTO_CUDNN");
  const std::string choice = asked == nullptr ? "1" : asked;
  if (choice == "0") return {};
#if defined(STRETTO_HAVE_CUDNN)
  const std::string library = choice == "1" ? CudaLibrary("libcudnn.so.9") : choice;
  const auto warned = std::make_shared<std::atomic<bool>>(false);  // every stream asks anew
  return [kept, library, repeatable = options.repeatable, tokens = options.tokens, warned](
             void* stream, void* workspace, int sm_count) -> std::unique_ptr<FusedAttention> {
    absl::StatusOr<std::unique_ptr<FusedAttention>> attention =
        MakeCudnnAttention({.stream = stream,
                            .sm_count = sm_count,
                            .workspace = workspace,
                            .tunings = &kept->tunings(),
                            .repeatable = repeatable,
                            .pinned_tokens = tokens,
                            .report =
                                [kept](absl::string_view decision) {
                                  spdlog::info("attention: {}", std::string(decision));
                                  kept->Save();
                                },
                            .library = library});
    if (attention.ok()) return *std::move(attention);
    if (!warned->exchange(true))
      spdlog::warn("attention by our own kernels: {}", attention.status().ToString());
    return nullptr;
  };
#else
  spdlog::warn(
      "attention by our own kernels: this plug-in was built without the headers of cuDNN "
      "and its frontend");
  return {};
#endif
}

// A transfer that moves nothing has the blocks of a collective and stays as long as it is told.
absl::StatusOr<ProductCompany> CompanyOf(const DeviceOptions& options) {
  if (options.collective_sms == 0) return ProductCompany();
  cudaDeviceProp device = {};
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&device, options.device));
  return ProductCompany{
      .sms_left = SmsBesideCollectives(device.multiProcessorCount, options.collective_sms),
      .begin = [blocks = options.collective_sms](std::chrono::nanoseconds hold, void* stream) {
        return LaunchLinkTransfer({.blocks = blocks, .latency_nanoseconds = hold.count()}, stream);
      }};
}

absl::StatusOr<std::unique_ptr<Backend>> Make(const DeviceOptions& options) {
  RETURN_IF_ERROR(UseDevice(options.device));
  ASSIGN_OR_RETURN(cuda::Tunings tunings, TuningsOfDevice());
  // Shared by the products of every stream of every executor.
  const auto kept =
      std::make_shared<KeptTunings>(std::move(tunings), options.tuning_folder, options.tuning_root);
  ASSIGN_OR_RETURN(const ProductCompany company, CompanyOf(options));
  const MakeProducts products = [kept, company, tokens = options.tokens](void* stream,
                                                                         void* workspace) {
    return MakeCublasLtProducts({.stream = stream,
                                 .workspace = workspace,
                                 .tunings = &kept->tunings(),
                                 .on_choice = [kept] { kept->Save(); },
                                 .company = company,
                                 .pinned_tokens = tokens});
  };
  return MakeCudaBackend(
      {.device = options.device,
       .make_ops = KernelsWith(options.device, products, AttentionByCudnn(kept, options)),
       .graphs = options.graphs,
       .collective_sms = options.collective_sms,
       .wait = {.timeout = options.timeout},
       .report = [](const std::string& sentence) { spdlog::warn("{}", sentence); }});
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const DeviceOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, CudaDevices());
  const int count = std::ssize(devices);
  if (options.device < 0 || options.device >= count) {
    return absl::NotFoundError(
        absl::StrCat("GPU ", options.device, ": this process sees ", count, " of them"));
  }
  RETURN_IF_ERROR(CheckArchitecture(devices[options.device], CudaFunctions().architectures));
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
                                    .max_ctas = options.max_blocks,
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
