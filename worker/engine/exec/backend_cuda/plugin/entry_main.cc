// The plug-in's one symbol.
#include "worker/engine/exec/backend_cuda/plugin/devices.h"
#include "worker/engine/exec/plugin/plugin.h"

extern "C" __attribute__((visibility("default"))) const stretto::BackendPlugin*
stretto_backend_plugin() {
  static const stretto::BackendPlugin plugin = {.identity = stretto::BuildIdentity(),
                                                .architectures = STRETTO_CUDA_ARCHITECTURES,
                                                .devices = stretto::CudaDevices,
                                                .make_backend = nullptr,
                                                .connect = nullptr,
                                                .emulate_link = nullptr};
  return &plugin;
}
