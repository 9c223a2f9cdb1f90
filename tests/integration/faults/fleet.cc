// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/faults/fleet.h"

#include "absl/strings/str_cat.h"

namespace stretto::integration {
namespace {

constexpr int kSessionSeconds = 3600;
constexpr std::chrono::milliseconds kInterval{2000};  // finer than a part of it
constexpr int kParts = 200;  // of an interval, in which an equal share of workers is due

}  // namespace

Fleet::Fleet(const std::string& coordinator, int count)
    : Fleet(coordinator, count, Connections()) {}

Fleet::Fleet(const std::string& coordinator, int count, const Connections& connections) {
  workers_.resize(static_cast<size_t>(count));
  // Those that are registered already must be heard while the others register.
  thread_ = std::thread([this] { Beat(); });
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (i % connections.sessions_each == 0) {
      grpc::ChannelArguments own;
      own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
      stubs_.push_back(v1alpha1::WorkerService::NewStub(
          grpc::CreateCustomChannel(coordinator, connections.credentials, own)));
    }
    // A session that does not register within 10 s is ended, so it begins only now.
    auto worker = std::make_unique<service::FakeWorker>(*stubs_.back(), absl::StrCat("fleet-", i),
                                                        "first", kSessionSeconds);
    auto& hello = worker->hello();
    hello.mutable_devices()->DeleteSubrange(1, hello.devices_size() - 1);
    hello.mutable_devices(0)->set_kind(v1alpha1::DEVICE_CUDA);
    if (!worker->Register().has_registered()) ADD_FAILURE() << worker->Drop().error_message();
    workers_[i] = std::move(worker);
    ++registered_;
  }
}

Fleet::~Fleet() {
  stopping_ = true;
  thread_.join();
}

void Fleet::Beat() {
  auto due = std::chrono::steady_clock::now();
  for (size_t part = 0; !stopping_; part = (part + 1) % kParts) {
    for (size_t i = part; i < registered_; i += kParts) {
      v1alpha1::WorkerMessage message;
      message.mutable_heartbeat();
      workers_[i]->Write(message);
    }
    due += kInterval / kParts;
    const auto now = std::chrono::steady_clock::now();
    if (now > due + kInterval) {
      ++late_rounds_;
      due = now;
    }
    std::this_thread::sleep_until(due);  // the same pace as that of real workers
  }
}

}  // namespace stretto::integration
