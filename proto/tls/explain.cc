// SPDX-License-Identifier: Apache-2.0

// Makes a handshake that accepts every certificate, so that it can judge the server's afterwards,
// and then reads a byte: a server that refuses ours closes the connection instead of sending one.

#include "proto/tls/explain.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/address.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/tls/x509.h"

namespace stretto::tls {
namespace {

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Connection = std::unique_ptr<SSL, decltype(&SSL_free)>;

constexpr timeval kTimeout = {2, 0};  // per wait

std::string FlagsOf(const Files& files) {
  return absl::StrCat(files.flags, "ca, ", files.flags, "certificate and ", files.flags, "key");
}

FileDescriptor Connect(const Address& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  if (::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    FileDescriptor socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, 0));
    if (!socket.valid()) continue;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
    if (::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0) return socket;
  }
  return {};
}

// Returns what is wrong with the server's certificate, if anything.
std::string JudgeServer(const SSL* connection, const std::string& host, const Files& files,
                        const Server& server) {
  std::vector<X509Pointer> chain;
  const STACK_OF(X509)* sent = SSL_get_peer_cert_chain(connection);
  for (int i = 0; i < sk_X509_num(sent); ++i) {
    X509* certificate = sk_X509_value(sent, i);
    X509_up_ref(certificate);
    chain.emplace_back(certificate);
  }
  if (chain.empty()) return "it sent no certificate";
  const X509& leaf = *chain.front();
  const absl::Time now = Clock::Real().Now();
  if (const absl::Status valid = CheckValidAt(leaf, now); !valid.ok()) {
    return absl::StrCat("its certificate: ", valid.message(), "; ", server.name,
                        " needs a new one");
  }
  const absl::StatusOr<std::string> ca = ReadFile(files.ca);
  const absl::Status chained = CheckChain(
      chain, ca.ok() ? ReadCertificates(*ca) : std::vector<X509Pointer>{}, now, Purpose::kServer);
  if (!chained.ok()) {
    return absl::StrCat("its certificate is by ", IssuerOf(leaf), " and does not lead to ",
                        files.flags, "ca ", files.ca, " (", chained.message(),
                        "); take the file of the CA that issued it");
  }
  if (!HasHost(leaf, host)) {
    return absl::StrCat("its certificate is for ", HostsOf(leaf), ", expected ", host,
                        "; use one of its names, or give it a certificate with this one");
  }
  if (!server.is_coordinator) return "";
  const absl::StatusOr<Identity> identity = IdentityOf(UrisOf(leaf));
  if (!identity.ok()) return absl::StrCat("its ", identity.status().message());
  if (identity->role == Role::kCoordinator) return "";
  return absl::StrCat("its certificate has role ", RoleName(identity->role),
                      ", expected role coordinator");
}

// Of a server that has closed the connection: what is wrong with our certificate.
std::string JudgeOurs(const Files& files, const Server& server) {
  if (files.certificate.empty()) {
    return absl::StrCat(files.token.empty()
                            ? "it wants a certificate of ours; give "
                            : "it takes no tokens; start it with --tokens, or give ",
                        files.flags, "certificate and ", files.flags, "key");
  }
  const std::string ours = absl::StrCat("it refuses our certificate ", files.certificate);
  const absl::StatusOr<std::string> text = ReadFile(files.certificate);
  const std::vector<X509Pointer> chain = ReadCertificates(text.ok() ? *text : "");
  if (chain.empty()) return absl::StrCat(ours, ", which holds none; give one");
  const absl::Status valid = CheckValidAt(*chain.front(), Clock::Real().Now());
  if (!valid.ok()) return absl::StrCat(ours, ": ", valid.message(), "; give a new one");
  return absl::StrCat(ours, " by ", IssuerOf(*chain.front()), "; take one of the CA that ",
                      server.name, " trusts");
}

}  // namespace

std::string ExplainFailure(const std::string& text, const Files& files, const Server& server) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) return "";
  const FileDescriptor socket = Connect(*address);
  if (!socket.valid()) return "";
  const Context context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  if (!files.certificate.empty()) {
    SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM);
  }
  const Connection connection(SSL_new(context.get()), SSL_free);
  SSL_set_fd(connection.get(), socket.get());
  SSL_set_alpn_protos(connection.get(), reinterpret_cast<const unsigned char*>("\x02h2"), 3);
  int result = SSL_connect(connection.get());
  const bool speaks_tls = SSL_get_peer_cert_chain(connection.get()) != nullptr;
  // A server that accepts our certificate sends first, as HTTP/2 requires.
  char first = 0;
  if (result == 1) result = SSL_read(connection.get(), &first, 1);
  const bool accepted = result == 1;
  // It may hang, whatever it speaks.
  const bool silent = !accepted && SSL_get_error(connection.get(), result) == SSL_ERROR_WANT_READ;
  ERR_clear_error();
  if (files.empty()) {
    if (!speaks_tls) return "";
    return absl::StrCat("it speaks TLS, and this client came without; give ", FlagsOf(files));
  }
  if (!speaks_tls) {
    return silent ? "" : absl::StrCat("it does not speak TLS; leave out ", FlagsOf(files));
  }
  std::string fault = JudgeServer(connection.get(), address->host, files, server);
  if (!fault.empty() || accepted || silent) return fault;
  return JudgeOurs(files, server);
}

}  // namespace stretto::tls
