// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/user_streams.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_replace.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/errors.h"
#include "proto/base/address.h"
#include "proto/base/limits.h"
#include "proto/base/sockets.h"
#include "proto/spec/violations.h"

namespace stretto::service {
namespace {

// Of gRPC's name of a peer, "ipv4:10.0.0.1:999" or "ipv6:%5B2001:db8::1%5D:999". Anything else is
// a machine by itself.
std::string MachineOf(const std::string& peer) {
  const std::string text =
      absl::StrReplaceAll(peer, {{"ipv4:", ""}, {"ipv6:", ""}, {"%5B", "["}, {"%5D", "]"}});
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) return peer;
  const auto resolved = Resolve(address->host, address->port);
  return resolved.ok() && !resolved->empty() ? resolved->front().Machine() : peer;
}

absl::Status TooMany(int64_t found, const std::string& whose, int64_t most, const char* flag) {
  return WithReason(absl::ResourceExhaustedError(absl::StrCat("found ", found, " open streams of ",
                                                              whose, ", expected fewer than ", most,
                                                              " (stretto-coordinator ", flag, ")")),
                    "TOO_MANY_STREAMS");
}

}  // namespace

std::string UserStreams::UserOf(const Call& call) {
  return call.peer.empty() ? call.caller.name : MachineOf(call.peer);
}

absl::Status UserStreams::Admit(const std::string& user) {
  const auto own = of_user_.find(user);
  if (own != of_user_.end() && own->second >= most_of_user_) {
    return TooMany(own->second, spec::Quoted(user), most_of_user_, limits::kStreamsOfUser.flag);
  }
  if (in_all_ >= most_) return TooMany(in_all_, "users", most_, limits::kUserStreams.flag);
  ++in_all_;
  ++of_user_[user];
  return absl::OkStatus();
}

void UserStreams::Release(const std::string& user) {
  --in_all_;
  const auto own = of_user_.find(user);
  if (--own->second == 0) of_user_.erase(own);
}

}  // namespace stretto::service
