// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GPUs of this node, through the driver's management library. The library comes with the
// driver, so it is opened at run time with our own declarations; a node without it has no GPUs.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/mutex.h"

namespace stretto::daemon {

// One GPU in an NVML reading. A number that the GPU does not report is 0.
struct Gpu {
  int index = 0;     // NVML's: by PCI bus
  std::string uuid;  // "GPU-...", for CUDA_VISIBLE_DEVICES
  std::string name;  // "NVIDIA H200"
  int64_t memory_bytes = 0;
  int64_t memory_used_bytes = 0;
  int64_t ecc_uncorrected = 0;  // memory errors since the driver was loaded
  int64_t xid_errors = 0;       // critical events since this object was made
  std::string fault;            // why no job should run here; empty while healthy
};

// Thread-safe.
class Nvml {
 public:
  // Errors, each with the reason: NotFound (no such library, so no driver), FailedPrecondition (a
  // function is missing), Unavailable (the driver does not answer).
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(
      const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();

  const std::string& driver_version() const { return driver_version_; }

  // Returns all GPUs in NVML's order. A GPU that no longer answers (it fell off the bus) keeps its
  // place and its known properties and has a fault; every reading asks for it again, and it is
  // healthy when the same one (by UUID) answers. Faults are: lost, needs a reset, row remapping
  // failed or pending, uncorrected memory errors, or a critical Xid that is not an application's
  // own. Faults by Xid persist for the lifetime of this object; if events cannot be read, only the
  // other faults are detected.
  std::vector<Gpu> Read();

 private:
  struct Library;
  struct Known;
  explicit Nvml(std::unique_ptr<Library> library);
  absl::Status Start();
  // Gets the GPU's handle and registers for its Xids. Returns false if NVML gives no handle.
  bool Find(Known& known) REQUIRES(mu_);
  void ReadEvents() REQUIRES(mu_);
  void ReadOne(Known& known) REQUIRES(mu_);

  Mutex mu_;
  const std::unique_ptr<Library> library_;
  std::string driver_version_;
  bool started_ = false;
  void* events_ GUARDED_BY(mu_) = nullptr;  // nvmlEventSet_t, or null
  std::vector<Known> gpus_ GUARDED_BY(mu_);
};

}  // namespace stretto::daemon
