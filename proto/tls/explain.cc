// SPDX-License-Identifier: Apache-2.0
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
constexpr char kFlags[] = "--tls-ca, --tls-certificate and --tls-key";

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
std::string JudgeServer(const SSL* connection, const std::string& host, const Files& files) {
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
    return absl::StrCat("its certificate: ", valid.message(), "; the coordinator needs a new one");
  }
  const absl::StatusOr<std::string> ca = ReadFile(files.ca);
  const absl::Status chained = CheckChain(
      chain, ca.ok() ? ReadCertificates(*ca) : std::vector<X509Pointer>{}, now, Purpose::kServer);
  if (!chained.ok()) {
    return absl::StrCat("its certificate is by ", IssuerOf(leaf), " and does not lead to --tls-ca ",
                        files.ca, " (", chained.message(),
                        "); take the file of the CA that issued it");
  }
  if (!HasHost(leaf, host)) {
    return absl::StrCat("its certificate is for ", HostsOf(leaf), ", expected ", host,
                        "; use one of its names, or give it a certificate with this one");
  }
  const absl::StatusOr<Identity> identity = IdentityOf(UrisOf(leaf));
  if (!identity.ok()) return absl::StrCat("its ", identity.status().message());
  if (identity->role == Role::kCoordinator) return "";
  return absl::StrCat("its certificate has role ", RoleName(identity->role),
                      ", expected role coordinator");
}

}  // namespace

std::string ExplainFailure(const std::string& text, const Files& files) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  if (!address.ok()) return "";
  const FileDescriptor socket = Connect(*address);
  if (!socket.valid()) return "";
  const Context context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  if (!files.empty()) {
    SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM);
  }
  const Connection connection(SSL_new(context.get()), SSL_free);
  SSL_set_fd(connection.get(), socket.get());
  SSL_set_alpn_protos(connection.get(), reinterpret_cast<const unsigned char*>("\x02h2"), 3);
  const bool hands_shaken = SSL_connect(connection.get()) == 1;
  const bool speaks_tls = SSL_get_peer_cert_chain(connection.get()) != nullptr;
  // A server that accepts our certificate sends first, as HTTP/2 requires.
  char first = 0;
  const bool accepted = hands_shaken && SSL_read(connection.get(), &first, 1) == 1;
  ERR_clear_error();
  if (files.empty()) {
    if (!speaks_tls) return "";
    return absl::StrCat("it speaks TLS, and this client came without; give ", kFlags);
  }
  if (!speaks_tls) return absl::StrCat("it does not speak TLS; leave out ", kFlags);
  if (std::string fault = JudgeServer(connection.get(), address->host, files); !fault.empty()) {
    return fault;
  }
  if (accepted) return "";
  const absl::StatusOr<std::string> ours = ReadFile(files.certificate);
  const std::vector<X509Pointer> chain = ReadCertificates(ours.ok() ? *ours : "");
  return absl::StrCat("it refuses our certificate ", files.certificate, " by ",
                      chain.empty() ? "nobody" : IssuerOf(*chain.front()),
                      "; take one of the CA that the coordinator trusts");
}

}  // namespace stretto::tls
