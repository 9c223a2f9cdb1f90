// SPDX-License-Identifier: Apache-2.0

// Reports add to the series of their rank as they come. What others know, such as GPUs, the memory
// of trainers and certificates, is asked for at each scrape, before the lock is taken.

#include "worker/daemon/metrics.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "prometheus/collectable.h"
#include "proto/base/version.h"
#include "proto/metrics/families.h"
#include "worker/daemon/metric_table.h"
#include "worker/daemon/rank_series.h"

namespace stretto::daemon {
namespace {

using metrics::Row;
using stretto::v1alpha1::RankReport;

double UnixSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

void Show(const Gpu& gpu, metrics::Families* families) {
  const std::vector<std::string> labels = {absl::StrCat(gpu.index), gpu.uuid};
  families->Add(Row(kMetrics, "stretto_gpu_healthy"), labels, gpu.fault.empty() ? 1 : 0);
  families->Add(Row(kMetrics, "stretto_gpu_memory_bytes"), labels,
                static_cast<double>(gpu.memory_bytes));
  families->Add(Row(kMetrics, "stretto_gpu_memory_used_bytes"), labels,
                static_cast<double>(gpu.memory_used_bytes));
  families->Add(Row(kMetrics, "stretto_gpu_ecc_uncorrected_total"), labels,
                static_cast<double>(gpu.ecc_uncorrected));
  families->Add(Row(kMetrics, "stretto_gpu_xid_errors_total"), labels,
                static_cast<double>(gpu.xid_errors));
}

}  // namespace

struct Metrics::Series {
  RankSeries rank;
  std::optional<absl::Duration> expires;  // on the monotonic clock
};

class Metrics::Collector final : public prometheus::Collectable {
 public:
  explicit Collector(Metrics& metrics) : metrics_(metrics) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    metrics::Families families(kMetrics);
    if (metrics_.options_.gpus != nullptr) {
      for (const Gpu& gpu : metrics_.options_.gpus()) Show(gpu, &families);
    }
    if (metrics_.options_.trainers != nullptr) {
      for (const TrainerMemory& trainer : metrics_.options_.trainers()) {
        families.Add(Row(kMetrics, "stretto_trainer_resident_bytes"),
                     {trainer.job_id, absl::StrCat(trainer.rank)},
                     static_cast<double>(trainer.resident_bytes));
      }
    }
    if (metrics_.options_.certificates != nullptr) {
      for (const tls::Lifetime& one : metrics_.options_.certificates()) {
        families.Add(Row(kMetrics, "stretto_certificate_begin_timestamp_seconds"), {one.of},
                     UnixSeconds(one.begin));
        families.Add(Row(kMetrics, "stretto_certificate_end_timestamp_seconds"), {one.of},
                     UnixSeconds(one.end));
      }
    }
    const MutexLock lock(metrics_.mu_);
    metrics_.ExpireLocked();
    for (const auto& [key, series] : metrics_.series_) {
      series.rank.Show(key.first, key.second, &families);
    }
    families.Add(Row(kMetrics, "stretto_trainers"), {}, metrics_.alive_);
    families.Add(Row(kMetrics, "stretto_coordinator_connected"), {}, metrics_.connected_ ? 1 : 0);
    families.Add(Row(kMetrics, "stretto_build_info"), {kBuildVersion, metrics_.options_.worker}, 1);
    return std::move(families).Take();
  }

 private:
  Metrics& metrics_;
};

Metrics::Metrics(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), collector_(std::make_unique<Collector>(*this)) {}
Metrics::~Metrics() = default;

void Metrics::Record(const RankReport& report) {
  const bool known =
      report.has_prepared() || report.has_step() || report.has_checkpoint() || report.has_exit();
  if (!known) return;
  const MutexLock lock(mu_);
  Series& series = series_[{report.job_id(), report.rank()}];
  series.expires.reset();  // a newer attempt of an ended job
  if (report.has_prepared()) series.rank.Add(report.prepared());
  if (report.has_step()) series.rank.Add(report.step());
  if (report.has_checkpoint()) series.rank.Add(report.checkpoint());
  if (report.has_exit()) {
    series.rank.Add(report.exit());
    series.expires = clock_.Monotonic() + options_.retention;
  }
}

void Metrics::SetTrainers(int alive) {
  const MutexLock lock(mu_);
  alive_ = alive;
}

void Metrics::SetConnected(bool connected) {
  const MutexLock lock(mu_);
  connected_ = connected;
}

void Metrics::ExpireLocked() {
  const absl::Duration now = clock_.Monotonic();
  std::erase_if(series_, [&](const auto& entry) {
    return entry.second.expires.has_value() && *entry.second.expires <= now;
  });
}

std::string Metrics::Text() { return metrics::Text(collector_->Collect()); }

}  // namespace stretto::daemon
