#include "worker/daemon/gpu_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace stretto::daemon {
namespace {

// A fault is told when it comes and when it goes.
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

GpuWatch::GpuWatch(Nvml* nvml, const Clock& clock)
    : nvml_(nvml), clock_(clock), read_at_(clock.Monotonic()) {
  if (nvml_ == nullptr) return;
  gpus_ = nvml_->Read();
  thread_ = std::thread([this] { Run(); });
}

GpuWatch::~GpuWatch() {
  {
    const std::lock_guard lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<Gpu> GpuWatch::Gpus() {
  std::unique_lock lock(mu_);
  const absl::Duration age = clock_.Monotonic() - read_at_;
  std::vector<Gpu> gpus = gpus_;
  if (reading_ && age >= kPatience) {
    for (Gpu& gpu : gpus) {
      gpu.fault = absl::StrCat("NVML has not answered for ", absl::FormatDuration(kPatience));
    }
  }
  if (nvml_ == nullptr || reading_ || age < kInterval) return gpus;
  reading_ = true;
  read_at_ = clock_.Monotonic();
  lock.unlock();
  changed_.notify_all();
  return gpus;
}

void GpuWatch::Run() {
  std::unique_lock lock(mu_);
  while (true) {
    changed_.wait(lock, [this] { return reading_ || stop_; });
    if (stop_) return;
    lock.unlock();
    std::vector<Gpu> gpus = nvml_->Read();
    lock.lock();
    LogChanges(gpus_, gpus);
    gpus_ = std::move(gpus);
    reading_ = false;
  }
}

}  // namespace stretto::daemon
