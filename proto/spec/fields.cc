// SPDX-License-Identifier: Apache-2.0

// Joins the parts of the table, and formats texts about its rows.
#include "proto/spec/fields.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/spec/architecture.h"
#include "proto/spec/pipelines.h"
#include "proto/spec/presets.h"
#include "proto/spec/rows.h"
#include "proto/spec/schedules.h"

namespace stretto {
namespace {

std::string Number(double value) {
  const bool whole = std::fabs(value) < 1e15 && value == std::floor(value);
  return whole ? absl::StrCat(static_cast<int64_t>(value)) : absl::StrCat(value);
}

template <class Takes>
std::string SchedulesThat(Takes takes) {
  std::vector<std::string> names;
  for (const ScheduleRules& rules : kSchedules) {
    if (takes(rules)) names.emplace_back(rules.name);
  }
  return absl::StrCat(names.size() == 1 ? "schedule " : "schedules ", absl::StrJoin(names, ", "));
}

}  // namespace

bool Range::Contains(double value) const {
  return std::isfinite(value) && (above_low ? value > low : value >= low) &&
         (below_high ? value < high : value <= high);
}

std::string Range::Text() const {
  if (low == high) return Number(low);
  if (high == kUnbounded) return absl::StrCat(above_low ? "above " : "at least ", Number(low));
  if (above_low) {
    return absl::StrCat("above ", Number(low), below_high ? ", below " : ", at most ",
                        Number(high));
  }
  return absl::StrCat(Number(low), below_high ? " to below " : " to ", Number(high));
}

std::string TextOf(Taker taker) {
  switch (taker) {
    case Taker::kAll:
      return "";
    case Taker::kRotary: {
      std::vector<std::string> names;
      for (const Architecture& architecture : kArchitectures) {
        if (architecture.positions == PositionKind::kRotary) names.emplace_back(architecture.name);
      }
      return absl::StrCat("family ", absl::StrJoin(names, ", "));
    }
    case Taker::kLlama3:
      return "kind llama3";
    case Taker::kSliced:
      return SchedulesThat([](const ScheduleRules& rules) { return rules.sliced(); });
    case Taker::kSplit:
      return SchedulesThat([](const ScheduleRules& rules) { return rules.splits; });
    case Taker::kDeferring:
      return SchedulesThat([](const ScheduleRules& rules) { return rules.defers; });
    case Taker::kOnCpu:
      return "device cpu";
    case Taker::kStaged:
      return "jobs with pp_size above 1";
    case Taker::kReplicated:
      return "jobs with dp_size above 1";
    case Taker::kAdjusting:
      return absl::StrCat(AdjustableOrders(), " with pp_size above 1");
    case Taker::kDelaying:
      return absl::StrCat(DelayingOrders(), " with pp_size above 1");
    case Taker::kWeaving:
      return WeavingSchedules();
    case Taker::kUnwoven:
      return SchedulesThat([](const ScheduleRules& rules) { return !rules.weaves; });
  }
  return "";
}

namespace {

// "orders A, B", those that have a property.
std::string OrdersThat(bool PipelineRules::*has) {
  std::vector<std::string> names;
  for (const PipelineRules& rules : kPipelines) {
    if (rules.*has) names.emplace_back(rules.name);
  }
  return absl::StrCat(names.size() == 1 ? "order " : "orders ", absl::StrJoin(names, ", "));
}

}  // namespace

std::string AdjustableOrders() { return OrdersThat(&PipelineRules::adjustable); }
std::string DelayingOrders() { return OrdersThat(&PipelineRules::delays); }
std::string ChunkedOrders() { return OrdersThat(&PipelineRules::chunked); }
std::string FoldedOrders() { return OrdersThat(&PipelineRules::folds); }
std::string WeavingSchedules() {
  return SchedulesThat([](const ScheduleRules& rules) { return rules.weaves; });
}

const std::vector<Field>& JobFields() {
  static const std::vector<Field>& fields = [] {
    auto* all = new std::vector<Field>;  // never freed
    for (const std::vector<Field>& rows : {ModelRows(), WorkRows(), TrainingRows()}) {
      all->insert(all->end(), rows.begin(), rows.end());
    }
    return std::ref(*all);
  }();
  return fields;
}

const Field* FindField(absl::string_view path) {
  for (const Field& field : JobFields()) {
    if (path == field.path) return &field;
  }
  return nullptr;
}

const Range& RangeOf(absl::string_view path) { return FindField(path)->range; }

std::vector<ValueText> PresetValues() {
  std::vector<ValueText> values;
  for (const ModelPreset& preset : kModelPresets) {
    const std::string shared = preset.kv_heads == preset.heads
                                   ? ""
                                   : absl::StrCat(" on ", preset.kv_heads, " of keys and values");
    values.push_back(
        {preset.name,
         absl::StrFormat("%s, %d layers, hidden %d, %d heads%s, sequence %d",
                         ArchitectureOf(preset.family).name, preset.layers, preset.hidden,
                         preset.heads, shared, preset.sequence_length)});
  }
  return values;
}

std::vector<ValueText> ScheduleValues() {
  std::vector<ValueText> values;
  for (const ScheduleRules& rules : kSchedules) values.push_back({rules.name, rules.help});
  return values;
}

std::vector<ValueText> PipelineValues() {
  std::vector<ValueText> values;
  for (const PipelineRules& rules : kPipelines) values.push_back({rules.name, rules.help});
  return values;
}

std::vector<ValueText> OptimizerValues() {
  return {{"adamw", "Adam with decoupled weight decay (Loshchilov and Hutter 2019)"}};
}

}  // namespace stretto
