// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/pipelines.h"

namespace stretto {

std::vector<std::string> PipelineNames() {
  std::vector<std::string> names;
  for (const PipelineRules& rules : kPipelines) names.emplace_back(rules.name);
  return names;
}

}  // namespace stretto
