// SPDX-License-Identifier: Apache-2.0

// One line for each section of a spec: what it has, and what differs from the defaults.

#include "coordinator/cli/text/spec_text.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/text/enum_names.h"
#include "proto/spec/architecture.h"

namespace stretto::cli {

std::string LinkText(const v1alpha1::JobSpec& spec) {
  if (!spec.has_emulated_link()) return "real";
  return absl::StrFormat("emulated link, %g Gbit/s, %g us latency",
                         spec.emulated_link().gigabits_per_second(),
                         spec.emulated_link().latency_microseconds());
}

double TokensOfStep(const v1alpha1::JobSpec& spec) {
  return static_cast<double>(spec.global_batch_size()) *
         static_cast<double>(spec.model().sequence_length());
}

std::string LabelsText(const v1alpha1::JobSpec& spec) {
  const auto add = [](std::string* out, const auto& label) {
    absl::StrAppend(out, label.first, label.second.empty() ? "" : "=", label.second);
  };
  return absl::StrJoin(std::map(spec.labels().begin(), spec.labels().end()), ", ", add);
}

std::string ModelText(const v1alpha1::JobSpec& spec) {
  const v1alpha1::ModelSpec& model = spec.model();
  std::string text = model.preset().empty() ? "" : absl::StrCat(model.preset(), ": ");
  if (model.family() != v1alpha1::FAMILY_UNSPECIFIED) {
    absl::StrAppend(&text, ShortName(model.family()), ", ");
  }
  absl::StrAppendFormat(&text, "%d layers, hidden %d, %d heads", model.layers(), model.hidden(),
                        model.heads());
  const bool shared = model.kv_heads() > 0 && model.kv_heads() != model.heads();
  if (shared) absl::StrAppend(&text, " on ", model.kv_heads(), " of keys and values");
  absl::StrAppend(&text, ", sequence ", model.sequence_length());
  if (model.dropout() > 0) absl::StrAppend(&text, ", dropout ", model.dropout());
  if (model.has_norm_epsilon() && model.norm_epsilon() != 1e-5)
    absl::StrAppend(&text, ", norm epsilon ", model.norm_epsilon());
  const Architecture* known = FindArchitecture(model.family());
  const Architecture& architecture = known ? *known : ArchitectureOf(kDefaultFamily);
  if (model.has_tied_head() && model.tied_head() != architecture.tied_head)
    absl::StrAppend(&text, model.tied_head() ? ", tied head" : ", a head of its own");
  if (model.has_rotary_scaling()) {
    absl::StrAppend(&text, ", positions stretched by ", model.rotary_scaling().factor(), " (",
                    ShortName(model.rotary_scaling().kind()), ")");
  }
  return text;
}

std::string DataText(const v1alpha1::JobSpec& spec) {
  const v1alpha1::DataSpec& data = spec.data();
  double sum = 0;
  for (const v1alpha1::BlendPart& part : data.blend()) sum += part.weight();
  std::string text = data.prefix();
  if (data.blend_size() > 0) {
    const auto add = [sum](std::string* out, const v1alpha1::BlendPart& part) {
      absl::StrAppendFormat(out, "%s (%.3g %%)", part.prefix(), 100 * part.weight() / sum);
    };
    text = absl::StrCat("blend of ", absl::StrJoin(data.blend(), ", ", add));
  }
  if (data.held_out() > 0)
    absl::StrAppendFormat(&text, ", %.3g %% held out", 100 * data.held_out());
  return text;
}

std::string OptionsText(const v1alpha1::JobSpec& spec) {
  const v1alpha1::ScheduleParameters& parameters = spec.schedule().parameters();
  std::vector<std::string> options;
  if (parameters.sequence_parallel()) options.emplace_back("sequence parallel");
  if (parameters.recompute() > v1alpha1::RECOMPUTE_NONE) {
    options.push_back(absl::StrCat("recompute ", ShortName(parameters.recompute())));
  }
  if (parameters.defer_wgrads() > 0) {
    options.push_back(absl::StrCat("wgrads deferred by ", parameters.defer_wgrads()));
  }
  if (parameters.merge_wgrads() > 1) {
    options.push_back(
        absl::StrCat("wgrads of ", parameters.merge_wgrads(), " micro-batches merged"));
  } else if (parameters.merge_wgrads() == 1) {
    options.emplace_back("wgrads merged");
  }
  if (parameters.auto_merge_wgrads()) options.emplace_back("wgrads merged as memory allows");
  const v1alpha1::Precision wire = spec.parallelism().wire();
  if (wire != v1alpha1::PRECISION_UNSPECIFIED && wire != spec.precision()) {
    options.push_back(absl::StrCat("wire ", ShortName(wire)));
  }
  return absl::StrJoin(options, ", ");
}

std::string LayoutText(const v1alpha1::JobSpec& spec) {
  const v1alpha1::ParallelismSpec& parallelism = spec.parallelism();
  const int replicas = parallelism.dp_size();
  const auto stage = [&](std::string* out, const v1alpha1::StageSpec& of) {
    absl::StrAppend(out, of.layers(), " x tp ", of.tp_size());
    if (of.dp_size() > 0 && of.dp_size() != replicas) absl::StrAppend(out, " x dp ", of.dp_size());
  };
  std::string text =
      parallelism.stages().empty()
          ? absl::StrCat("tp ", parallelism.tp_size())
          : absl::StrCat("layers ", absl::StrJoin(parallelism.stages(), " + ", stage));
  if (parallelism.pp_size() > 1) {
    const v1alpha1::PipelineSpec& pipeline = spec.schedule().pipeline();
    absl::StrAppend(&text, ", pp ", parallelism.pp_size(), " ", pipeline.order());
    const int chunks = parallelism.chunks_per_stage();
    if (chunks > 1) absl::StrAppend(&text, ", ", chunks, " chunks per stage");
    if (!pipeline.warm_up().empty())
      absl::StrAppend(&text, ", warm-ups ", absl::StrJoin(pipeline.warm_up(), " "));
    if (pipeline.auto_warm_up()) absl::StrAppend(&text, ", warm-ups by measured times");
    if (pipeline.wgrad_delay() > v1alpha1::WGRAD_DELAY_NONE)
      absl::StrAppend(&text, ", wgrads delayed: ", ShortName(pipeline.wgrad_delay()));
    if (pipeline.transfer() > v1alpha1::TRANSFER_AUTO)
      absl::StrAppend(&text, ", transfers: ", ShortName(pipeline.transfer()));
  }
  if (replicas > 1) {
    absl::StrAppend(&text, ", dp ", replicas);
    if (parallelism.zero() > 0) absl::StrAppend(&text, " zero ", parallelism.zero());
  }
  return text;
}

std::string ScheduleText(const v1alpha1::JobSpec& spec) {
  std::string text = spec.schedule().name();
  const v1alpha1::ScheduleParameters& parameters = spec.schedule().parameters();
  if (parameters.slice_sizes_size() > 0) {
    absl::StrAppend(&text, ", slices of ", absl::StrJoin(parameters.slice_sizes(), " + "));
  } else if (parameters.slices() > 0) {
    absl::StrAppend(&text, ", ", parameters.slices(), " slices");
  }
  if (parameters.splits() > 1) absl::StrAppend(&text, ", ", parameters.splits(), " splits");
  if (const std::string& plan = spec.schedule().plan(); !plan.empty()) {
    absl::StrAppend(&text, ", a plan of ", std::count(plan.begin(), plan.end(), '\n'), " lines");
  }
  absl::StrAppend(&text, ", ", LayoutText(spec));
  const std::string options = OptionsText(spec);
  return options.empty() ? text : absl::StrCat(text, ", ", options);
}

}  // namespace stretto::cli
