// SPDX-License-Identifier: Apache-2.0
#pragma once
// A backend that computes wrongly on purpose, in one bit: what compares bits must notice it.

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"
#include "tests/worker/engine/exec/forwarding_executor.h"
#include "worker/engine/exec/backend.h"

namespace stretto {

// The lowest bit of an element of a buffer of f32, after a step.
struct WrongBit {
  int executor = 0;         // of those that the backend makes, from 0; -1: none
  int run = 0;              // of that executor, from 0
  std::string buffer = {};  // its name in the program
  int64_t element = -1;     // -1: the last
};

class WrongBitExecutor final : public ForwardingExecutor {
 public:
  WrongBitExecutor(std::unique_ptr<Executor> inner, WrongBit wrong, BufferId buffer)
      : ForwardingExecutor(std::move(inner)), wrong_(std::move(wrong)), buffer_(buffer) {}

  absl::Status Run() override {
    RETURN_IF_ERROR(ForwardingExecutor::Run());
    if (runs_++ != wrong_.run) return absl::OkStatus();
    ASSIGN_OR_RETURN(const TensorView view, Read(buffer_));
    std::vector<float> values(view.as<const float>(), view.as<const float>() + view.count());
    float& value = wrong_.element < 0 ? values.back() : values[static_cast<size_t>(wrong_.element)];
    value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1u);
    return Write(buffer_, [&](TensorView wrong) {
      std::memcpy(wrong.data, values.data(), values.size() * sizeof(float));
      return absl::OkStatus();
    });
  }

 private:
  const WrongBit wrong_;
  const BufferId buffer_;
  int runs_ = 0;
};

class WrongBitBackend final : public Backend {
 public:
  WrongBitBackend(std::unique_ptr<Backend> inner, WrongBit wrong)
      : inner_(std::move(inner)), wrong_(std::move(wrong)) {}

  std::string Describe() const override { return inner_->Describe(); }
  absl::StatusOr<int64_t> FreeMemory() const override { return inner_->FreeMemory(); }
  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorRequest request) override {
    if (made_++ != wrong_.executor) return inner_->MakeExecutor(std::move(request));
    BufferId buffer;
    for (BufferId id : request.program.buffers.ids()) {
      if (request.program.buffers[id].name == wrong_.buffer) buffer = id;
    }
    if (buffer < 0) return absl::NotFoundError("the program has no buffer " + wrong_.buffer);
    ASSIGN_OR_RETURN(auto executor, inner_->MakeExecutor(std::move(request)));
    return std::make_unique<WrongBitExecutor>(std::move(executor), wrong_, buffer);
  }

  // Executors so far.
  int made() const { return made_; }

 private:
  const std::unique_ptr<Backend> inner_;
  const WrongBit wrong_;
  int made_ = 0;
};

}  // namespace stretto
