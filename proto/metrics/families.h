// SPDX-License-Identifier: Apache-2.0
#pragma once
// The metric families of a scrape, built sample by sample from the rows of a table.

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
  // `bounds` are the upper bounds of the buckets in ascending order; they must outlive the
  // histogram.
  explicit Histogram(absl::Span<const double> bounds) : bounds_(bounds), counts_(bounds.size()) {}
  void Observe(double value);
  uint64_t count() const { return count_; }

 private:
  friend class Families;
  absl::Span<const double> bounds_;
  std::vector<uint64_t> counts_;  // per bucket, not cumulative
  uint64_t count_ = 0;
  double sum_ = 0;
};

class Families {
 public:
  // Has one family for each row, in the table's order. The table must outlive this.
  explicit Families(absl::Span<const Definition> table);

  // `row` is a row of the table; `labels` are the values of its labels, in its order.
  void Add(const Definition& row, const std::vector<std::string>& labels, double value);
  void Add(const Definition& row, const std::vector<std::string>& labels,
           const Histogram& histogram);

  // Returns the families that have samples.
  std::vector<prometheus::MetricFamily> Take() &&;

 private:
  prometheus::ClientMetric& AddMetric(const Definition& row,
                                      const std::vector<std::string>& labels);

  const absl::Span<const Definition> table_;
  std::vector<prometheus::MetricFamily> families_;
};

// Returns `families` in Prometheus's text format.
std::string Text(const std::vector<prometheus::MetricFamily>& families);

}  // namespace stretto::metrics
