// SPDX-License-Identifier: Apache-2.0
#pragma once
// The definition of a metric: a row of a daemon's table. The exported metrics, docs/METRICS.md and
// the tests that compare the two all come from these rows. Names follow Prometheus's conventions:
// base units, counters end in _total, and no label value that is a sum of others.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stretto::metrics {

enum class Type : uint8_t { kCounter, kGauge, kHistogram };

struct Definition {
  std::string_view name;
  Type type;
  std::string_view unit;    // of its values; "" if they are always 1
  std::string_view labels;  // names (labels.h), separated by single spaces
  std::string_view help;    // complete sentences
};

void NoSuchMetric();  // not defined, so that calling it does not compile

// Returns the row with this name, which is looked up at compile time.
template <size_t size>
consteval const Definition& Row(const Definition (&table)[size], std::string_view name) {
  for (const Definition& row : table) {
    if (row.name == name) return row;
  }
  NoSuchMetric();
  return table[0];
}

}  // namespace stretto::metrics
