// SPDX-License-Identifier: Apache-2.0

// A hostile network that begins TLS and never finishes, at each port that speaks it.

#include <openssl/ssl.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "tests/integration/hostile/hostile_test.h"

namespace stretto::integration {
namespace {

// The first message of a client that wants HTTP/2.
std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  BIO* const out = BIO_new(BIO_s_mem());  // of ssl
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  const unsigned char protocols[] = {2, 'h', '2'};
  EXPECT_EQ(SSL_set_alpn_protos(ssl.get(), protocols, sizeof protocols), 0);
  EXPECT_EQ(SSL_connect(ssl.get()), -1);  // it waits for the answer
  char* bytes = nullptr;
  const long count = BIO_get_mem_data(out, &bytes);
  EXPECT_GT(count, 100);
  return std::string(bytes, static_cast<size_t>(count));
}

struct Stall {
  const char* name;
  const char* tried;
  double sent;  // of the ClientHello
};
void PrintTo(const Stall& stall, std::ostream* out) { *out << stall.name; }
constexpr Stall kStalls[] = {
    {"BeforeAByte", "connections to a coordinator with TLS that never send a byte", 0},
    {"WithinTheHello", "TLS handshakes that stall within the first message", 0.5},
    {"AfterTheHello", "TLS handshakes that stall after the first message", 1},
};

class Handshake : public HostileTest, public testing::WithParamInterface<Stall> {
 protected:
  Handshake() : HostileTest(/*tls=*/true) {}
};

TEST_P(Handshake, ThatStallsIsClosed) {
  Try(absl::StrCat("200 ", GetParam().tried, ", and 50 of them to --page-listen"));
  const std::string hello = ClientHello();
  const auto begin =
      hello.substr(0, static_cast<size_t>(GetParam().sent * static_cast<double>(hello.size())));
  const absl::Time before = absl::Now();
  std::vector<FileDescriptor> open;
  for (int i = 0; i < 250; ++i) {
    open.push_back(Dial(i % 5 == 0 ? cluster_.page_port_ : cluster_.grpc_port_));
    Send(open.back(), begin);
  }
  absl::Duration longest;
  for (int i = 0; i < 5; ++i) {
    const absl::Time asked = absl::Now();
    EXPECT_EQ(cluster_.GetJob("kept").progress().steps(), 5);
    longest = std::max(longest, absl::Now() - asked);
    absl::SleepFor(absl::Milliseconds(200));
  }
  EXPECT_LT(longest, absl::Seconds(1));
  for (const FileDescriptor& fd : open) {
    EXPECT_TRUE(IsClosedWithin(fd, before + absl::Seconds(15) - absl::Now())) << "it is kept";
  }
  Saw(absl::StrFormat("healthy clients answered within %.2f s, all closed after %.0f s",
                      absl::ToDoubleSeconds(longest), absl::ToDoubleSeconds(absl::Now() - before)));
}
INSTANTIATE_TEST_SUITE_P(Network, Handshake, testing::ValuesIn(kStalls),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stretto::integration
