// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a scrape returns, built sample by sample from the rows of a table.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "prometheus/metric_family.h"
#include "proto/metrics/definition.h"

namespace stretto::metrics {

// Counts values by size. Not thread-safe.
class Histogram {
 public:
  // `bounds` are the upper ends of the buckets, ascending, and outlive this.
  explicit Histogram(absl::Span<const double> bounds) : bounds_(bounds), counts_(bounds.size()) {}
  void Observe(double value);
  uint64_t count() const { return count_; }

 private:
  friend class Families;
  absl::Span<const double> bounds_;
  std::vector<uint64_t> counts_;  // of each bucket alone
  uint64_t count_ = 0;
  double sum_ = 0;
};

class Families {
 public:
  // One family for each row, in the table's order. The table outlives this.
  explicit Families(absl::Span<const Definition> table);

  // `row` is of the table; `labels` are the values of its labels, in its order.
  void Add(const Definition& row, const std::vector<std::string>& labels, double value);
  void Add(const Definition& row, const std::vector<std::string>& labels,
           const Histogram& histogram);

  // Those that have samples.
  std::vector<prometheus::MetricFamily> Take() &&;

 private:
  prometheus::ClientMetric& AddMetric(const Definition& row,
                                      const std::vector<std::string>& labels);

  const absl::Span<const Definition> table_;
  std::vector<prometheus::MetricFamily> families_;
};

// `families` in the text format of Prometheus.
std::string Text(const std::vector<prometheus::MetricFamily>& families);

}  // namespace stretto::metrics
