// SPDX-License-Identifier: Apache-2.0

// Wraps OpenSSL on sockets that do not block. A context is made of the files, and again when one of
// them has changed; a connection keeps the one that it began with.

#include "coordinator/page/secure_connections.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/tls/file_version.h"
#include "proto/tls/x509.h"

namespace stretto::page {
namespace {

using ContextPointer = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using SslPointer = std::unique_ptr<SSL, decltype(&SSL_free)>;

// Asks for a certificate of this CA. The flags are those that gRPC sets: the API's port and this
// one take the same certificates.
bool AskForCertificate(SSL_CTX* context, const std::string& ca) {
  const std::vector<tls::X509Pointer> roots = tls::ReadCertificates(ReadFile(ca).value_or(""));
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  for (const tls::X509Pointer& root : roots) {
    if (X509_STORE_add_cert(store, root.get()) != 1) return false;
    if (SSL_CTX_add_client_CA(context, root.get()) != 1) return false;  // a browser offers those
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  return !roots.empty();
}

absl::StatusOr<ContextPointer> MakeContext(const tls::Files& files) {
  ContextPointer context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  const bool made =
      context != nullptr && SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1 &&
      SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) == 1 &&
      SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) == 1 &&
      SSL_CTX_check_private_key(context.get()) == 1 && AskForCertificate(context.get(), files.ca);
  if (!made) {
    std::array<char, 256> text = {"found no certificate in the CA's file"};
    if (const unsigned long error = ERR_get_error(); error != 0) {  // NOLINT(runtime/int): theirs
      ERR_error_string_n(error, text.data(), text.size());
    }
    ERR_clear_error();
    return absl::FailedPreconditionError(absl::StrCat("--page-listen: OpenSSL cannot use ",
                                                      files.ca, ", ", files.certificate, " and ",
                                                      files.key, ": ", text.data()));
  }
  // A connection has one request, so nothing would be resumed.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

class Secure final : public monitoring::Connection {
 public:
  Secure(FileDescriptor socket, SslPointer ssl)
      : socket_(std::move(socket)), ssl_(std::move(ssl)) {}
  int fd() const override { return socket_.get(); }
  std::string PeerCertificate() const override {
    const X509* const own = SSL_get0_peer_certificate(ssl_.get());
    return own == nullptr ? "" : tls::PemOf(*own);
  }
  monitoring::Moved Receive(char* to, size_t most) override {
    ERR_clear_error();  // SSL_get_error looks at what is left there
    return MovedBy(SSL_read(ssl_.get(), to, static_cast<int>(std::min<size_t>(most, INT_MAX))));
  }
  monitoring::Moved Send(const char* from, size_t count) override {
    ERR_clear_error();
    return MovedBy(SSL_write(ssl_.get(), from, static_cast<int>(std::min<size_t>(count, INT_MAX))));
  }
  void EndSending() override {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());  // of our side; nobody waits for the other
    ERR_clear_error();
    shutdown(fd(), SHUT_WR);
  }

 private:
  monitoring::Moved MovedBy(int result) const {
    if (result > 0) return {.bytes = static_cast<size_t>(result)};
    const int error = SSL_get_error(ssl_.get(), result);
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_READ) return {.wait_for = POLLIN};
    if (error == SSL_ERROR_WANT_WRITE) return {.wait_for = POLLOUT};
    return {};
  }

  const FileDescriptor socket_;
  const SslPointer ssl_;
};

}  // namespace

struct SecureConnections::Impl {
  using Versions = std::array<tls::FileVersion, 3>;
  Versions Present() const {
    return {tls::VersionOf(files.ca), tls::VersionOf(files.certificate), tls::VersionOf(files.key)};
  }

  tls::Files files;
  Versions versions = {};  // of what was read last
  ContextPointer context{nullptr, SSL_CTX_free};
};

SecureConnections::SecureConnections(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SecureConnections::~SecureConnections() = default;

absl::StatusOr<std::unique_ptr<SecureConnections>> SecureConnections::Open(
    const tls::Files& files) {
  auto impl = std::make_unique<Impl>();
  impl->files = files;
  impl->versions = impl->Present();
  absl::StatusOr<ContextPointer> context = MakeContext(files);
  if (!context.ok()) return context.status();
  impl->context = *std::move(context);
  return std::unique_ptr<SecureConnections>(new SecureConnections(std::move(impl)));
}

std::unique_ptr<monitoring::Connection> SecureConnections::Accept(FileDescriptor socket) {
  const Impl::Versions versions = impl_->Present();
  if (versions != impl_->versions) {
    impl_->versions = versions;
    absl::StatusOr<ContextPointer> context = MakeContext(impl_->files);
    if (context.ok()) {
      impl_->context = *std::move(context);
    } else {
      // As while one of the files is replaced before the others.
      spdlog::warn("the page keeps its certificate and CA: {}",
                   std::string(context.status().message()));
    }
  }
  SslPointer ssl(SSL_new(impl_->context.get()), SSL_free);
  if (ssl == nullptr || SSL_set_fd(ssl.get(), socket.get()) != 1) {
    ERR_clear_error();
    return nullptr;
  }
  SSL_set_accept_state(ssl.get());
  return std::make_unique<Secure>(std::move(socket), std::move(ssl));
}

}  // namespace stretto::page
