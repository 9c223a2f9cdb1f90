// SPDX-License-Identifier: Apache-2.0

// Rules between a schedule's parameters and the batch, the model and the ranks.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/spec/fields.h"
#include "proto/spec/job/ranks.h"
#include "proto/spec/job/rules.h"
#include "proto/spec/pipelines.h"
#include "proto/spec/schedules.h"
#include "proto/spec/strands/weave_plan.h"

namespace stretto::spec {
namespace {

using v1alpha1::ScheduleParameters;

constexpr char kSlices[] = "schedule.parameters.slices";
constexpr char kSizes[] = "schedule.parameters.slice_sizes";
constexpr size_t kMostPlanBytes = size_t{1} << 20;  // as a job file

void CheckSlices(const ScheduleRules& rules, const v1alpha1::JobSpec& spec,
                 Violations* violations) {
  if (!violations->Sound({"micro_batch_size", kSlices, kSizes})) return;
  const ScheduleParameters& parameters = spec.schedule().parameters();
  const int micro = spec.micro_batch_size(), slices = parameters.slices();
  const int sizes = parameters.slice_sizes_size();
  const bool two = rules.slices == ScheduleRules::Slices::kTwo;
  const bool needs_two = rules.slices != ScheduleRules::Slices::kOneOrMore;
  int64_t sum = 0;
  for (int size : parameters.slice_sizes()) sum += size;
  if (violations->Expect(micro > 1 || !needs_two, "micro_batch_size", micro,
                         absl::StrCat("at least 2: ", rules.name,
                                      " cuts the batch into slices of whole sequences")) &&
      violations->Expect(!two || slices == 2, kSlices, slices,
                         absl::StrCat("2, as ", rules.name, " is published")) &&
      violations->Expect(slices <= micro, kSlices, slices,
                         absl::StrCat("at most micro_batch_size ", micro)) &&
      violations->Expect(sizes == slices, kSizes, absl::StrCat(sizes, " sizes"),
                         absl::StrCat("as many as slices, ", slices))) {
    violations->Expect(sum == micro, kSizes, absl::StrCat("sizes that sum to ", sum),
                       absl::StrCat("micro_batch_size ", micro));
  }
}

void CheckMerge(const v1alpha1::JobSpec& spec, Violations* violations) {
  const char* field = "schedule.parameters.merge_wgrads";
  if (!violations->Sound({field, "micro_batch_size", "global_batch_size", "parallelism.dp_size"}))
    return;
  const ScheduleParameters& parameters = spec.schedule().parameters();
  const int merged = parameters.merge_wgrads();
  if (parameters.auto_merge_wgrads()) {
    violations->Expect(merged == 0, field, merged, "0, because auto_merge_wgrads chooses it");
    return;
  }
  const int micro_batches = MicroBatchesOf(spec);
  violations->Expect(
      merged == 0 || micro_batches % merged == 0, field, merged,
      absl::StrCat("0 or a divisor of the ", micro_batches, " micro-batches of a step"));
}

// A stage fills the one behind it: with as many micro-batches in flight, the two would compute in
// turn, and with fewer they would wait for each other forever. The last stage waits for nobody.
void CheckWarmUp(const v1alpha1::JobSpec& spec, Violations* violations) {
  const std::string field = "schedule.pipeline.warm_up";
  const v1alpha1::PipelineSpec& pipeline = spec.schedule().pipeline();
  if (pipeline.warm_up().empty() ||
      !violations->Expect(!pipeline.auto_warm_up(), field,
                          absl::StrCat("[", absl::StrJoin(pipeline.warm_up(), ", "), "]"),
                          "none, because auto_warm_up chooses them") ||
      !violations->Sound({field, "schedule.pipeline.order", "parallelism.pp_size",
                          "parallelism.dp_size", "micro_batch_size", "global_batch_size"})) {
    return;
  }
  const auto& warm_up = pipeline.warm_up();
  const int stages = spec.parallelism().pp_size(), micro_batches = MicroBatchesOf(spec);
  if (!violations->Expect(warm_up.size() == stages, field,
                          absl::StrCat("[", absl::StrJoin(warm_up, ", "), "]"),
                          absl::StrCat("one number for each of the ", stages, " stages"))) {
    return;
  }
  for (int stage = stages - 1, least = 1; stage >= 0; --stage) {
    const int found = warm_up[stage];
    const std::string where = absl::StrCat(found, " for stage ", stage);
    const bool last = stage == stages - 1;
    if (!violations->Expect(!last || found == 1, field, where,
                            "1, because no stage follows that would have to be filled") ||
        !violations->Expect(
            found <= micro_batches, field, where,
            absl::StrCat("at most the ", micro_batches, " micro-batches of a step")) ||
        !violations->Expect(found >= least, field, where,
                            absl::StrCat("at least ", least, ", one more than stage ", stage + 1,
                                         " or all micro-batches of a step")) ||
        !violations->Expect(last || found <= warm_up[stage + 1] + kMostFurtherAhead, field, where,
                            absl::StrCat("at most ", kMostFurtherAhead, " more than stage ",
                                         stage + 1, ", which has no room for more gradients"))) {
      return;
    }
    least = std::min(found + 1, micro_batches);
  }
}

// Micro-batches go through interleaved chunks in groups of as many as there are stages.
void CheckGroups(const PipelineRules& order, const v1alpha1::JobSpec& spec,
                 Violations* violations) {
  const char* batch = "global_batch_size";
  if (!violations->Sound({batch, "micro_batch_size", "parallelism.dp_size"})) return;
  const int stages = spec.parallelism().pp_size();
  const int64_t unit = int64_t{stages} * spec.micro_batch_size() * spec.parallelism().dp_size();
  violations->Expect(
      spec.global_batch_size() % unit == 0, batch, spec.global_batch_size(),
      absl::StrCat("a multiple of ", unit, " with order ", order.name,
                   ", so that each replica has a multiple of pp_size ", stages, " micro-batches"));
}

// Forward and backward meet on every stage if all chunks have equally many layers and the first
// micro-batch comes back before the last one begins.
void CheckFold(const PipelineRules& order, const v1alpha1::JobSpec& spec, Violations* violations) {
  const v1alpha1::ParallelismSpec& parallelism = spec.parallelism();
  const int stages = parallelism.pp_size(), layers = spec.model().layers();
  const char* name = "schedule.name";
  if (violations->Sound({name})) {
    violations->Expect(FindSchedule(spec.schedule().name())->weaves, name, spec.schedule().name(),
                       absl::StrCat(WeavingSchedules(), " with order ", order.name));
  }
  const char* chunks = "parallelism.chunks_per_stage";
  if (violations->Sound({chunks})) {
    violations->Expect(parallelism.chunks_per_stage() == 2, chunks, parallelism.chunks_per_stage(),
                       absl::StrCat("2 with order ", order.name,
                                    ", one on the way down the stages and one on the way up"));
  }
  if (violations->Sound({"model.layers"})) {
    violations->Expect(layers % (2 * stages) == 0, "model.layers", layers,
                       absl::StrCat("a multiple of ", 2 * stages, " with order ", order.name,
                                    ", so that the 2 chunks of ", stages, " stages are equal"));
  }
  const char* batch = "global_batch_size";
  if (!violations->Sound({batch, "micro_batch_size", "parallelism.dp_size"})) return;
  const int64_t least = (int64_t{stages} + 1) * spec.micro_batch_size() * parallelism.dp_size();
  violations->Expect(
      MicroBatchesOf(spec) > stages, batch, spec.global_batch_size(),
      absl::StrCat("at least ", least, " with order ", order.name,
                   ", which takes more micro-batches than the ", stages, " stages of pp_size"));
}

// Some orders are of several chunks, and the others of one.
void CheckChunks(const v1alpha1::JobSpec& spec, Violations* violations) {
  const char* field = "parallelism.chunks_per_stage";
  const int stages = spec.parallelism().pp_size();
  const PipelineRules* order = FindPipeline(spec.schedule().pipeline().order());
  if (order == nullptr || stages <= 1 || !violations->Sound({field, "parallelism.pp_size"})) return;
  const int chunks = spec.parallelism().chunks_per_stage(), layers = spec.model().layers();
  if (!order->chunked) {
    violations->Expect(chunks == 1, field, chunks,
                       absl::StrCat("1, because order ", order->name, " is of one chunk; ",
                                    ChunkedOrders(), " take more"));
    return;
  }
  const int listed = spec.parallelism().stages_size();
  if (!violations->Expect(listed == 0, "parallelism.stages", absl::StrCat(listed, " stages"),
                          absl::StrCat("none with order ", order->name,
                                       ", whose chunks share the layers evenly"))) {
    return;
  }
  if (order->folds) return CheckFold(*order, spec, violations);
  violations->Expect(chunks > 1, field, chunks,
                     absl::StrCat("at least 2 with order ", order->name));
  if (violations->Sound({"model.layers"}) && stages <= layers) {
    violations->Expect(int64_t{stages} * chunks <= layers, field, chunks,
                       absl::StrCat("at most ", layers / stages, ", because ", stages,
                                    " stages share the ", layers, " layers of the model"));
  }
  const char* delay = "schedule.pipeline.wgrad_delay";
  if (violations->Sound({delay})) {
    violations->Expect(spec.schedule().pipeline().wgrad_delay() != v1alpha1::WGRAD_DELAY_BUBBLE,
                       delay, "WGRAD_DELAY_BUBBLE",
                       absl::StrCat("WGRAD_DELAY_NONE or WGRAD_DELAY_SEND with order ", order->name,
                                    ", whose chunks shorten the bubble"));
  }
  CheckGroups(*order, spec, violations);
}

// A micro-batch needs another one in the same stage to be woven with. Products merged over several
// would have to keep the operands of all of them.
void CheckWeaving(const ScheduleRules& rules, const v1alpha1::JobSpec& spec,
                  Violations* violations) {
  if (!rules.weaves) return;
  const char* order = "schedule.pipeline.order";
  const PipelineRules* found = FindPipeline(spec.schedule().pipeline().order());
  if (found != nullptr && violations->Sound({order, "parallelism.pp_size"})) {
    violations->Expect(spec.parallelism().pp_size() <= 1 || found->folds, order, found->name,
                       absl::StrCat(FoldedOrders(), " with schedule ", rules.name,
                                    ", so that forward and backward meet on every stage"));
  }
  const ScheduleParameters& parameters = spec.schedule().parameters();
  const char* merge = "schedule.parameters.merge_wgrads";
  if (violations->Sound({merge})) {
    violations->Expect(parameters.merge_wgrads() <= 1, merge, parameters.merge_wgrads(),
                       absl::StrCat("0 or 1 with schedule ", rules.name));
  }
  const char* batch = "global_batch_size";
  if (!violations->Sound({batch, "micro_batch_size", "parallelism.dp_size"})) return;
  const int64_t least = int64_t{2} * spec.micro_batch_size() * spec.parallelism().dp_size();
  violations->Expect(MicroBatchesOf(spec) > 1, batch, spec.global_batch_size(),
                     absl::StrCat("at least ", least, " with schedule ", rules.name,
                                  ", which weaves a micro-batch with the one before it"));
}

void CheckPlan(const v1alpha1::JobSpec& spec, Violations* violations) {
  const char* field = "schedule.plan";
  const std::string& text = spec.schedule().plan();
  if (text.empty() || !violations->Sound({field, "model.layers", "parallelism.pp_size",
                                          "parallelism.chunks_per_stage", "schedule.pipeline.order",
                                          kSlices, kSizes})) {
    return;
  }
  if (!violations->Expect(text.size() <= kMostPlanBytes, field, absl::StrCat(text.size(), " bytes"),
                          absl::StrCat("at most ", kMostPlanBytes))) {
    return;
  }
  const int chunks = std::max(1, spec.parallelism().chunks_per_stage());
  const WeaveShape shape = {
      .chunks = chunks,
      .layers = spec.model().layers() / (std::max(1, spec.parallelism().pp_size()) * chunks),
      .slices = std::max(1, spec.schedule().parameters().slice_sizes_size())};
  const absl::StatusOr<std::vector<WeavePlan>> plans = ParseWeavePlans(text);
  const absl::Status status = plans.ok() ? CheckWeavePlans(*plans, shape) : plans.status();
  violations->Require(status.ok(), field, std::string(status.message()));
}

}  // namespace

void CheckSchedule(const v1alpha1::JobSpec& spec, Violations* violations) {
  const ScheduleRules* rules = FindSchedule(spec.schedule().name());
  if (rules == nullptr) return;
  const ScheduleParameters& parameters = spec.schedule().parameters();
  if (rules->sliced()) CheckSlices(*rules, spec, violations);
  const char* splits = "schedule.parameters.splits";
  if (rules->splits && violations->Sound({splits, "model.hidden"})) {
    violations->Expect(spec.model().hidden() % parameters.splits() == 0, splits,
                       parameters.splits(),
                       absl::StrCat("a divisor of hidden ", spec.model().hidden()));
  }
  if (parameters.sequence_parallel() &&
      violations->Sound({"parallelism.tp_size", "parallelism.pp_size", "parallelism.stages",
                         "model.sequence_length"})) {
    const int sequence = spec.model().sequence_length();
    for (int tp : TpSizesOf(spec.parallelism())) {
      const bool divides =
          violations->Expect(sequence % tp == 0, "schedule.parameters.sequence_parallel", "true",
                             absl::StrCat("false, because tp_size ", tp,
                                          " does not divide sequence_length ", sequence));
      if (!divides) break;
    }
  }
  CheckMerge(spec, violations);
  CheckWeaving(*rules, spec, violations);
  CheckWarmUp(spec, violations);
  CheckChunks(spec, violations);
  CheckPlan(spec, violations);
}

}  // namespace stretto::spec
