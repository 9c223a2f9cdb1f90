// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/commands/ideal.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/text/profile_text.h"
#include "proto/base/spread.h"
#include "proto/spec/job/layouts.h"

namespace stretto::cli {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::quiet_NaN();

// Which ranks share a worker, whatever the workers are called: "0 0 1 1" for four ranks on two of
// them, two each. Ranks of one worker meet in its memory, and others over the network.
std::string PlacesOf(const v1alpha1::Job& job) {
  std::map<std::string, size_t> numbers;  // of workers, in order of their first rank
  std::string places;
  for (const v1alpha1::RankPlacement& placed : job.placement()) {
    const size_t number = numbers.try_emplace(placed.worker(), numbers.size()).first->second;
    absl::StrAppend(&places, places.empty() ? "" : " ", number);
  }
  return places;
}

// What the bound depends on: what an unsliced step computes and sends, how it is spread over ranks
// and workers, and over which link. Attention to one's own document alone takes less where
// documents are short, so with it the text counts too.
std::pair<std::string, std::string> KeyOf(const v1alpha1::Job& job) {
  const v1alpha1::JobSpec& spec = job.spec();
  v1alpha1::JobSpec key;
  *key.mutable_model() = spec.model();
  *key.mutable_parallelism() = spec::ParallelismOf(job);
  key.set_precision(spec.precision());
  key.set_micro_batch_size(spec.micro_batch_size());
  key.set_global_batch_size(spec.global_batch_size());
  key.set_device(spec.device());
  key.set_deterministic(spec.deterministic());
  if (spec.data().document_mask()) {
    key.mutable_data()->set_document_mask(true);
    key.mutable_data()->set_prefix(spec.data().prefix());
    *key.mutable_data()->mutable_blend() = spec.data().blend();
  }
  if (spec.has_emulated_link()) *key.mutable_emulated_link() = spec.emulated_link();
  const v1alpha1::ScheduleParameters& parameters = spec.schedule().parameters();
  key.mutable_schedule()->mutable_parameters()->set_sequence_parallel(
      parameters.sequence_parallel());
  key.mutable_schedule()->mutable_parameters()->set_recompute(parameters.recompute());
  key.mutable_model()->clear_initial_weights();
  return {key.SerializeAsString(), PlacesOf(job)};
}

}  // namespace

std::vector<IdealStep> IdealsOf(const std::vector<v1alpha1::Job>& jobs) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> measured;
  for (const v1alpha1::Job& job : jobs) {
    const double seconds = job.profile().t_ideal_step();
    if (seconds > 0 && Disturbance(job.profile()).empty()) measured[KeyOf(job)].push_back(seconds);
  }
  std::vector<IdealStep> ideals;
  for (const v1alpha1::Job& job : jobs) {
    const std::vector<double>& of = measured[KeyOf(job)];
    IdealStep& ideal = ideals.emplace_back(IdealStep{kNoBound, kNoBound});
    if (of.empty()) continue;
    ideal.seconds = *std::min_element(of.begin(), of.end());
    if (of.size() > 1) ideal.spread = SpreadOf(of);
  }
  return ideals;
}

}  // namespace stretto::cli
