#include "worker/trainer/exchange/model_source.h"

namespace stretto {

absl::StatusOr<std::unique_ptr<ModelSource>> OpenModel(const std::string& name) {
  return absl::UnimplementedError(name);
}

}  // namespace stretto
