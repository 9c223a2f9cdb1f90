// SPDX-License-Identifier: Apache-2.0

// A layout is checked by reading the spec in it and applying all rules of specs to the result.

#include "proto/spec/job/layouts.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/spec/job/normalize.h"
#include "proto/spec/job/validate.h"

namespace stretto::spec {

v1alpha1::ParallelismSpec InLayout(v1alpha1::ParallelismSpec parallelism,
                                   const v1alpha1::LayoutSpec& layout) {
  parallelism.set_tp_size(layout.tp_size());
  parallelism.set_pp_size(layout.pp_size());
  parallelism.set_dp_size(layout.dp_size());
  parallelism.clear_stages();
  if (layout.dp_size() == 1) parallelism.clear_zero();
  if (layout.pp_size() == 1) parallelism.clear_chunks_per_stage();
  return parallelism;
}

v1alpha1::ParallelismSpec ParallelismOf(const v1alpha1::Job& job) {
  const v1alpha1::ParallelismSpec& own = job.spec().parallelism();
  const int layout = job.attempts().empty() ? 0 : job.attempts().rbegin()->layout();
  const auto& layouts = job.spec().restart().layouts();
  return layout < 1 || layout > layouts.size() ? own : InLayout(own, layouts[layout - 1]);
}

v1alpha1::JobSpec WithLayout(const v1alpha1::JobSpec& spec, int layout) {
  if (layout == 0) return spec;
  v1alpha1::JobSpec in = spec;
  *in.mutable_parallelism() = InLayout(spec.parallelism(), spec.restart().layouts(layout - 1));
  in.mutable_restart()->clear_layouts();
  if (in.parallelism().pp_size() == 1) in.mutable_schedule()->clear_pipeline();
  return Normalize(std::move(in));
}

void CheckLayouts(const v1alpha1::JobSpec& spec, Violations* violations) {
  for (int i = 0; i < spec.restart().layouts_size(); ++i) {
    const std::string path = absl::StrCat("restart.layouts[", i, "]");
    if (!violations->Sound({path})) continue;
    for (const FieldViolation& violation : ViolationsOf(WithLayout(spec, i + 1))) {
      absl::string_view field = violation.field;
      absl::ConsumePrefix(&field, "spec.");
      const bool own = absl::ConsumePrefix(&field, "parallelism.") &&
                       (field == "tp_size" || field == "pp_size" || field == "dp_size");
      if (own) {
        violations->Require(false, absl::StrCat(path, ".", field), violation.description);
      } else {
        violations->Require(
            false, path,
            absl::StrCat(violation.description, " (", violation.field, " in this layout)"));
      }
    }
  }
}

}  // namespace stretto::spec
