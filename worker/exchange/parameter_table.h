// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole parameters of a model by name, with a check of requested boxes.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/model/parameters.h"

namespace stretto {

class ParameterTable {
 public:
  explicit ParameterTable(const ModelSpec& model);

  const std::map<std::string, Parameter>& parameters() const { return parameters_; }

  // `source` names the source in errors. Errors: NotFound (no such parameter), InvalidArgument (a
  // box outside its shape).
  absl::StatusOr<const Parameter*> Find(const std::string& source, absl::string_view parameter,
                                        const std::vector<int64_t>& starts,
                                        const std::vector<int64_t>& extents) const;

 private:
  std::map<std::string, Parameter> parameters_;
};

// "[2,3]"
std::string ShapeText(const std::vector<int64_t>& shape);

}  // namespace stretto
