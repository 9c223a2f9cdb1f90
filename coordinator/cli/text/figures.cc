// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/figures.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "proto/base/units.h"

namespace stretto::cli {

double OverlapRatio(const v1alpha1::Ledger& ledger) {
  if (!(ledger.communication_seconds() > 0)) return std::numeric_limits<double>::quiet_NaN();
  return ledger.hidden_seconds() / ledger.communication_seconds();
}

std::string Percent(double ratio) {
  return std::isfinite(ratio) ? absl::StrFormat("%.1f %%", ratio * 100) : "-";
}

std::string Seconds(double seconds) {
  return std::isfinite(seconds) ? stretto::FormatDuration(absl::Seconds(seconds)) : "-";
}

std::string Loss(double loss) { return std::isnan(loss) ? "-" : absl::StrFormat("%.4f", loss); }

std::string Perplexity(double perplexity) {
  return std::isnan(perplexity) ? "-" : absl::StrFormat("%.4g", perplexity);
}

bool HasStepFigures(const v1alpha1::Progress& progress) { return progress.tokens() > 0; }

std::string HeldOutText(const v1alpha1::Evaluation& evaluation) {
  return absl::StrFormat("held-out loss %s, perplexity %s", Loss(evaluation.loss()),
                         Perplexity(evaluation.perplexity()));
}

}  // namespace stretto::cli
