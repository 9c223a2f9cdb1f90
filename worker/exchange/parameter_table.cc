// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/parameter_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stretto {

ParameterTable::ParameterTable(const ModelSpec& model) {
  for (Parameter& parameter : ParametersOf(model, 1, 0)) {
    std::string name = parameter.name;
    parameters_.emplace(std::move(name), std::move(parameter));
  }
}

absl::StatusOr<const Parameter*> ParameterTable::Find(const std::string& source,
                                                      absl::string_view name,
                                                      const std::vector<int64_t>& starts,
                                                      const std::vector<int64_t>& extents) const {
  const auto found = parameters_.find(std::string(name));
  if (found == parameters_.end()) {
    return absl::NotFoundError(
        absl::StrCat(source, ": parameter ", name, ": found none, expected one of its model"));
  }
  const std::vector<int64_t>& shape = found->second.shape;
  bool inside = starts.size() == shape.size() && extents.size() == shape.size();
  for (size_t i = 0; inside && i < shape.size(); ++i) {
    inside = starts[i] >= 0 && extents[i] >= 0 && extents[i] <= shape[i] &&
             starts[i] <= shape[i] - extents[i];
  }
  if (inside) return &found->second;
  return absl::InvalidArgumentError(absl::StrCat(source, ": parameter ", name, ": found a box at ",
                                                 ShapeText(starts), " of ", ShapeText(extents),
                                                 ", expected one within ", ShapeText(shape)));
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

}  // namespace stretto
