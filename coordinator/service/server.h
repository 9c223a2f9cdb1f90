// SPDX-License-Identifier: Apache-2.0
#pragma once
// The coordinator as a gRPC server: its services, health and reflection on one port.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/core/core.h"
#include "coordinator/service/limits.h"
#include "coordinator/store/job_store.h"
#include "coordinator/telemetry/telemetry.h"
#include "proto/base/clock.h"
#include "proto/tls/files.h"

namespace stretto::tls {
class Tokens;
}  // namespace stretto::tls

namespace stretto::service {

class Reader;

struct ServerOptions {
  std::string listen = "127.0.0.1:7070";  // port 0 takes a free one
  tls::Files tls = {};                    // empty(): whoever reaches the port may do anything
  std::string tls_crl = {};               // path of revocation lists; empty: none. Only with tls
  std::string tokens = {};  // path of tls/tokens.h; empty: every caller needs a certificate
  bool insecure_listen_beyond_loopback = false;
  coordinator::CoreOptions core = {};
  Limits limits = {};
  std::string audit_log = {};  // path of the file (telemetry/audit.h); empty: none is written
  absl::Duration tick = absl::Milliseconds(500);  // how often leases are checked
  // Called before each task of the loop, if set. It does not return where this coordinator must not
  // act any more.
  std::function<void()> guard = nullptr;
};

// Opens options.tokens; null if there is none. Errors: those of tls::Tokens::Open;
// INVALID_ARGUMENT, naming the flags, without TLS.
absl::StatusOr<std::shared_ptr<tls::Tokens>> OpenTokens(const ServerOptions& options);

// Checks --listen. Errors: FAILED_PRECONDITION unless HOST of "HOST:PORT" is 127.x.y.z, [::1] or
// localhost, or there is TLS, or `insecure_listen_beyond_loopback` is set; INVALID_ARGUMENT if it
// is not of that form.
absl::Status CheckListenAddress(const ServerOptions& options);

class Server {
 public:
  // Reads the store, restores the core and listens. Owns the store; borrows clock and telemetry,
  // which must outlive the server. Errors: those of CheckListenAddress, tls::CheckFiles,
  // tls::Revocations::Open, tls::Tokens::Open, JobStore::Load and Core::Restore; INVALID_ARGUMENT,
  // naming the flags, for revocation lists or tokens without TLS; UNAVAILABLE, naming the address,
  // if it cannot bind.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       std::unique_ptr<coordinator::JobStore> store,
                                                       const Clock& clock,
                                                       telemetry::Telemetry& telemetry);
  // Calls Shutdown.
  ~Server();

  int port() const;

  // Whether connections are accepted (Front::Probe); OK once Shutdown has begun. Thread-safe, and
  // must not be called when the server is destroyed.
  absl::Status Probe();

  // What the API shows, for this process (reader.h). It outlives the server, and answers nothing
  // once Shutdown has begun.
  std::shared_ptr<Reader> reader() const;

  // Health becomes NOT_SERVING, open streams end with UNAVAILABLE, and calls in progress get two
  // seconds to end. Nothing runs afterwards. May be called repeatedly, from one thread.
  void Shutdown();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::service
