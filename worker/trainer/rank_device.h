// SPDX-License-Identifier: Apache-2.0
#pragma once
// What computes for a rank, and how it reaches its peers: this node's cores and gloo, or a GPU and
// what its plug-in brings (worker/engine/exec/plugin), with gloo for what the host has to say.

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/store.h"
#include "worker/engine/exec/backend.h"
#include "worker/engine/exec/plugin/plugin.h"
#include "worker/trainer/job_config.h"

namespace stretto {
class Ops;
}

namespace stretto::trainer {

// One thread, except Abort. Engines that use it end before it.
class RankDevice {
 public:
  // The device that config asks for; the daemon has made one GPU visible, which is number 0.
  // `config` is borrowed. Errors: those of LoadPlugin and BackendPlugin::make_backend, marked by
  // OfDevice; Unimplemented (this CPU).
  static absl::StatusOr<std::unique_ptr<RankDevice>> Open(const JobConfig& config);
  ~RankDevice();

  Backend& backend() { return *backend_; }
  // What decides how its kernels round, for CheckSameKernels and logs.
  const std::string& kernels() const { return kernels_; }
  // PeakFlops (worker/engine/cost/mfu.h) of the GPU; none for one that is not in its table and for
  // cores.
  std::optional<double> peak_flops() const { return peak_flops_; }

  // Meets the other ranks, which all call it. Errors: those of GlooCommunicator::Connect and,
  // marked by OfDevice, of BackendPlugin::connect.
  absl::Status Connect(Store& store);
  // Once connected: for the host, and for step programs.
  Communicator& control() { return *control_; }
  GroupLink link() const;
  // Once connected, from any thread: ends what waits for a peer.
  void Abort();

 private:
  explicit RankDevice(const JobConfig& config) : config_(config) {}
  absl::Status OpenCpu();
  absl::Status OpenCuda();

  const JobConfig& config_;
  std::unique_ptr<Ops> ops_;               // of a CPU
  const BackendPlugin* plugin_ = nullptr;  // of a GPU
  std::unique_ptr<Backend> backend_;
  std::string kernels_;
  std::optional<double> peak_flops_;
  std::unique_ptr<Communicator> host_;
  Communicator* control_ = nullptr;  // host_, or what it decorates
  std::unique_ptr<DeviceCommunicator> device_;
};

}  // namespace stretto::trainer
