// SPDX-License-Identifier: Apache-2.0
#include "tests/worker/daemon/fake_nvml/fake_nvml.h"

#include <cstdio>

namespace fake_nvml {

State& state() {
  static auto* state = new State;
  return *state;
}

}  // namespace fake_nvml

using fake_nvml::state;

namespace {

// Handles are GPU numbers plus one, plus a thousand for each time it came back.
fake_nvml::Gpu& GpuOf(void* device) {
  return state().gpus[(reinterpret_cast<size_t>(device) - 1) % 1000];
}
void* HandleOf(size_t gpu) {
  return reinterpret_cast<void*>(gpu + 1 + 1000 * state().gpus[gpu].returns);
}
// Of asking for anything by a handle.
int ResultOf(void* device) {
  const fake_nvml::Gpu& gpu = GpuOf(device);
  const bool stale = reinterpret_cast<size_t>(device) / 1000 != gpu.returns;
  return stale ? 15 : gpu.result;
}

int Text(const std::string& text, char* out, unsigned size) {
  std::snprintf(out, size, "%s", text.c_str());
  return 0;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (state().init == 0) ++state().started;
  return state().init;
}
int nvmlShutdown() {
  --state().started;
  return 0;
}
const char* nvmlErrorString(int result) {
  return result == 9 ? "Driver Not Loaded" : result == 15 ? "GPU is lost" : "Other Error";
}
int nvmlSystemGetDriverVersion(char* out, unsigned size) { return Text("580.1", out, size); }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(state().gpus.size());
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = HandleOf(index);
  return state().gpus[index].handle_result;
}
int nvmlDeviceGetUUID(void* device, char* out, unsigned size) {
  const int result = ResultOf(device);
  return result != 0 ? result : Text(GpuOf(device).uuid, out, size);
}
int nvmlDeviceGetName(void* device, char* out, unsigned size) {
  const int result = ResultOf(device);
  return result != 0 ? result : Text(GpuOf(device).name, out, size);
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
  const fake_nvml::Gpu& gpu = GpuOf(device);
  if (const int result = ResultOf(device); result != 0) return result;
  total_free_used[0] = gpu.total;
  total_free_used[1] = gpu.free;
  total_free_used[2] = gpu.total - gpu.free;
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
  const fake_nvml::Gpu& gpu = GpuOf(device);
  if (type != 1 || counter != 0) return 2;
  *count = gpu.ecc;
  const int result = ResultOf(device);
  return result != 0 ? result : gpu.ecc_result;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
  const fake_nvml::Gpu& gpu = GpuOf(device);
  *corrected = *uncorrected = 0;
  *pending = gpu.rows_pending;
  *failed = gpu.rows_failed;
  return ResultOf(device);
}
int nvmlEventSetCreate(void** set) {
  *set = &state();
  return state().events;
}
int nvmlEventSetFree(void*) { return 0; }
int nvmlDeviceRegisterEvents(void*, unsigned long long types, void*) { return types == 8 ? 0 : 2; }
int nvmlEventSetWait_v2(void*, void* out, unsigned timeout_ms) {
  struct Event {
    void* device;
    unsigned long long type, data;
  };
  if (timeout_ms != 0) return 2;  // would block the daemon
  if (state().at_reading != nullptr && state().xids.empty()) state().at_reading();
  if (state().xids.empty()) return 10;
  const auto [gpu, xid] = state().xids.front();
  state().xids.pop_front();
  *static_cast<Event*>(out) = {HandleOf(static_cast<size_t>(gpu)), 8, xid};
  return 0;
}

}  // extern "C"
