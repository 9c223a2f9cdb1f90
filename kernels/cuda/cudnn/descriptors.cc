// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn/descriptors.h"

#include <utility>

namespace stretto::cuda {

Descriptors::~Descriptors() {
  for (auto made = made_.rbegin(); made != made_.rend(); ++made)
    library_.BackendDestroyDescriptor(*made);
}

Descriptor Descriptors::Make(cudnnBackendDescriptorType_t type) {
  if (!status_.ok()) return nullptr;
  Descriptor descriptor = nullptr;
  Did(library_.BackendCreateDescriptor(type, &descriptor), "cudnnBackendCreateDescriptor");
  if (status_.ok()) made_.push_back(descriptor);
  return descriptor;
}

Descriptor Descriptors::Finalize(Descriptor descriptor) {
  if (status_.ok()) Did(library_.BackendFinalize(descriptor), "cudnnBackendFinalize");
  return descriptor;
}

int64_t Descriptors::Get(Descriptor descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t room, void* values) {
  int64_t count = 0;
  if (!status_.ok()) return count;
  Did(library_.BackendGetAttribute(descriptor, name, type, room, &count, values),
      "cudnnBackendGetAttribute");
  return count;
}

absl::Status Descriptors::TakeStatus() { return std::exchange(status_, absl::OkStatus()); }

void Descriptors::SetElements(Descriptor descriptor, cudnnBackendAttributeName_t name,
                              cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (!status_.ok()) return;
  Did(library_.BackendSetAttribute(descriptor, name, type, count, values),
      "cudnnBackendSetAttribute");
}

void Descriptors::Did(cudnnStatus_t status, const char* call) {
  if (status_.ok()) status_ = library_.StatusOf(status, call);
}

}  // namespace stretto::cuda
