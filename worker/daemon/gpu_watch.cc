// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/gpu_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace stretto::daemon {
namespace {

// Logs a fault when it appears and when it disappears.
void LogChanges(const std::vector<Gpu>& before, const std::vector<Gpu>& after) {
  for (size_t i = 0; i < after.size(); ++i) {
    if (before[i].fault == after[i].fault) continue;
    if (after[i].fault.empty()) {
      spdlog::info("GPU is healthy again gpu={} uuid={} was={}", after[i].index, after[i].uuid,
                   before[i].fault);
    } else {
      spdlog::error("GPU is faulty gpu={} uuid={} fault={}", after[i].index, after[i].uuid,
                    after[i].fault);
    }
  }
}

}  // namespace

std::unique_ptr<Nvml> OpenGpus(const std::string& library) {
  if (library.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<Nvml>> nvml = Nvml::Open(library);
  if (!nvml.ok()) {
    spdlog::log(absl::IsNotFound(nvml.status()) ? spdlog::level::info : spdlog::level::warn,
                "this node offers no GPUs: {}", nvml.status().ToString());
    return nullptr;
  }
  spdlog::info("NVIDIA driver version={}", (*nvml)->driver_version());
  return *std::move(nvml);
}

GpuWatch::GpuWatch(std::shared_ptr<Nvml> nvml, const Clock& clock)
    : clock_(clock), state_(std::make_shared<State>()), read_at_(clock.Monotonic()) {
  if (nvml == nullptr) return;
  state_->gpus = nvml->Read();
  state_->nvml = std::move(nvml);
  thread_ = std::thread([state = state_] { Run(state); });
}

GpuWatch::~GpuWatch() {
  if (!thread_.joinable()) return;
  MutexLock lock(state_->mu);
  state_->stop = true;
  state_->changed.NotifyAll();
  const bool ended =
      state_->changed.WaitFor(state_->mu, absl::ToChronoMilliseconds(kGrace),
                              [this]() REQUIRES(state_->mu) { return state_->ended; });
  lock.Unlock();
  ended ? thread_.join() : thread_.detach();
}

std::vector<Gpu> GpuWatch::Gpus() {
  MutexLock lock(state_->mu);
  const absl::Duration age = clock_.Monotonic() - read_at_;
  std::vector<Gpu> gpus = state_->gpus;
  if (state_->reading && age >= kPatience) {
    for (Gpu& gpu : gpus) {
      gpu.fault = absl::StrCat("NVML has not answered for ", absl::FormatDuration(kPatience));
    }
  }
  if (state_->nvml == nullptr || state_->reading || age < kInterval) return gpus;
  state_->reading = true;
  read_at_ = clock_.Monotonic();
  lock.Unlock();
  state_->changed.NotifyAll();
  return gpus;
}

void GpuWatch::Run(const std::shared_ptr<State>& state) {
  MutexLock lock(state->mu);
  while (true) {
    state->changed.Wait(state->mu,
                        [&]() REQUIRES(state->mu) { return state->reading || state->stop; });
    if (state->stop) break;
    lock.Unlock();
    std::vector<Gpu> gpus = state->nvml->Read();
    lock.Lock();
    if (state->stop) break;  // possibly much later: even the log may be gone
    LogChanges(state->gpus, gpus);
    state->gpus = std::move(gpus);
    state->reading = false;
  }
  state->ended = true;
  state->changed.NotifyAll();
}

}  // namespace stretto::daemon
