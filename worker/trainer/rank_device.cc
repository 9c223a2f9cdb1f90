// SPDX-License-Identifier: Apache-2.0

// Opens the kernels of this node's cores or the plug-in of a GPU, then connects this rank to all
// others for control messages and to the members of each of its groups for the step.

#include "worker/trainer/rank_device.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
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
#include "worker/engine/layout/layout.h"
#include "worker/engine/layout/transfers.h"
#include "worker/trainer/exit_reason.h"

namespace stretto::trainer {
namespace {

// A peer may take as long as it has announced, for a checkpoint or to prepare. If it dies, its
// connections close at once. If it hangs, the coordinator finds out which rank it is long before
// this limit, which is for ranks without a coordinator.
constexpr absl::Duration kPeerTimeout = absl::Hours(1);
// Of the meeting of a group on its devices, after its hosts have met.
constexpr absl::Duration kDeviceMeeting = absl::Seconds(60);
// A few blocks saturate NVLink, and kernels hardly need the SMs; not measured yet. Between stages
// one tensor crosses while a whole pass computes.
constexpr int kCollectiveBlocks = 4, kStageBlocks = 2;

int BlocksOf(const Group& group) {
  if (group.ranks.size() == 1) return 0;
  return group.axis() == kPpGroupName ? kStageBlocks : kCollectiveBlocks;
}

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
  // Collectives of all groups may be in flight at once.
  int blocks = 0;
  for (const Group& group : GroupsOf(config_.engine, config_.rank)) blocks += BlocksOf(group);
  const EngineSpec& engine = config_.engine;
  ASSIGN_OR_RETURN(backend_, plugin_->make_backend({.tuning_folder = config_.tuning_folder,
                                                    .tuning_root = config_.tuning_root,
                                                    .tokens = int64_t{engine.micro_batch_size} *
                                                              engine.model.sequence_length,
                                                    .collective_sms = blocks,
                                                    .repeatable = config_.repeatable()}));
  ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, plugin_->devices());
  if (!devices.empty()) {
    const DeviceInfo& gpu = devices.front();
    kernels_ = absl::StrCat("compute capability ", gpu.capability_major, ".", gpu.capability_minor);
    peak_flops_ = PeakFlops(gpu.name);
  }
  return absl::OkStatus();
}

absl::Status RankDevice::Connect(Store& store, FlightRecorder* flight) {
  // Control messages have connections of their own. They bypass an emulated link, so they do not
  // disturb its timing.
  if (config_.engine.world_size() > 1) {
    ASSIGN_OR_RETURN(network_, OpenGlooNetwork(config_.interface_address));
  }
  std::vector<Rank> all;
  for (int rank = 0; rank < config_.engine.world_size(); ++rank) all.push_back(Rank::Of(rank));
  ASSIGN_OR_RETURN(control_, GlooCommunicator::Connect({.rank = config_.rank.value(),
                                                        .size = config_.engine.world_size(),
                                                        .store = &store,
                                                        .prefix = "control",
                                                        .network = network_,
                                                        .timeout = kPeerTimeout,
                                                        .meeting = config_.meeting,
                                                        .watch = Watch("control", all, flight)}));
  for (const Group& group : GroupsOf(config_.engine, config_.rank)) {
    ASSIGN_OR_RETURN(Connection connection, ConnectGroup(group, store, flight));
    connection.alike = MembersAreAlike(config_.engine, config_.rank, group);
    groups_.push_back(std::move(connection));
  }
  return absl::OkStatus();
}

CallWatch* RankDevice::Watch(const std::string& group, std::vector<Rank> ranks,
                             FlightRecorder* flight) {
  if (flight == nullptr) return nullptr;
  return watches_.emplace_back(std::make_unique<FlightWatch>(*flight, group, std::move(ranks)))
      .get();
}

absl::StatusOr<RankDevice::Connection> RankDevice::ConnectGroup(const Group& group, Store& store,
                                                                FlightRecorder* flight) {
  Connection connection;
  const int size = std::ssize(group.ranks);
  if (size == 1) return connection;
  // Groups of the same name are told apart by their first rank.
  const std::string name = absl::StrCat(group.name, ".", group.ranks.front().value());
  const int rank = static_cast<int>(
      std::find(group.ranks.begin(), group.ranks.end(), config_.rank) - group.ranks.begin());
  if (plugin_ != nullptr) {
    absl::StatusOr<std::unique_ptr<DeviceCommunicator>> device =
        plugin_->connect({.rank = rank,
                          .size = size,
                          .store = &store,
                          .max_blocks = BlocksOf(group),
                          .prefix = absl::StrCat("device-", name),
                          .timeout = kDeviceMeeting});
    if (absl::IsUnavailable(device.status())) return device.status();  // a peer went away
    RETURN_IF_ERROR(OfDevice(device.status()));
    connection.device = *std::move(device);
    connection.watch = Watch(name, group.ranks, flight);
    return connection;
  }
  ASSIGN_OR_RETURN(connection.host,
                   GlooCommunicator::Connect({.rank = rank,
                                              .size = size,
                                              .store = &store,
                                              .prefix = name,
                                              .network = network_,
                                              .timeout = kPeerTimeout,
                                              .meeting = config_.meeting,
                                              .watch = Watch(name, group.ranks, flight)}));
  if (config_.emulated_link.has_value()) {
    connection.host =
        std::make_unique<PacedCommunicator>(std::move(connection.host), *config_.emulated_link);
  }
  return connection;
}

GroupLinks RankDevice::links() const {
  GroupLinks links;
  for (const Connection& group : groups_) {
    links.push_back({.host = group.host.get(),
                     .device = group.device.get(),
                     .watch = group.watch,
                     .alike = group.alike});
  }
  return links;
}

void RankDevice::Abort() {
  control_->Abort();
  for (const Connection& group : groups_) {
    if (group.host != nullptr) group.host->Abort();
    if (group.device != nullptr) group.device->Abort();
  }
}

}  // namespace stretto::trainer
