// SPDX-License-Identifier: Apache-2.0
#pragma once
// A real etcd of one member on free ports, for tests that use it. Debian package etcd-server.

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/base/files.h"
#include "proto/tls/files.h"
#include "tests/proto/monitoring/http_get.h"

namespace stretto {

class EtcdServer {
 public:
  static constexpr char kBinary[] = "/usr/bin/etcd";
  static constexpr char kSkipped[] = "skipped: no /usr/bin/etcd (Debian package etcd-server)";
  static bool Installed() { return ::access(kBinary, X_OK) == 0; }

  // Its data is in `folder`, which exists. With `files` it serves TLS, and takes only clients with
  // a certificate of that CA.
  explicit EtcdServer(std::string folder, std::vector<std::string> flags = {},
                      tls::Files files = {})
      : folder_(std::move(folder)),
        flags_(std::move(flags)),
        files_(std::move(files)),
        port_(PortOf(ports_[0])),
        peer_port_(PortOf(ports_[1])),
        health_port_(PortOf(ports_[2])) {
    Start();
  }
  ~EtcdServer() { Kill(); }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  std::string port() const { return absl::StrCat(port_); }
  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port_); }

  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }
  // Starts on the same ports and data, and waits until it serves.
  void Start() {
    pid_ = ::fork();
    if (pid_ == 0) Run();
    constexpr absl::Duration kDeadline = absl::Seconds(60);
    const absl::Time deadline = absl::Now() + kDeadline;
    while (!absl::StrContains(monitoring::HttpGet(health_port_, "/health"), "\"true\"")) {
      ASSERT_LT(absl::Now(), deadline) << ReadFile(folder_ + "/etcd.log").value_or("");
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

 private:
  // A socket that keeps a free port for etcd, which can listen on it because both sides reuse
  // addresses. No other process gets the port, and no connection to it gets it as its own: until
  // etcd listens, such a connection would be connected to itself.
  static FileDescriptor KeepPort() {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return socket;
  }
  static int PortOf(const FileDescriptor& socket) {
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }

  [[noreturn]] void Run() const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = ::open((folder_ + "/etcd.log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(log, 1);
    ::dup2(log, 2);
    const std::string client =
        absl::StrCat(files_.empty() ? "http" : "https", "://127.0.0.1:", port_);
    const std::string peer = absl::StrCat("http://127.0.0.1:", peer_port_);
    std::vector<std::string> arguments = {
        kBinary, "--data-dir=" + folder_ + "/etcd", "--name=only", "--listen-client-urls=" + client,
        "--advertise-client-urls=" + client, "--listen-peer-urls=" + peer,
        "--initial-advertise-peer-urls=" + peer, "--initial-cluster=only=" + peer,
        absl::StrCat("--listen-metrics-urls=http://127.0.0.1:", health_port_),
        // The only member need not wait for others.
        "--heartbeat-interval=20", "--election-timeout=200"};
    if (!files_.empty()) {
      for (const std::string& flag :
           {std::string("--client-cert-auth"), "--trusted-ca-file=" + files_.ca,
            "--cert-file=" + files_.certificate, "--key-file=" + files_.key}) {
        arguments.push_back(flag);
      }
    }
    arguments.insert(arguments.end(), flags_.begin(), flags_.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(kBinary, argv.data());
    ::_exit(127);
  }

  const std::string folder_;
  const std::vector<std::string> flags_;
  const tls::Files files_;
  const FileDescriptor ports_[3] = {KeepPort(), KeepPort(), KeepPort()};
  const int port_, peer_port_, health_port_;
  pid_t pid_ = 0;
};

}  // namespace stretto
