// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls of etcd's v3 API. A call goes to one endpoint after the other until one answers or its time
// is over.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/store/etcd/call_timer.h"
#include "proto/base/clock.h"
#include "proto/tls/files.h"

namespace stretto::coordinator {

struct EtcdValue {
  std::string key, value;
  int64_t create_revision = 0, mod_revision = 0;
};

struct EtcdRange {
  std::vector<EtcdValue> values;  // by key
  bool more = false;              // the limit was reached
  int64_t revision = 0;           // of etcd
};

// A key that does not exist has revisions 0.
struct EtcdCompare {
  enum class Target { kCreated, kModified };
  std::string key;
  Target target = Target::kModified;
  int64_t revision = 0;
};

struct EtcdWrite {
  std::string key;
  std::optional<std::string> value = std::nullopt;  // erase
  bool prefix = false;                              // erase all keys that begin with `key`
  int64_t lease = 0;                                // with which the value vanishes; 0: none
};

struct EtcdTransaction {
  std::vector<EtcdCompare> compares;  // if all hold:
  std::vector<EtcdWrite> writes;      // these,
  std::vector<std::string> reads;     // else these keys are read
};

struct EtcdAnswer {
  bool succeeded = false;
  int64_t revision = 0;           // of etcd
  std::vector<EtcdValue> values;  // those of `reads` that exist
};

// Thread-safe. `within` bounds the time of a call. Errors:
//   Unavailable         no endpoint answered in time, or etcd has no quorum; whether a transaction
//                       was applied is not known. The message names the endpoints
//   ResourceExhausted   etcd's quota of space is used up
//   InvalidArgument     a request that is too large, and what etcd does not take
//   others              as etcd reports them
class EtcdClient {
 public:
  // `endpoints` are of the form HOST:PORT, at least one. TLS if `files` has a CA, and with a
  // certificate of ours if it has one. The files are read once. Errors: those of CheckClientFiles.
  // The time of a call passes on the monotonic clock of `clock`, which is borrowed.
  static absl::StatusOr<std::unique_ptr<EtcdClient>> Connect(
      const std::vector<std::string>& endpoints, const tls::Files& files,
      const Clock& clock = Clock::Real());
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  const std::string& name() const { return name_; }  // "etcd at a:2379,b:2379"

  // Why TLS to etcd fails and what to do: "HOST:PORT: its certificate ..." for the first endpoint
  // where something is wrong; empty if that is not why no endpoint answers. May wait for several
  // seconds; call it only after a failure.
  std::string ExplainFailure() const;

  // Reads `key`, or with `prefix` up to `limit` keys that begin with it, from `from` on if that is
  // not empty, as of `revision` (0: now, agreed upon by a majority).
  struct RangeOf {
    std::string key;
    bool prefix = false;
    std::string from = "";
    int64_t limit = 0;
    int64_t revision = 0;
  };
  absl::StatusOr<EtcdRange> Range(const RangeOf& range, absl::Duration within);
  absl::StatusOr<EtcdAnswer> Commit(const EtcdTransaction& transaction, absl::Duration within);
  // Drops the history before `revision`.
  absl::Status Compact(int64_t revision, absl::Duration within);

  // Returns the id of a new lease of `ttl`, rounded up to seconds.
  absl::StatusOr<int64_t> GrantLease(absl::Duration ttl, absl::Duration within);
  // Returns how long the lease lasts from now on. Errors: NotFound (it has ended).
  absl::StatusOr<absl::Duration> RenewLease(int64_t lease, absl::Duration within);
  absl::Status RevokeLease(int64_t lease, absl::Duration within);

 private:
  struct Endpoint;
  EtcdClient(std::vector<std::unique_ptr<Endpoint>> endpoints, tls::Files files, std::string name,
             const Clock& clock);
  // Calls `call(endpoint, context, ...)` until it succeeds, fails for good, or time is over.
  template <class Call>
  absl::Status Try(absl::Duration within, const Call& call);

  const std::vector<std::unique_ptr<Endpoint>> endpoints_;
  const tls::Files files_;
  const std::string name_;
  const Clock& clock_;
  CallTimer timer_;
  std::atomic<size_t> current_ = 0;  // the endpoint that answered last
};

}  // namespace stretto::coordinator
