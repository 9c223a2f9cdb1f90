// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GPUs of this node, through the driver's management library. It comes with the driver, so it
// is opened at run time by declarations of our own; a node without it has no GPUs.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/mutex.h"

namespace stretto::daemon {

// What NVML says now. A number that a GPU cannot tell is 0.
struct Gpu {
  int index = 0;     // NVML's: by PCI bus
  std::string uuid;  // "GPU-..."; what CUDA_VISIBLE_DEVICES takes
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
  // Errors, each with the reason in words: NotFound (no such library: no driver),
  // FailedPrecondition (a function is missing), Unavailable (the driver does not answer).
  static absl::StatusOr<std::unique_ptr<Nvml>> Open(
      const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();

  const std::string& driver_version() const { return driver_version_; }

  // All GPUs, in NVML's order. One that cannot be asked any more (it fell off the bus) stays in its
  // place with what was known of it and a fault; it is asked for anew at every reading, and healthy
  // when the same one (by UUID) answers. A fault is: lost, in need of a reset, row remapping failed
  // or pending, uncorrected memory errors, or a critical Xid that is not an application's own.
  // Faults by Xid stay until this object is made anew; where events cannot be read, the other signs
  // remain.
  std::vector<Gpu> Read();

 private:
  struct Library;
  struct Known;
  explicit Nvml(std::unique_ptr<Library> library);
  absl::Status Start();
  // Asks for the GPU's handle, and to be told of its Xids. False: NVML gives none.
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
