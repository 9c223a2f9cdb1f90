// SPDX-License-Identifier: Apache-2.0

// Wraps OpenSSL: certificates from PEM, their names, times and hosts as plain values, and the check
// of a chain. Pointers that OpenSSL returns are owned as soon as they are received.

#include "proto/tls/x509.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stretto::tls {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using GeneralNames = std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)>;

std::string Content(const Bio& bio) {
  char* text = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &text);  // NOLINT(runtime/int): OpenSSL's type
  return {text, static_cast<size_t>(length)};
}

GeneralNames AlternativeNames(const X509& certificate) {
  return {static_cast<GENERAL_NAMES*>(
              X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
          GENERAL_NAMES_free};
}

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

// Returns "" unless there are 4 or 16 bytes.
std::string IpOf(const ASN1_OCTET_STRING* bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  const int length = ASN1_STRING_length(bytes);
  if (length == 4 || length == 16) {
    inet_ntop(length == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(bytes), text, sizeof(text));
  }
  return text;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTimeT(timegm(&parts));
}

std::string Text(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

}  // namespace

std::vector<X509Pointer> ReadCertificates(absl::string_view pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  std::vector<X509Pointer> certificates;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(next);
  }
  ERR_clear_error();
  return certificates;
}

std::string PemOf(const X509& certificate) {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(bio.get(), &certificate);
  return Content(bio);
}

std::vector<std::string> UrisOf(const X509& certificate) {
  const GeneralNames names = AlternativeNames(certificate);
  std::vector<std::string> uris;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_URI) uris.push_back(TextOf(name->d.uniformResourceIdentifier));
  }
  return uris;
}

std::string HostsOf(const X509& certificate) {
  const GeneralNames names = AlternativeNames(certificate);
  std::vector<std::string> hosts;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) hosts.push_back(TextOf(name->d.dNSName));
    if (name->type == GEN_IPADD) hosts.push_back(IpOf(name->d.iPAddress));
  }
  return hosts.empty() ? "no name" : absl::StrJoin(hosts, ", ");
}

bool HasHost(const X509& certificate, const std::string& host) {
  X509* const borrowed = const_cast<X509*>(&certificate);  // OpenSSL's signatures lack const
  return X509_check_host(borrowed, host.data(), host.size(), X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                         nullptr) == 1 ||
         X509_check_ip_asc(borrowed, host.c_str(), 0) == 1;
}

std::string NameText(const X509_NAME* name) {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);
  return Content(bio);
}

std::string IssuerOf(const X509& certificate) {
  return NameText(X509_get_issuer_name(&certificate));
}

std::string SerialOf(const X509& certificate) {
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(&certificate), nullptr), BN_free);
  char* const text = number == nullptr ? nullptr : BN_bn2hex(number.get());
  const std::string serial = absl::AsciiStrToLower(text == nullptr ? "" : text);
  OPENSSL_free(text);
  return serial;
}

absl::Time BeginOf(const X509& certificate) { return TimeOf(X509_get0_notBefore(&certificate)); }
absl::Time EndOf(const X509& certificate) { return TimeOf(X509_get0_notAfter(&certificate)); }

absl::Status CheckValidAt(const X509& certificate, absl::Time now) {
  const absl::Time begin = BeginOf(certificate), end = EndOf(certificate);
  if (now >= begin && now <= end) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("found a certificate ",
                   now > end ? absl::StrCat("that expired at ", Text(end))
                             : absl::StrCat("that is not valid before ", Text(begin)),
                   ", expected one valid now, at ", Text(now)));
}

absl::Status CheckChain(const std::vector<X509Pointer>& chain,
                        const std::vector<X509Pointer>& roots, absl::Time now, Purpose purpose) {
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(X509_STORE_new(),
                                                                      X509_STORE_free);
  for (const X509Pointer& root : roots) X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)> others(
      sk_X509_new_null(), [](STACK_OF(X509) * stack) { sk_X509_free(stack); });
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(others.get(), chain[i].get());
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(
      X509_STORE_CTX_new(), X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), store.get(), chain.at(0).get(), others.get());
  X509_STORE_CTX_set_purpose(context.get(), purpose == Purpose::kServer ? X509_PURPOSE_SSL_SERVER
                                                                        : X509_PURPOSE_SSL_CLIENT);
  X509_STORE_CTX_set_time(context.get(), 0, absl::ToTimeT(now));
  const bool good = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  if (good) return absl::OkStatus();
  return absl::FailedPreconditionError(X509_verify_cert_error_string(error));
}

}  // namespace stretto::tls
