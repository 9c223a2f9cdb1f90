// Checks the schedule's parameters against the row of the table of schedules that it names: which
// parameters it takes, and whether slices fit the micro-batch.

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/service/schedules.h"
#include "coordinator/service/spec_checks.h"
#include "coordinator/service/validate_request.h"

namespace stretto::service {
namespace {

using google::protobuf::FieldDescriptor;
using v1alpha1::ScheduleParameters;

constexpr char kPrefix[] = "spec.schedule.parameters.";
constexpr int kMaxDeferral = 1 << 16;  // far above the collectives of any step

std::string ScheduleNames() {
  return absl::StrJoin(kSchedules, ", ", [](std::string* out, const ScheduleRules& rules) {
    out->append(rules.name);
  });
}

// A parameter is given when it has another value than a spec that does not name it.
bool CheckTaken(const ScheduleRules& rules, const ScheduleParameters& parameters,
                Violations* violations) {
  const std::vector<std::string> taken = ParametersOf(rules);
  std::vector<const FieldDescriptor*> given;
  parameters.GetReflection()->ListFields(parameters, &given);
  bool ok = true;
  for (const FieldDescriptor* field : given) {
    const bool takes = std::find(taken.begin(), taken.end(), field->name()) != taken.end();
    ok &= violations->Require(takes, absl::StrCat(kPrefix, field->name()),
                              absl::StrCat(rules.name, ": found ", field->name(),
                                           ", expected only ", absl::StrJoin(taken, ", ")));
  }
  return ok;
}

void CheckSlices(const ScheduleRules& rules, const v1alpha1::JobSpec& spec,
                 Violations* violations) {
  const ScheduleParameters& parameters = spec.schedule().parameters();
  const int micro = spec.micro_batch_size(), slices = parameters.slices();
  if (micro < 1 || micro > kMaxBatch) return;  // refused where the batch is checked
  const auto expect = [&](bool ok, const std::string& field, const auto& found,
                          absl::string_view expected) {
    return violations->Require(
        ok, field, absl::StrCat(rules.name, ": found ", found, ", expected ", expected));
  };
  const std::string count = absl::StrCat("slices ", slices);
  const std::string in_slices = absl::StrCat(kPrefix, "slices");
  const std::string in_sizes = absl::StrCat(kPrefix, "slice_sizes");
  if (!expect(micro > 1, "spec.micro_batch_size", "micro_batch_size 1",
              "at least 2: a batch of one cannot be cut into slices") ||
      !expect(rules.slices != ScheduleRules::Slices::kTwo || slices == 2, in_slices, count,
              "2, as published") ||
      !expect(slices >= 1, in_slices, count, "at least 1") ||
      !expect(slices <= micro, in_slices, count,
              absl::StrCat("at most micro_batch_size ", micro)) ||
      !expect(parameters.slice_sizes_size() == slices, in_sizes,
              absl::StrCat(parameters.slice_sizes_size(), " sizes"),
              absl::StrCat("as many as slices ", slices))) {
    return;
  }
  int64_t sum = 0;
  for (int size : parameters.slice_sizes()) {
    if (!expect(size >= 1, in_sizes, absl::StrCat("a slice of ", size, " sequences"), "at least 1"))
      return;
    sum += size;
  }
  expect(sum == micro, in_sizes, absl::StrCat("sizes that sum to ", sum),
         absl::StrCat("micro_batch_size ", micro));
}

void CheckMerge(const v1alpha1::JobSpec& spec, Violations* violations) {
  const ScheduleParameters& parameters = spec.schedule().parameters();
  const int merged = parameters.merge_wgrads();
  const std::string field = absl::StrCat(kPrefix, "merge_wgrads");
  if (parameters.auto_merge_wgrads()) {
    violations->Expect(merged == 0, field, merged, "0, because auto_merge_wgrads chooses it");
    return;
  }
  const int micro = spec.micro_batch_size();
  if (micro < 1 || spec.global_batch_size() % micro != 0) return;  // refused with the batch
  const int micro_batches = spec.global_batch_size() / micro;
  violations->Expect(
      merged == 0 || (merged > 0 && micro_batches % merged == 0), field, merged,
      absl::StrCat("0 or a divisor of the ", micro_batches, " micro-batches of a step"));
}

}  // namespace

void CheckSchedule(const v1alpha1::JobSpec& spec, Violations* violations) {
  const ScheduleRules* rules = FindSchedule(spec.schedule().name());
  if (!violations->Expect(rules != nullptr, "spec.schedule.name", Quoted(spec.schedule().name()),
                          absl::StrCat("one of ", ScheduleNames()))) {
    return;
  }
  const ScheduleParameters& parameters = spec.schedule().parameters();
  if (!CheckTaken(*rules, parameters, violations)) return;
  if (rules->sliced()) CheckSlices(*rules, spec, violations);
  const int hidden = spec.model().hidden();
  if (rules->splits && hidden > 0) {
    violations->Expect(parameters.splits() >= 1 && hidden % parameters.splits() == 0,
                       absl::StrCat(kPrefix, "splits"), parameters.splits(),
                       absl::StrCat("a divisor of hidden ", hidden));
  }
  const int tp = spec.parallelism().tp_size(), sequence = spec.model().sequence_length();
  if (parameters.sequence_parallel() && tp >= 1 && tp <= kMaxTpSize && sequence >= 1) {
    violations->Expect(
        sequence % tp == 0, absl::StrCat(kPrefix, "sequence_parallel"), "true",
        absl::StrCat("false, because tp_size ", tp, " does not divide sequence_length ", sequence));
  }
  violations->Expect(parameters.recompute() >= v1alpha1::RECOMPUTE_NONE &&
                         v1alpha1::Recompute_IsValid(parameters.recompute()),
                     absl::StrCat(kPrefix, "recompute"), static_cast<int>(parameters.recompute()),
                     "RECOMPUTE_NONE, RECOMPUTE_SELECTIVE or RECOMPUTE_FULL");
  violations->InRange(absl::StrCat(kPrefix, "defer_wgrads"), parameters.defer_wgrads(), 0,
                      kMaxDeferral);
  CheckMerge(spec, violations);
}

}  // namespace stretto::service
