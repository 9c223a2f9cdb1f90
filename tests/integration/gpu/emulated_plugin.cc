// SPDX-License-Identifier: Apache-2.0

// The CUDA backend as a plug-in whose device is the emulated one and whose NCCL is gloo.
#include <cuda_runtime.h>

#include "tests/integration/gpu/gloo_device.h"
#include "tests/integration/gpu/reference_products.h"
#include "tests/worker/engine/exec/wrong_bit.h"
#include "worker/comm/emulated_link/emulated_link.h"
#include "worker/comm/gloo/gloo_communicator.h"
#include "worker/engine/exec/backend_cuda/cuda_backend.h"
#include "worker/engine/exec/plugin/plugin.h"

namespace stretto {
namespace {

absl::StatusOr<std::vector<DeviceInfo>> Devices() {
  return std::vector<DeviceInfo>{
      {.index = 0, .name = "NVIDIA H200 (emulated)", .capability_major = 9, .capability_minor = 0}};
}

#if defined(EMULATED_STALLS)
// The device of rank 1 stops after that many products. The process lives on.
bool is_rank_1 = false;
bool Ready() {
  static int left = EMULATED_STALLS;
  return !is_rank_1 || left-- > 0;
}
#endif

absl::StatusOr<std::unique_ptr<MatrixProducts>> Products(void* stream, void*) {
#if defined(EMULATED_STALLS)
  return std::make_unique<ReferenceProducts>(stream, Ready);
#else
  return std::make_unique<ReferenceProducts>(stream);
#endif
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const DeviceOptions& options) {
  cuda_emulator::Seed(1);  // streams get on a little whenever the host looks
#if defined(EMULATED_MEMORY)
  cuda_emulator::SetMemory(EMULATED_MEMORY);
#endif
  ASSIGN_OR_RETURN(auto backend, MakeCudaBackend({.device = options.device,
                                                  .make_ops = KernelsWith(options.device, Products),
                                                  .graphs = options.graphs,
                                                  .collective_sms = options.collective_sms,
                                                  .wait = {.timeout = options.timeout}}));
#if defined(EMULATED_WRONG_BIT)
  // A profile's second executor runs the schedule; its first ran the oracle.
  const WrongBit norm{.executor = 1, .buffer = "clip_state", .element = kGradNorm};
  backend = std::make_unique<WrongBitBackend>(std::move(backend), norm);
#endif
  return backend;
}

absl::StatusOr<std::unique_ptr<DeviceCommunicator>> Connect(const DeviceGroupOptions& options) {
#if defined(EMULATED_WITHOUT_NCCL)
  return absl::NotFoundError("cannot open NCCL");
#endif
#if defined(EMULATED_STALLS)
  is_rank_1 = options.rank == 1;
#endif
  ASSIGN_OR_RETURN(GlooNetwork network, OpenGlooNetwork("127.0.0.1"));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host,
                   GlooCommunicator::Connect({.rank = options.rank,
                                              .size = options.size,
                                              .store = options.store,
                                              .prefix = options.prefix,
                                              .network = std::move(network),
                                              .timeout = options.timeout}));
  static auto* issued = new IssuedCalls;  // of the process
  return std::make_unique<GlooDevice>(std::move(host), issued);
}

absl::StatusOr<std::unique_ptr<DeviceCommunicator>> EmulateLink(
    int, const EmulatedLinkOptions& options) {
  return MakeEmulatedLink(options);
}

}  // namespace
}  // namespace stretto

extern "C" __attribute__((visibility("default"))) const stretto::BackendPlugin*
stretto_backend_plugin() {
  static const stretto::BackendPlugin plugin = {.identity = stretto::BuildIdentity(),
                                                .architectures = "90a",
                                                .devices = stretto::Devices,
                                                .make_backend = stretto::MakeBackend,
                                                .connect = stretto::Connect,
                                                .emulate_link = stretto::EmulateLink};
  return &plugin;
}
