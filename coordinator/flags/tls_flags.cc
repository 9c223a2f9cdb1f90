// SPDX-License-Identifier: Apache-2.0
#include "coordinator/flags/tls_flags.h"

#include <CLI/CLI.hpp>

namespace stretto::service {

void AddTlsFlags(CLI::App& app, ServerOptions& options, std::string& page_listen) {
  app.add_option("--tls-ca", options.tls.ca,
                 "PEM file with the CA that signs the certificates of workers and users");
  app.add_option(
      "--tls-certificate", options.tls.certificate,
      "PEM file with the certificate of this coordinator, which must have the role coordinator");
  app.add_option(
      "--tls-key", options.tls.key,
      "PEM file with the private key of that certificate; the three --tls flags enable TLS, "
      "and their files are read again when they change");
  app.add_option("--tls-crl", options.tls_crl,
                 "PEM file with revocation lists of that CA; calls with a certificate in them are "
                 "refused, and open ones end. It is read again when it changes")
      ->needs("--tls-ca");
  app.add_option("--tokens", options.tokens,
                 "file with the keys and revoked tokens that `stretto ca token` writes; users may "
                 "show a token in place of a certificate. It is read again when it changes")
      ->needs("--tls-ca");
  app.add_option("--page-listen", page_listen,
                 "address at which users of other machines see the page, HOST:PORT, with TLS and "
                 "their certificates or tokens; port 0 picks a free port (default: nowhere)")
      ->needs("--tls-ca");
}

}  // namespace stretto::service
