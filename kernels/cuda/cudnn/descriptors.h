// SPDX-License-Identifier: Apache-2.0
#pragma once
// Descriptors of cuDNN's backend interface, created one after the other.

#include <cstdint>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_library.h"

namespace stretto::cuda {

using Descriptor = cudnnBackendDescriptor_t;

// Owns the descriptors that it makes. The first call that fails is remembered and later calls do
// nothing, so that a sequence of calls needs one check.
class Descriptors {
 public:
  explicit Descriptors(const CudnnLibrary& library) : library_(library) {}
  ~Descriptors();
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  Descriptor Make(cudnnBackendDescriptorType_t type);
  // `type` is the type of the elements, whose values cuDNN copies.
  template <class T>
  void Set(Descriptor descriptor, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    SetElements(descriptor, name, type, static_cast<int64_t>(values.size()), values.data());
  }
  template <class T>
  void Set(Descriptor descriptor, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, const T& value) {
    SetElements(descriptor, name, type, 1, &value);
  }
  void Set(Descriptor descriptor, cudnnBackendAttributeName_t name, Descriptor value) {
    Set<Descriptor>(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value);
  }
  // Returns the descriptor, for convenience.
  Descriptor Finalize(Descriptor descriptor);

  // Reads up to `room` elements into `values` and returns how many there are.
  int64_t Get(Descriptor descriptor, cudnnBackendAttributeName_t name,
              cudnnBackendAttributeType_t type, int64_t room, void* values);

  const absl::Status& status() const { return status_; }
  // Returns the first failure and forgets it, so that later calls run again.
  absl::Status TakeStatus();
  const CudnnLibrary& library() const { return library_; }

 private:
  void SetElements(Descriptor descriptor, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t count, const void* values);
  void Did(cudnnStatus_t status, const char* call);

  const CudnnLibrary library_;
  std::vector<Descriptor> made_;
  absl::Status status_;
};

}  // namespace stretto::cuda
