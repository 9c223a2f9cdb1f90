// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a metric is: a row of a daemon's table. What is exported, docs/METRICS.md and the tests that
// compare the two all come from these rows. Names as Prometheus wants them: base units, counters
// end in _total, no label of its own for what a sum would give.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stretto::metrics {

enum class Type : uint8_t { kCounter, kGauge, kHistogram };

struct Definition {
  std::string_view name;
  Type type;
  std::string_view unit;    // of its values; "" for those that are always 1
  std::string_view labels;  // their names (labels.h), a space between each two
  std::string_view help;    // sentences
};

void NoSuchMetric();  // not defined: calling it is an error of compilation

// The row with this name, which is looked up at compile time.
template <size_t size>
consteval const Definition& Row(const Definition (&table)[size], std::string_view name) {
  for (const Definition& row : table) {
    if (row.name == name) return row;
  }
  NoSuchMetric();
  return table[0];
}

}  // namespace stretto::metrics
