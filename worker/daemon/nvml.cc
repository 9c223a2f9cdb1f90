// SPDX-License-Identifier: Apache-2.0

// Opens libnvidia-ml by dlopen with our own declarations. A reading first drains the event set for
// Xids, then asks every GPU. If the answer means "lost", the GPU keeps its known properties and
// gets the fault.

#include "worker/daemon/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto::daemon {
namespace {

// The part of NVML's interface that we use.
using Device = void*;
using EventSet = void*;
enum Return : int { kSuccess = 0, kTimeout = 10, kGpuIsLost = 15, kResetRequired = 16 };
struct Memory {
  unsigned long long total, free, used;
};
struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
constexpr unsigned long long kXidCriticalError = 0x8;
constexpr int kUncorrected = 1, kVolatile = 0;
constexpr unsigned kTextBytes = 96;  // of names, versions and UUIDs
constexpr char kLost[] = "lost: it does not answer on the bus any more";

// Xids that an application causes itself; the GPU is healthy. (Graphics exceptions, page faults, an
// ended program, a damaged push buffer.)
constexpr std::array<unsigned long long, 6> kOfPrograms = {13, 31, 43, 45, 68, 109};

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  Return (*Init_v2)();
  Return (*Shutdown)();
  const char* (*ErrorString)(Return);
  Return (*SystemGetDriverVersion)(char*, unsigned);
  Return (*DeviceGetCount_v2)(unsigned*);
  Return (*DeviceGetHandleByIndex_v2)(unsigned, Device*);
  Return (*DeviceGetUUID)(Device, char*, unsigned);
  Return (*DeviceGetName)(Device, char*, unsigned);
  Return (*DeviceGetMemoryInfo)(Device, Memory*);
  Return (*DeviceGetTotalEccErrors)(Device, int, int, unsigned long long*);
  Return (*DeviceGetRemappedRows)(Device, unsigned*, unsigned*, unsigned*, unsigned*);
  Return (*EventSetCreate)(EventSet*);
  Return (*EventSetFree)(EventSet);
  Return (*EventSetWait_v2)(EventSet, EventData*, unsigned);
  Return (*DeviceRegisterEvents)(Device, unsigned long long, EventSet);

  ~Library() {
    if (handle != nullptr) dlclose(handle);
  }

  template <class Function>
  absl::Status Find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (function != nullptr) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("NVML has no function ", name, ": the driver is too old"));
  }

  absl::Status FindAll() {
#define FIND(name) RETURN_IF_ERROR(Find("nvml" #name, name))
    FIND(Init_v2);
    FIND(Shutdown);
    FIND(ErrorString);
    FIND(SystemGetDriverVersion);
    FIND(DeviceGetCount_v2);
    FIND(DeviceGetHandleByIndex_v2);
    FIND(DeviceGetUUID);
    FIND(DeviceGetName);
    FIND(DeviceGetMemoryInfo);
    FIND(DeviceGetTotalEccErrors);
    FIND(DeviceGetRemappedRows);
    FIND(EventSetCreate);
    FIND(EventSetFree);
    FIND(EventSetWait_v2);
    FIND(DeviceRegisterEvents);
#undef FIND
    return absl::OkStatus();
  }

  absl::Status Check(Return result, absl::string_view what) const {
    if (result == kSuccess) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat("NVML: ", what, ": ", ErrorString(result)));
  }
};

struct Nvml::Known {
  Gpu gpu;
  Device device = nullptr;  // kept when lost: its Xids may still arrive
  bool lost = true;
  std::string xid_fault;  // persistent
};

absl::StatusOr<std::unique_ptr<Nvml>> Nvml::Open(const std::string& path) {
  auto library = std::make_unique<Library>();
  library->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) {
    const char* reason = dlerror();
    return absl::NotFoundError(
        absl::StrCat("no NVIDIA driver: ", reason != nullptr ? reason : "no reason given"));
  }
  RETURN_IF_ERROR(library->FindAll());
  std::unique_ptr<Nvml> nvml(new Nvml(std::move(library)));
  RETURN_IF_ERROR(nvml->Start());
  return nvml;
}

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {}

Nvml::~Nvml() {
  if (events_ != nullptr) library_->EventSetFree(events_);
  if (started_) library_->Shutdown();
}

absl::Status Nvml::Start() {
  const MutexLock lock(mu_);
  RETURN_IF_ERROR(library_->Check(library_->Init_v2(), "cannot start"));
  started_ = true;
  char version[kTextBytes] = "";
  RETURN_IF_ERROR(library_->Check(library_->SystemGetDriverVersion(version, kTextBytes),
                                  "cannot read the driver's version"));
  driver_version_ = version;
  unsigned count = 0;
  RETURN_IF_ERROR(library_->Check(library_->DeviceGetCount_v2(&count), "cannot count GPUs"));
  if (library_->EventSetCreate(&events_) != kSuccess) events_ = nullptr;
  gpus_.resize(count);
  for (unsigned i = 0; i < count; ++i) {
    gpus_[i].gpu.index = i;
    Find(gpus_[i]);
  }
  return absl::OkStatus();
}

bool Nvml::Find(Known& known) {
  Device device = nullptr;
  const auto index = static_cast<unsigned>(known.gpu.index);
  if (library_->DeviceGetHandleByIndex_v2(index, &device) != kSuccess) return false;
  known.device = device;
  known.lost = false;
  if (events_ != nullptr) library_->DeviceRegisterEvents(device, kXidCriticalError, events_);
  return true;
}

std::vector<Gpu> Nvml::Read() {
  const MutexLock lock(mu_);
  ReadEvents();
  std::vector<Gpu> gpus;
  for (Known& known : gpus_) {
    ReadOne(known);
    gpus.push_back(known.gpu);
  }
  return gpus;
}

void Nvml::ReadEvents() {
  EventData event = {};
  // Bounded, because a failing GPU may report without end.
  for (int i = 0; events_ != nullptr && i < 1000; ++i) {
    if (library_->EventSetWait_v2(events_, &event, 0) != kSuccess) return;
    for (Known& known : gpus_) {
      if (known.device != event.device || (event.type & kXidCriticalError) == 0) continue;
      ++known.gpu.xid_errors;
      const bool of_program =
          std::find(kOfPrograms.begin(), kOfPrograms.end(), event.data) != kOfPrograms.end();
      if (!of_program) known.xid_fault = absl::StrCat("Xid ", event.data);
    }
  }
}

void Nvml::ReadOne(Known& known) {
  Gpu& gpu = known.gpu;
  gpu.fault = known.xid_fault;
  if (known.lost && !Find(known)) {
    gpu.fault = known.device == nullptr ? "NVML gives no handle for it" : kLost;
    return;
  }
  // An unsupported feature (ECC on a desktop card, for example) is no sign of bad health.
  const auto note = [&](Return result) {
    if (result == kGpuIsLost) {
      gpu.fault = kLost;
      known.lost = true;
    }
    if (result == kResetRequired) gpu.fault = "needs a reset";
    return result == kSuccess;
  };
  char text[kTextBytes] = "";
  if (note(library_->DeviceGetUUID(known.device, text, kTextBytes))) {
    if (gpu.uuid.empty()) gpu.uuid = text;
    if (gpu.uuid != text) gpu.fault = absl::StrCat("found ", text, " in its place");
  }
  if (note(library_->DeviceGetName(known.device, text, kTextBytes))) gpu.name = text;
  if (Memory memory; note(library_->DeviceGetMemoryInfo(known.device, &memory))) {
    gpu.memory_bytes = static_cast<int64_t>(memory.total);
    gpu.memory_used_bytes = static_cast<int64_t>(memory.total - memory.free);
  }
  unsigned long long errors = 0;
  if (note(library_->DeviceGetTotalEccErrors(known.device, kUncorrected, kVolatile, &errors))) {
    gpu.ecc_uncorrected = static_cast<int64_t>(errors);
    if (errors > 0 && gpu.fault.empty()) {
      gpu.fault = absl::StrCat(errors, " uncorrected memory error", errors == 1 ? "" : "s");
    }
  }
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (note(library_->DeviceGetRemappedRows(known.device, &corrected, &uncorrected, &pending,
                                           &failed)) &&
      gpu.fault.empty()) {
    if (failed != 0) gpu.fault = "remapping of a memory row failed";
    if (failed == 0 && pending != 0) gpu.fault = "a memory row waits to be remapped: needs a reset";
  }
}

}  // namespace stretto::daemon
