// SPDX-License-Identifier: Apache-2.0
#include "coordinator/flags/etcd_flags.h"

namespace stretto::coordinator {

void AddEtcdFlags(CLI::App& app, EtcdFlags& etcd) {
  app.add_option("--etcd-endpoints", etcd.endpoints,
                 "keep the state in etcd instead of --state-dir, at these addresses, HOST:PORT, "
                 "several separated by commas. Of the coordinators with one --etcd-prefix one "
                 "leads, and the others wait to take over")
      ->excludes("--repair")
      ->excludes("--backup");
  app.add_option("--etcd-prefix", etcd.prefix,
                 "prefix of all keys of this cluster in etcd; begins and ends with /")
      ->capture_default_str();
  app.add_option("--etcd-ca", etcd.tls.ca,
                 "PEM file with the CA of etcd's certificate; enables TLS to etcd");
  app.add_option("--etcd-certificate", etcd.tls.certificate,
                 "PEM file with the certificate with which etcd knows this coordinator");
  app.add_option("--etcd-key", etcd.tls.key, "PEM file with the private key of that certificate");
  app.add_flag("--insecure-etcd-beyond-loopback", etcd.insecure_beyond_loopback,
               "allow --etcd-endpoints that other machines can reach without TLS; whoever reaches "
               "them can change the state of every job");
  app.add_option("--advertise", etcd.advertise,
                 "address at which workers and users reach this coordinator, HOST:PORT, for the "
                 "messages of the others (default: that of --listen)");
}

}  // namespace stretto::coordinator
