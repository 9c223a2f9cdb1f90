// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/rank_device.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_ops.h"
#include "proto/base/status_macros.h"
#include "worker/comm/gloo/gloo_communicator.h"
#include "worker/comm/paced.h"
#include "worker/engine/cost/mfu.h"
#include "worker/engine/exec/backend_cpu/cpu_backend.h"
#include "worker/engine/exec/plugin/loader.h"
#include "worker/trainer/exit_reason.h"

namespace stretto::trainer {
namespace {

constexpr absl::Duration kPeerTimeout = absl::Seconds(60);
// A few blocks saturate NVLink, and kernels hardly need the SMs; not measured yet.
constexpr int kCollectiveBlocks = 4;

}  // namespace

RankDevice::~RankDevice() = default;

absl::StatusOr<std::unique_ptr<RankDevice>> RankDevice::Open(const JobConfig& config) {
  std::unique_ptr<RankDevice> device(new RankDevice(config));
  RETURN_IF_ERROR(config.on_gpu ? OfDevice(device->OpenCuda()) : device->OpenCpu());
  spdlog::info("computes on {} with {}", device->backend_->Describe(), device->kernels_);
  return device;
}

absl::Status RankDevice::OpenCpu() {
  std::string why;
  if (!CpuSupported(&why)) return absl::UnimplementedError(why);
  kernels_ = CpuIsa();
  ops_ = MakeCpuOps();
  backend_ = MakeCpuBackend(*ops_);
  return absl::OkStatus();
}

absl::Status RankDevice::OpenCuda() {
  ASSIGN_OR_RETURN(plugin_, LoadPlugin(CudaPluginOptions()));
  ASSIGN_OR_RETURN(backend_,
                   plugin_->make_backend(
                       {.tuning_folder = config_.tuning_folder,
                        .collective_sms = config_.engine.tp_size > 1 ? kCollectiveBlocks : 0}));
  ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, plugin_->devices());
  if (!devices.empty()) {
    const DeviceInfo& gpu = devices.front();
    kernels_ = absl::StrCat("compute capability ", gpu.capability_major, ".", gpu.capability_minor);
    peak_flops_ = PeakFlops(gpu.name);
  }
  return absl::OkStatus();
}

absl::Status RankDevice::Connect(Store& store) {
  const int rank = TpRankOf(config_.engine, config_.rank).value();  // as communicators take it
  ASSIGN_OR_RETURN(host_, GlooCommunicator::Connect({.rank = rank,
                                                     .size = config_.engine.tp_size,
                                                     .store = &store,
                                                     .prefix = "tp",
                                                     .address = config_.interface_address,
                                                     .timeout = kPeerTimeout}));
  // Control messages bypass the emulated link, so they do not disturb its timing.
  control_ = host_.get();
  if (plugin_ != nullptr && config_.engine.tp_size > 1) {
    absl::StatusOr<std::unique_ptr<DeviceCommunicator>> device =
        plugin_->connect({.rank = rank,
                          .size = config_.engine.tp_size,
                          .store = &store,
                          .max_blocks = kCollectiveBlocks,
                          .prefix = "device-tp",
                          .timeout = kPeerTimeout});
    if (absl::IsUnavailable(device.status())) return device.status();  // a peer went away
    RETURN_IF_ERROR(OfDevice(device.status()));
    device_ = *std::move(device);
  }
  if (plugin_ == nullptr && config_.emulated_link.has_value())
    host_ = std::make_unique<PacedCommunicator>(std::move(host_), *config_.emulated_link);
  return absl::OkStatus();
}

GroupLink RankDevice::link() const {
  if (plugin_ != nullptr) return {.device = device_.get()};
  return {.host = host_.get()};
}

void RankDevice::Abort() {
  host_->Abort();
  if (device_ != nullptr) device_->Abort();
}

}  // namespace stretto::trainer
