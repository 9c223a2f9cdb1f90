// SPDX-License-Identifier: Apache-2.0
#pragma once
// The page of a coordinator with TLS and tokens: asked in this process, and by TLS.

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/page/network_page.h"
#include "coordinator/page/page.h"
#include "tests/coordinator/service/token_harness.h"

namespace stretto::page {

class PageTokensTest : public service::TokenServiceTest {
 protected:
  PageTokensTest() {
    Fill();
    page_.Show(server_->reader());
  }
  // A job of each of two users and projects.
  void Fill() {
    EXPECT_TRUE(Create("gpt", Bearer("alice/submitter/speech"), "speech").ok());
    EXPECT_TRUE(Create("bert", Bearer("bob/submitter/text"), "text").ok());
  }

  static monitoring::Answer Get(Page& page, const std::string& path,
                                const std::string& authorization,
                                const std::string& host = "localhost") {
    return page.Get({.path = path, .host = host, .authorization = authorization});
  }
  monitoring::Answer Get(const std::string& path, const std::string& authorization) {
    return Get(page_, path, authorization);
  }
  // The names of the jobs that this reader sees.
  std::vector<std::string> Jobs(const std::string& authorization) {
    const monitoring::Answer answer = Get("/api/jobs", authorization);
    EXPECT_EQ(answer.code, 200) << answer.body;
    std::vector<std::string> names;
    for (const nlohmann::json& job :
         nlohmann::json::parse(answer.body).value("jobs", nlohmann::json::array())) {
      names.push_back(job["name"].get<std::string>());
    }
    return names;
  }
  void ExpectRefused(const monitoring::Answer& answer, int code,
                     const std::vector<std::string>& facts) {
    EXPECT_EQ(answer.code, code) << answer.body;
    golden_.Add(answer.body, facts);
  }

  const std::string page_key_ = std::string(64, 'a');
  Page page_{absl::OkStatus(), page_key_};
};

// Who asks, and how.
struct Visitor {
  std::string authorization = {};
  tls::Files own = {};           // with a certificate that it shows, unless empty
  bool own_script = true;        // sends what the page's own script sends
  std::string ca = "page.ca";    // whom it trusts
  int version = TLS1_3_VERSION;  // the newest that it speaks
  std::string method = "GET";
  int64_t* serial = nullptr;  // of the server's certificate
};

// A coordinator with TLS that serves the page to other machines.
class NetworkPageTest : public PageTokensTest {
 protected:
  NetworkPageTest() {
    std::signal(SIGPIPE, SIG_IGN);
    options_.tls = ca_.Write(folder_, "page", tls::kCoordinatorCertificate);
    options_.tokens = path_;
    auto page = NetworkPage::Start("127.0.0.1:0", options_);
    EXPECT_TRUE(page.ok()) << page.status();
    network_ = *std::move(page);
    network_->Show(server_->reader());
  }
  ~NetworkPageTest() override { std::signal(SIGPIPE, SIG_DFL); }

  // The whole answer; "" if the handshake fails.
  std::string Fetch(const std::string& path, const Visitor& client = {}) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    EXPECT_EQ(
        SSL_CTX_load_verify_locations(context.get(), (folder_ + "/" + client.ca).c_str(), nullptr),
        1);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_security_level(context.get(), 0);
    SSL_CTX_set_max_proto_version(context.get(), client.version);
    if (!client.own.empty()) {
      EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context.get(), client.own.certificate.c_str()),
                1);
      EXPECT_EQ(
          SSL_CTX_use_PrivateKey_file(context.get(), client.own.key.c_str(), SSL_FILETYPE_PEM), 1);
    }
    const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
    EXPECT_EQ(X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), "127.0.0.1"), 1);
    const FileDescriptor socket = Connect();
    SSL_set_fd(ssl.get(), socket.get());
    std::string answer;
    if (SSL_connect(ssl.get()) == 1) {
      if (client.serial != nullptr) {
        const X509* certificate = SSL_get0_peer_certificate(ssl.get());
        *client.serial = ASN1_INTEGER_get(X509_get0_serialNumber(certificate));
      }
      const std::string request =
          absl::StrCat(client.method, " ", path, " HTTP/1.1\r\nHost: page.example\r\n",
                       client.own_script ? "Stretto-Page: 1\r\n" : "",
                       "Authorization: ", client.authorization, "\r\n\r\n");
      SSL_write(ssl.get(), request.data(), static_cast<int>(request.size()));
      char block[4096];
      for (int n = 0; (n = SSL_read(ssl.get(), block, sizeof block)) > 0;) {
        answer.append(block, static_cast<size_t>(n));
      }
    }
    ERR_clear_error();
    return answer;
  }
  FileDescriptor Connect() const {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval patience = {.tv_sec = 30, .tv_usec = 0};
    EXPECT_EQ(setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(network_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  }

  service::ServerOptions options_;
  std::unique_ptr<NetworkPage> network_;
};

}  // namespace stretto::page
