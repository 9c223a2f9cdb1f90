// SPDX-License-Identifier: Apache-2.0

// Decides from the other fields of a spec whether it takes a field of a kind, and says why not.

#include "proto/spec/job/takers.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/spec/architecture.h"
#include "proto/spec/pipelines.h"

namespace stretto::spec {
namespace {

using v1alpha1::RotaryScaling;

constexpr char kParameters[] = "schedule.parameters.";

bool TakenBy(const ScheduleRules& rules, Taker taker) {
  switch (taker) {
    case Taker::kSliced:
      return rules.sliced();
    case Taker::kSplit:
      return rules.splits;
    case Taker::kDeferring:
      return rules.defers;
    case Taker::kWeaving:
      return rules.weaves;
    case Taker::kUnwoven:
      return !rules.weaves;
    case Taker::kAll:
    case Taker::kRotary:
    case Taker::kLlama3:
    case Taker::kOnCpu:
    case Taker::kStaged:
    case Taker::kReplicated:
    case Taker::kAdjusting:
    case Taker::kDelaying:
      return true;
  }
  return true;
}

std::string ParametersOf(const ScheduleRules& rules) {
  std::vector<std::string> names;
  for (const Field& field : JobFields()) {
    const absl::string_view path = field.path;
    if (!absl::StartsWith(path, kParameters) || !TakenBy(rules, field.taker)) continue;
    names.emplace_back(path.substr(sizeof(kParameters) - 1));
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

std::optional<bool> Takes(Taker taker, const v1alpha1::JobSpec& spec) {
  switch (taker) {
    case Taker::kAll:
      return true;
    case Taker::kRotary: {
      const Architecture* architecture = FindArchitecture(spec.model().family());
      if (architecture == nullptr) return std::nullopt;
      return architecture->positions == PositionKind::kRotary;
    }
    case Taker::kLlama3: {
      const RotaryScaling::Kind kind = spec.model().rotary_scaling().kind();
      if (kind != RotaryScaling::LLAMA3 && kind != RotaryScaling::LINEAR) return std::nullopt;
      return kind == RotaryScaling::LLAMA3;
    }
    case Taker::kOnCpu:
      return spec.device() != v1alpha1::DEVICE_CUDA;
    case Taker::kStaged:
      return spec.parallelism().pp_size() > 1;
    case Taker::kReplicated:
      return spec.parallelism().dp_size() > 1;
    case Taker::kAdjusting:
    case Taker::kDelaying: {
      if (spec.parallelism().pp_size() <= 1) return false;
      const PipelineRules* rules = FindPipeline(spec.schedule().pipeline().order());
      if (rules == nullptr) return std::nullopt;
      return taker == Taker::kAdjusting ? rules->adjustable : rules->delays;
    }
    case Taker::kSliced:
    case Taker::kSplit:
    case Taker::kDeferring:
    case Taker::kWeaving:
    case Taker::kUnwoven: {
      const ScheduleRules* rules = FindSchedule(spec.schedule().name());
      if (rules == nullptr) return std::nullopt;
      return TakenBy(*rules, taker);
    }
  }
  return true;
}

std::string ReasonAgainst(Taker taker, const v1alpha1::JobSpec& spec) {
  switch (taker) {
    case Taker::kAll:
      break;
    case Taker::kRotary:
      return absl::StrCat("family ", FindArchitecture(spec.model().family())->name,
                          " learns its positions");
    case Taker::kLlama3:
      return "LINEAR stretches all wavelengths alike";
    case Taker::kOnCpu:
      return "ranks on GPUs train over the real link (stretto-bench measures a GPU with an "
             "emulated "
             "one)";
    case Taker::kAdjusting:
    case Taker::kDelaying:
      if (spec.parallelism().pp_size() > 1) {
        return absl::StrCat("only ",
                            taker == Taker::kAdjusting ? AdjustableOrders() : DelayingOrders(),
                            " take it");
      }
      [[fallthrough]];
    case Taker::kStaged:
      return "the model is in one stage (parallelism.pp_size)";
    case Taker::kReplicated:
      return "the model has one replica (parallelism.dp_size)";
    case Taker::kWeaving:
      return absl::StrCat(spec.schedule().name(), " weaves no passes");
    case Taker::kSliced:
    case Taker::kSplit:
    case Taker::kDeferring:
    case Taker::kUnwoven:
      return absl::StrCat(spec.schedule().name(), " takes only ",
                          ParametersOf(*FindSchedule(spec.schedule().name())));
  }
  return "";
}

}  // namespace stretto::spec
