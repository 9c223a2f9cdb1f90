#include "worker/daemon/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"
#include "proto/base/version.h"

namespace stretto::daemon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using stretto::v1alpha1::CheckpointReport;
using stretto::v1alpha1::Ledger;
using stretto::v1alpha1::RankReport;
using stretto::v1alpha1::StepReport;

constexpr std::array<double, 18> kStepBuckets = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600};

using LedgerKey = std::tuple<std::string, std::string, std::string>;  // part, group, phase
using Labels = std::vector<ClientMetric::Label>;

double SecondsOf(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + static_cast<double>(time.nanos()) * 1e-9;
}

ClientMetric Counter(const Labels& labels, double value) {
  ClientMetric metric;
  metric.label = labels;
  metric.counter.value = value;
  return metric;
}

ClientMetric Gauge(const Labels& labels, double value) {
  ClientMetric metric;
  metric.label = labels;
  metric.gauge.value = value;
  return metric;
}

std::vector<MetricFamily> PerGpu(const std::vector<Gpu>& gpus) {
  using MT = MetricType;
  MetricFamily healthy{"stretto_gpu_healthy", "1 while trainers may run on it.", MT::Gauge, {}};
  MetricFamily memory{"stretto_gpu_memory_bytes", "Memory of the GPU.", MT::Gauge, {}};
  MetricFamily used{"stretto_gpu_memory_used_bytes", "Memory in use.", MT::Gauge, {}};
  MetricFamily ecc{"stretto_gpu_ecc_uncorrected_total",
                   "Uncorrected memory errors since the driver was loaded.",
                   MT::Counter,
                   {}};
  MetricFamily xid{"stretto_gpu_xid_errors_total",
                   "Critical events of the driver since this daemon began.",
                   MT::Counter,
                   {}};
  for (const Gpu& gpu : gpus) {
    const Labels labels = {{"gpu", absl::StrCat(gpu.index)}, {"uuid", gpu.uuid}};
    healthy.metric.push_back(Gauge(labels, gpu.fault.empty() ? 1 : 0));
    memory.metric.push_back(Gauge(labels, static_cast<double>(gpu.memory_bytes)));
    used.metric.push_back(Gauge(labels, static_cast<double>(gpu.memory_used_bytes)));
    ecc.metric.push_back(Counter(labels, static_cast<double>(gpu.ecc_uncorrected)));
    xid.metric.push_back(Counter(labels, static_cast<double>(gpu.xid_errors)));
  }
  return {healthy, memory, used, ecc, xid};
}

}  // namespace

struct Metrics::Series {
  std::array<uint64_t, kStepBuckets.size()> buckets{};  // not cumulative
  uint64_t steps = 0;
  double step_seconds = 0;
  double tokens = 0;
  double skipped = 0;
  double loss = 0;
  double grad_norm = 0;
  double communication = 0;
  double hidden = 0;
  double last_step = 0;   // seconds since 1970
  double checkpoint = 0;  // likewise; 0: none yet
  double checkpoints_failed = 0;
  std::map<LedgerKey, double> ledger;
  std::optional<absl::Duration> expires;  // on the monotonic clock

  void Add(const StepReport& step) {
    ++steps;
    step_seconds += step.wall_seconds();
    const auto bucket =
        std::lower_bound(kStepBuckets.begin(), kStepBuckets.end(), step.wall_seconds());
    if (bucket != kStepBuckets.end()) ++buckets[static_cast<size_t>(bucket - kStepBuckets.begin())];
    tokens += static_cast<double>(step.tokens());
    skipped += step.update_skipped() ? 1 : 0;
    loss = step.loss();
    grad_norm = step.grad_norm();
    communication += step.ledger().communication_seconds();
    hidden += step.ledger().hidden_seconds();
    last_step = SecondsOf(step.end_time());
    for (const Ledger::Entry& entry : step.ledger().entries()) {
      ledger[{absl::AsciiStrToLower(Ledger::Part_Name(entry.part())), entry.group(),
              entry.phase()}] += entry.seconds();
    }
  }

  void Add(const CheckpointReport& report) {
    if (report.ok()) {
      checkpoint = SecondsOf(report.time());
    } else {
      ++checkpoints_failed;
    }
  }

  ClientMetric Histogram(const Labels& labels) const {
    ClientMetric metric;
    metric.label = labels;
    metric.histogram.sample_count = steps;
    metric.histogram.sample_sum = step_seconds;
    uint64_t below = 0;
    for (size_t i = 0; i < kStepBuckets.size(); ++i) {
      below += buckets[i];
      metric.histogram.bucket.push_back({below, kStepBuckets[i]});
    }
    metric.histogram.bucket.push_back({steps, INFINITY});
    return metric;
  }
};

// The families in a fixed order; an empty one is left out.
class Metrics::Collector final : public prometheus::Collectable {
 public:
  explicit Collector(Metrics& metrics) : metrics_(metrics) {}

  std::vector<MetricFamily> Collect() const override {
    const std::lock_guard lock(metrics_.mu_);
    metrics_.ExpireLocked();
    std::vector<MetricFamily> families = PerRank();
    families.push_back({"stretto_trainers",
                        "Trainer processes alive on this node.",
                        MetricType::Gauge,
                        {Gauge({}, metrics_.trainers_)}});
    families.push_back({"stretto_coordinator_connected",
                        "1 while the session with the coordinator is open.",
                        MetricType::Gauge,
                        {Gauge({}, metrics_.connected_ ? 1 : 0)}});
    families.push_back(
        {"stretto_build_info",
         "Version of the worker daemon.",
         MetricType::Gauge,
         {Gauge({{"version", kBuildVersion}, {"worker", metrics_.options_.worker}}, 1)}});
    if (metrics_.options_.gpus != nullptr) {
      for (MetricFamily& family : PerGpu(metrics_.options_.gpus())) {
        families.push_back(std::move(family));
      }
    }
    families.erase(std::remove_if(families.begin(), families.end(),
                                  [](const MetricFamily& f) { return f.metric.empty(); }),
                   families.end());
    return families;
  }

 private:
  std::vector<MetricFamily> PerRank() const {
    using MT = MetricType;
    MetricFamily seconds{"stretto_step_seconds", "Wall time of a step.", MT::Histogram, {}};
    MetricFamily steps{"stretto_steps_total", "Finished steps.", MT::Counter, {}};
    MetricFamily tokens{"stretto_tokens_total", "Tokens trained on, whole job.", MT::Counter, {}};
    MetricFamily skipped{"stretto_updates_skipped_total",
                         "Steps whose gradient norm was not finite.",
                         MT::Counter,
                         {}};
    MetricFamily loss{"stretto_loss", "Loss of the last step.", MT::Gauge, {}};
    MetricFamily norm{"stretto_grad_norm", "Gradient norm of the last step.", MT::Gauge, {}};
    MetricFamily last_step{"stretto_last_step_timestamp_seconds",
                           "When the last step ended, in seconds since 1970.",
                           MT::Gauge,
                           {}};
    MetricFamily checkpoint{"stretto_checkpoint_timestamp_seconds",
                            "When the last checkpoint was complete, in seconds since 1970.",
                            MT::Gauge,
                            {}};
    MetricFamily failed{"stretto_checkpoints_failed_total",
                        "Checkpoints that could not be written.",
                        MT::Counter,
                        {}};
    MetricFamily ledger{"stretto_step_ledger_seconds_total",
                        "Seconds of steps by what they were spent on.",
                        MT::Counter,
                        {}};
    MetricFamily communication{"stretto_communication_seconds_total",
                               "Union of communication intervals.",
                               MT::Counter,
                               {}};
    MetricFamily hidden{"stretto_communication_hidden_seconds_total",
                        "Communication while computing.",
                        MT::Counter,
                        {}};
    for (const auto& [key, series] : metrics_.series_) {
      const Labels labels = {{"training_job", key.first}, {"rank", absl::StrCat(key.second)}};
      seconds.metric.push_back(series.Histogram(labels));
      steps.metric.push_back(Counter(labels, static_cast<double>(series.steps)));
      tokens.metric.push_back(Counter(labels, series.tokens));
      skipped.metric.push_back(Counter(labels, series.skipped));
      loss.metric.push_back(Gauge(labels, series.loss));
      norm.metric.push_back(Gauge(labels, series.grad_norm));
      if (series.last_step > 0) last_step.metric.push_back(Gauge(labels, series.last_step));
      if (series.checkpoint > 0) checkpoint.metric.push_back(Gauge(labels, series.checkpoint));
      failed.metric.push_back(Counter(labels, series.checkpoints_failed));
      communication.metric.push_back(Counter(labels, series.communication));
      hidden.metric.push_back(Counter(labels, series.hidden));
      for (const auto& [what, value] : series.ledger) {
        Labels all = labels;
        all.push_back({"part", std::get<0>(what)});
        all.push_back({"group", std::get<1>(what)});
        all.push_back({"phase", std::get<2>(what)});
        ledger.metric.push_back(Counter(all, value));
      }
    }
    return {seconds, steps,         tokens, skipped,   loss,       norm,
            ledger,  communication, hidden, last_step, checkpoint, failed};
  }

  Metrics& metrics_;
};

Metrics::Metrics(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), collector_(std::make_unique<Collector>(*this)) {}
Metrics::~Metrics() = default;

void Metrics::Record(const RankReport& report) {
  if (!report.has_step() && !report.has_checkpoint() && !report.has_exit()) return;
  const std::lock_guard lock(mu_);
  Series& series = series_[{report.job_id(), report.rank()}];
  if (report.has_step()) {
    series.Add(report.step());
    series.expires.reset();  // a newer attempt of a job that had ended
  } else if (report.has_checkpoint()) {
    series.Add(report.checkpoint());
  } else {
    series.expires = clock_.Monotonic() + options_.retention;
  }
}

void Metrics::SetTrainers(int alive) {
  const std::lock_guard lock(mu_);
  trainers_ = alive;
}

void Metrics::SetConnected(bool connected) {
  const std::lock_guard lock(mu_);
  connected_ = connected;
}

void Metrics::ExpireLocked() {
  const absl::Duration now = clock_.Monotonic();
  for (auto it = series_.begin(); it != series_.end();) {
    const bool over = it->second.expires.has_value() && *it->second.expires <= now;
    it = over ? series_.erase(it) : std::next(it);
  }
}

std::string Metrics::Text() {
  return prometheus::TextSerializer().Serialize(collector_->Collect());
}

}  // namespace stretto::daemon
