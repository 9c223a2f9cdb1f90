// SPDX-License-Identifier: Apache-2.0
#include "proto/metrics/families.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_split.h"
#include "prometheus/text_serializer.h"
#include "proto/base/check.h"

namespace stretto::metrics {
namespace {

prometheus::MetricType Convert(Type type) {
  switch (type) {
    case Type::kCounter:
      return prometheus::MetricType::Counter;
    case Type::kGauge:
      return prometheus::MetricType::Gauge;
    case Type::kHistogram:
      break;
  }
  return prometheus::MetricType::Histogram;
}

// This abseil's string_view is a type of its own.
absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

void Histogram::Observe(double value) {
  ++count_;
  sum_ += value;
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  if (bucket != bounds_.end()) ++counts_[bucket - bounds_.begin()];
}

Families::Families(absl::Span<const Definition> table) : table_(table) {
  for (const Definition& row : table) {
    families_.push_back({std::string(row.name), std::string(row.help), Convert(row.type), {}});
  }
}

prometheus::ClientMetric& Families::AddMetric(const Definition& row,
                                              const std::vector<std::string>& labels) {
  STRETTO_CHECK(&row >= table_.begin() && &row < table_.end());
  const std::vector<std::string> names = absl::StrSplit(View(row.labels), ' ', absl::SkipEmpty());
  STRETTO_CHECK(names.size() == labels.size());
  prometheus::ClientMetric& metric = families_[&row - table_.begin()].metric.emplace_back();
  for (size_t i = 0; i < names.size(); ++i) metric.label.push_back({names[i], labels[i]});
  return metric;
}

void Families::Add(const Definition& row, const std::vector<std::string>& labels, double value) {
  STRETTO_CHECK(row.type != Type::kHistogram);
  prometheus::ClientMetric& metric = AddMetric(row, labels);
  (row.type == Type::kCounter ? metric.counter.value : metric.gauge.value) = value;
}

void Families::Add(const Definition& row, const std::vector<std::string>& labels,
                   const Histogram& histogram) {
  STRETTO_CHECK(row.type == Type::kHistogram);
  prometheus::ClientMetric::Histogram& out = AddMetric(row, labels).histogram;
  out.sample_count = histogram.count_;
  out.sample_sum = histogram.sum_;
  uint64_t below = 0;
  for (size_t i = 0; i < histogram.bounds_.size(); ++i) {
    below += histogram.counts_[i];
    out.bucket.push_back({below, histogram.bounds_[i]});
  }
  out.bucket.push_back({histogram.count_, std::numeric_limits<double>::infinity()});
}

std::vector<prometheus::MetricFamily> Families::Take() && {
  std::erase_if(families_, [](const auto& family) { return family.metric.empty(); });
  return std::move(families_);
}

std::string Text(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace stretto::metrics
