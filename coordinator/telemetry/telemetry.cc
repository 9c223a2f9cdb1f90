#include "coordinator/telemetry/telemetry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/version.h"

namespace stretto::telemetry {
namespace {

const prometheus::Histogram::BucketBoundaries kQueueWaitSeconds = {
    0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 14400, 86400};
const prometheus::Histogram::BucketBoundaries kRpcSeconds = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600};

prometheus::MetricFamily GaugeFamily(const char* name, const char* help,
                                     const std::map<std::string, int>& by_state) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = prometheus::MetricType::Gauge;
  for (const auto& [state, count] : by_state) {
    prometheus::ClientMetric metric;
    metric.label.push_back({"state", state});
    metric.gauge.value = count;
    family.metric.push_back(std::move(metric));
  }
  return family;
}

// Asks for the state counts when scraped.
class CountsCollector : public prometheus::Collectable {
 public:
  void Set(std::function<Counts()> counts) {
    std::lock_guard<std::mutex> lock(mu_);
    counts_ = std::move(counts);
  }
  std::vector<prometheus::MetricFamily> Collect() const override {
    std::lock_guard<std::mutex> lock(mu_);
    if (!counts_) return {};
    const Counts counts = counts_();
    return {GaugeFamily("stretto_jobs", "Jobs now in each state", counts.jobs),
            GaugeFamily("stretto_workers", "Workers now in each state", counts.workers),
            GaugeFamily("stretto_gpus", "GPUs of READY workers", counts.gpus)};
  }

 private:
  mutable std::mutex mu_;
  std::function<Counts()> counts_;
};

}  // namespace

struct Telemetry::Impl {
  std::shared_ptr<prometheus::Registry> registry = std::make_shared<prometheus::Registry>();
  CountsCollector counts;
  prometheus::Histogram& queue_wait = prometheus::BuildHistogram()
                                          .Name("stretto_job_queue_wait_seconds")
                                          .Help("Time from creation to start of a job's attempt")
                                          .Register(*registry)
                                          .Add({}, kQueueWaitSeconds);
  prometheus::Family<prometheus::Counter>& rpcs = prometheus::BuildCounter()
                                                      .Name("stretto_rpcs_total")
                                                      .Help("Finished calls")
                                                      .Register(*registry);
  prometheus::Family<prometheus::Histogram>& rpc_duration =
      prometheus::BuildHistogram()
          .Name("stretto_rpc_duration_seconds")
          .Help("Duration of finished calls, streams as one call")
          .Register(*registry);
};

Telemetry::Telemetry() : impl_(std::make_unique<Impl>()) {
  prometheus::BuildGauge()
      .Name("stretto_build_info")
      .Help("Release and worker protocol of this coordinator")
      .Register(*impl_->registry)
      .Add({{"version", kBuildVersion}, {"protocol", absl::StrCat(kProtocolVersion)}})
      .Set(1);
}

Telemetry::~Telemetry() = default;

void Telemetry::SetCounts(std::function<Counts()> counts) { impl_->counts.Set(std::move(counts)); }

void Telemetry::QueueWaited(absl::Duration wait) {
  impl_->queue_wait.Observe(absl::ToDoubleSeconds(wait));
}

void Telemetry::RpcEnded(const std::string& method, const std::string& code,
                         absl::Duration duration) {
  impl_->rpcs.Add({{"method", method}, {"code", code}}).Increment();
  impl_->rpc_duration.Add({{"method", method}}, kRpcSeconds)
      .Observe(absl::ToDoubleSeconds(duration));
}

std::string Telemetry::Text() const {
  std::vector<prometheus::MetricFamily> families = impl_->registry->Collect();
  for (auto& family : impl_->counts.Collect()) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace stretto::telemetry
