// SPDX-License-Identifier: Apache-2.0
#pragma once
// The device of a rank and its connection to its peers: this node's cores and gloo, or a GPU with
// its plug-in (worker/engine/exec/plugin), with gloo for messages of the host.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/gloo/gloo_communicator.h"
#include "worker/comm/store.h"
#include "worker/engine/exec/backend.h"
#include "worker/engine/exec/plugin/plugin.h"
#include "worker/engine/program/program.h"
#include "worker/report/flight_record.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/process/flight_watch.h"

namespace stretto {
class Ops;
}

namespace stretto::trainer {

// Not thread-safe, except Abort. Engines that use a device must be destroyed before it.
class RankDevice {
 public:
  // Opens the device that config selects; the daemon makes one GPU visible, which is number 0.
  // `config` is borrowed. Errors: those of LoadPlugin and BackendPlugin::make_backend, marked by
  // OfDevice; Unimplemented (an unsupported CPU).
  static absl::StatusOr<std::unique_ptr<RankDevice>> Open(const JobConfig& config);
  ~RankDevice();

  Backend& backend() { return *backend_; }
  // Identifies everything that affects rounding in its kernels, for CheckSameKernels and logs.
  const std::string& kernels() const { return kernels_; }
  // Returns PeakFlops (worker/engine/cost/mfu.h) of the GPU; nothing for a GPU that is not in the
  // table and for cores.
  std::optional<double> peak_flops() const { return peak_flops_; }

  // Connects to the other ranks; all call it together. `flight`, which is borrowed and may be null,
  // gets the calls of each group. Errors: those of GlooCommunicator::Connect and, marked by
  // OfDevice, of BackendPlugin::connect.
  absl::Status Connect(Store& store, FlightRecorder* flight);
  // After Connect: of all ranks, for the host; and of each group, for step programs.
  Communicator& control() { return *control_; }
  GroupLinks links() const;
  // After Connect, from any thread: aborts everything that waits for a peer.
  void Abort();

 private:
  explicit RankDevice(const JobConfig& config) : config_(config) {}
  absl::Status OpenCpu();
  absl::Status OpenCuda();
  // What connects this rank to the others of a group; nothing for a group of one.
  struct Connection {
    std::unique_ptr<Communicator> host;
    std::unique_ptr<DeviceCommunicator> device;
    CallWatch* watch = nullptr;  // GroupLink::watch
    bool alike = true;           // GroupLink::alike
  };
  absl::StatusOr<Connection> ConnectGroup(const Group& group, Store& store, FlightRecorder* flight);
  // Returns what watches the calls of a group, or null.
  CallWatch* Watch(const std::string& group, std::vector<Rank> ranks, FlightRecorder* flight);

  const JobConfig& config_;
  std::unique_ptr<Ops> ops_;               // of a CPU
  const BackendPlugin* plugin_ = nullptr;  // of a GPU
  std::unique_ptr<Backend> backend_;
  std::string kernels_;
  std::optional<double> peak_flops_;
  GlooNetwork network_;  // moves the bytes of all groups on CPUs, and of control messages
  std::vector<std::unique_ptr<FlightWatch>> watches_;  // of the groups below
  std::unique_ptr<Communicator> control_;
  std::vector<Connection> groups_;  // in the order of GroupsOf
};

}  // namespace stretto::trainer
