#include "worker/exchange/model_limits.h"

#include "absl/strings/str_cat.h"

namespace stretto {

absl::Status CheckModel(const ModelSpec& model, const std::string& path) {
  EngineSpec spec;
  spec.model = model;
  spec.schedule.slices = {spec.micro_batch_size};
  const absl::Status valid = Validate(spec);
  if (valid.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", valid.message()));
}

}  // namespace stretto
