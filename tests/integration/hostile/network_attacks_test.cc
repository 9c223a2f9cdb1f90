// SPDX-License-Identifier: Apache-2.0

// A hostile network: bytes that are no requests on every port, and connections that keep no order.

#include <sys/resource.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/hostile/hostile_test.h"
#include "tests/integration/hostile/http2_frames.h"

namespace stretto::integration {
namespace {

using namespace http2;  // NOLINT: frames

std::string Random(size_t bytes) {
  std::mt19937_64 random(19);
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}
std::string Times(int count, const std::function<std::string(uint32_t)>& part) {
  std::string out;
  for (int i = 0; i < count; ++i) out += part(static_cast<uint32_t>(i));
  return out;
}
constexpr uint32_t Stream(uint32_t i) { return 2 * i + 1; }  // those that a client opens

struct Bytes {
  const char* name;
  const char* tried;
  std::function<std::string()> bytes;
};
void PrintTo(const Bytes& bytes, std::ostream* out) { *out << bytes.name; }
template <class Info>
std::string NameOf(const Info& info) {
  return info.param.name;
}

// ---- bytes for any port

const std::vector<Bytes> kGarbage = {
    {"Zeros", "1 MB of zeros", [] { return std::string(1 << 20, '\0'); }},
    {"Ones", "1 MB of ones", [] { return std::string(1 << 20, '\xff'); }},
    {"Random", "1 MB of random bytes", [] { return Random(1 << 20); }},
    {"NewLines", "1 MB of new lines", [] { return std::string(1 << 20, '\n'); }},
    {"Letters", "4 MB of a letter", [] { return std::string(4 << 20, 'A'); }},
    {"Ssh", "the begin of SSH", [] { return std::string("SSH-2.0-OpenSSH_9.9\r\n"); }},
    {"HalfTls", "half a TLS handshake",
     [] { return std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11); }},
    {"LongTls", "a TLS record that is longer than it may be",
     [] { return absl::StrCat("\x16\x03\x01\xff\xff", std::string(70'000, 'x')); }},
    {"TlsAlerts", "100,000 TLS alerts",
     [] {
       return Times(100'000,
                    [](uint32_t) { return std::string("\x15\x03\x01\x00\x02\x01\x00", 7); });
     }},
    {"HalfPreface", "half of the begin of HTTP/2",
     [] { return std::string(kPreface).substr(0, 12); }},
    {"HttpRequest", "a request of HTTP/1.1 for another host",
     [] { return std::string("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"); }},
    {"LongRequestLine", "a request line of 1 MB",
     [] { return absl::StrCat("GET /", std::string(1 << 20, 'a'), " HTTP/1.1\r\n\r\n"); }},
    {"HeaderBomb", "100,000 headers",
     [] {
       return absl::StrCat(
           "GET /metrics HTTP/1.1\r\n",
           Times(100'000, [](uint32_t i) { return absl::StrCat("h", i, ": x\r\n"); }), "\r\n");
     }},
    {"HeaderThatNeverEnds", "a header of 1 MB without an end",
     [] { return absl::StrCat("GET /metrics HTTP/1.1\r\nA: ", std::string(1 << 20, 'a')); }},
    {"EscapesInAPath", "escapes and zeros in a path",
     [] { return std::string("GET /\x1b[2J\0\x9b HTTP/1.1\r\n\r\n", 24); }},
    {"PathUpwards", "a path that goes upwards",
     [] { return std::string("GET /../../../../etc/passwd HTTP/1.1\r\n\r\n"); }},
    {"Posts", "1,000 requests that post, one behind the other",
     [] {
       return Times(1000, [](uint32_t) {
         return std::string("POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
       });
     }},
    {"NegativeLength", "a body of a negative length",
     [] { return std::string("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"); }},
    {"BareLineFeeds", "a request whose lines end in line feeds alone",
     [] { return std::string("GET /metrics HTTP/1.1\n\n"); }},
};

struct Port {
  const char* name;
  const char* called;
  bool tls;
  std::string (*number)(HostileCluster&);
};
void PrintTo(const Port& port, std::ostream* out) { *out << port.name; }
const std::vector<Port> kPorts = {
    {"Grpc", "the coordinator", false, [](HostileCluster& c) { return c.grpc_port_; }},
    {"Tls", "a coordinator with TLS", true, [](HostileCluster& c) { return c.grpc_port_; }},
    {"Page", "the port of --page-listen", true, [](HostileCluster& c) { return c.page_port_; }},
    {"Metrics", "the coordinator's metrics port", false,
     [](HostileCluster& c) { return c.metrics_port_; }},
    {"WorkerMetrics", "a worker's metrics port", false,
     [](HostileCluster& c) { return c.worker_ports_["node-a"]; }}};

class Garbage : public HostileTest, public testing::WithParamInterface<std::tuple<Port, Bytes>> {
 protected:
  Garbage() : HostileTest(std::get<0>(GetParam()).tls) {}
};
TEST_P(Garbage, IsNoRequest) {
  const auto& [port, bytes] = GetParam();
  Try(absl::StrCat(bytes.tried, " to ", port.called, ", on 8 connections"));
  std::vector<FileDescriptor> open;
  for (int i = 0; i < 8; ++i) {
    open.push_back(Dial(port.number(cluster_)));
    Send(open.back(), bytes.bytes());
    shutdown(open.back().get(), SHUT_WR);
  }
  for (const FileDescriptor& fd : open) {
    std::string answer;
    EXPECT_TRUE(IsClosedWithin(fd, absl::Seconds(15), &answer)) << "it is kept";
    EXPECT_FALSE(absl::StrContains(answer, "HTTP/1.1 200")) << answer.substr(0, 200);
    EXPECT_FALSE(absl::StrContains(answer, "root:")) << answer.substr(0, 200);
  }
  Saw("closed");
}
INSTANTIATE_TEST_SUITE_P(Network, Garbage,
                         testing::Combine(testing::ValuesIn(kPorts), testing::ValuesIn(kGarbage)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<1>(info.param).name, "At",
                                               std::get<0>(info.param).name);
                         });

// ---- HTTP/2

constexpr char kWatch[] = "/stretto.v1alpha1.JobService/WatchJob";

const std::vector<Bytes> kFrames = {
    {"LongestFrame", "a frame that says it has 16 MB",
     [] { return absl::StrCat(Begin(), Frame(kData, 0, 1, Random(1 << 16), 0xffffff)); }},
    {"SettingsOnAStream", "settings of a stream",
     [] { return absl::StrCat(kPreface, Frame(kSettings, 0, 1, "")); }},
    {"SettingsOfOddLength", "settings that are cut",
     [] { return absl::StrCat(kPreface, Frame(kSettings, 0, 0, "12345")); }},
    {"WindowTooLarge", "a window of 4 GB",
     [] {
       return absl::StrCat(kPreface, Frame(kSettings, 0, 0, Number(4, 2) + Number(0xffffffff)));
     }},
    {"SettingsFlood", "100,000 settings",
     [] {
       return absl::StrCat(Begin(), Times(100'000, [](uint32_t i) {
                             return Frame(kSettings, 0, 0, Number(3, 2) + Number(i));
                           }));
     }},
    {"PingFlood", "100,000 pings",
     [] {
       return absl::StrCat(Begin(),
                           Times(100'000, [](uint32_t) { return Frame(kPing, 0, 0, "12345678"); }));
     }},
    {"WindowOfNothing", "100,000 windows that grow by nothing",
     [] {
       return absl::StrCat(
           Begin(), Times(100'000, [](uint32_t) { return Frame(kWindow, 0, 0, Number(0)); }));
     }},
    {"WindowOverflow", "windows that grow beyond 2 GB",
     [] {
       return absl::StrCat(
           Begin(), Times(100, [](uint32_t) { return Frame(kWindow, 0, 0, Number(0x7fffffff)); }));
     }},
    {"ResetOfNoStream", "100,000 resets of streams that are not",
     [] {
       return absl::StrCat(Begin(), Times(100'000, [](uint32_t i) {
                             return Frame(kReset, 0, Stream(i), Number(8));
                           }));
     }},
    {"PriorityFlood", "100,000 priorities",
     [] {
       return absl::StrCat(Begin(), Times(100'000, [](uint32_t i) {
                             return Frame(kPriority, 0, Stream(i), Number(0) + Number(1, 1));
                           }));
     }},
    {"PushOfAClient", "a push by the client",
     [] { return absl::StrCat(Begin(), Frame(kPush, kEndHeaders, 1, Number(2) + Call(kGet))); }},
    {"UnknownFrames", "100,000 frames of a kind that is not",
     [] {
       return absl::StrCat(Begin(),
                           Times(100'000, [](uint32_t i) { return Frame(0xfe, 0, i, "abc"); }));
     }},
    {"DataOfNoStream", "data of a stream that is not",
     [] { return absl::StrCat(Begin(), Frame(kData, 0, 7, std::string(16'000, 'x'))); }},
    {"GarbledHeaders", "headers that do not decode",
     [] { return absl::StrCat(Begin(), Frame(kHeaders, kEndHeaders, 1, Random(8'000))); }},
    {"PaddingBeyondTheFrame", "padding that is longer than its frame",
     [] {
       return absl::StrCat(Begin(), Frame(kHeaders, kEndHeaders | kPadded, 1,
                                          "\xff"
                                          "abc"));
     }},
    {"EvenStream", "a stream that only a server may open",
     [] { return absl::StrCat(Begin(), Frame(kHeaders, kEndHeaders, 2, Call(kGet))); }},
    {"StreamsBackwards", "streams whose numbers fall",
     [] {
       return absl::StrCat(Begin(), Times(50, [](uint32_t i) {
                             return Frame(kHeaders, kEndHeaders, Stream(100 - i), Call(kGet));
                           }));
     }},
    {"ContinuationOfNothing", "a continuation of no headers",
     [] { return absl::StrCat(Begin(), Frame(kContinuation, kEndHeaders, 1, Call(kGet))); }},
    {"ContinuationFlood", "headers that go on for 4 MB",
     [] {
       return absl::StrCat(Begin(), Frame(kHeaders, 0, 1, Call(kGet)), Times(4'000, [](uint32_t) {
                             return Frame(
                                 kContinuation, 0, 1,
                                 Header("a", std::string(120, 'x')) + std::string(900, '\x80'));
                           }));
     }},
    {"EmptyContinuations", "100,000 empty continuations",
     [] {
       return absl::StrCat(Begin(), Frame(kHeaders, 0, 1, Call(kGet)),
                           Times(100'000, [](uint32_t) { return Frame(kContinuation, 0, 1, ""); }));
     }},
    {"HeaderBomb", "a header of 4 KB that is named 15,000 times",
     [] {
       // Added to the table once (01......), then one byte each (index 62, the newest).
       std::string value = absl::StrCat("\x40\x01", "a", "\x7f\xe0\x1e", std::string(4063, 'x'));
       return absl::StrCat(Begin(),
                           Frame(kHeaders, kEndHeaders, 1,
                                 absl::StrCat(Call(kGet), value, std::string(12'000, '\xbe'))));
     }},
    {"RapidReset", "20,000 calls that are reset at once",
     [] {
       return absl::StrCat(Begin(), Times(20'000, [](uint32_t i) {
                             return Frame(kHeaders, kEndHeaders, Stream(i), Call(kWatch)) +
                                    Frame(kReset, 0, Stream(i), Number(8));
                           }));
     }},
    {"MoreStreamsThanAllowed", "20,000 calls at once that send nothing",
     [] {
       return absl::StrCat(Begin(), Times(20'000, [](uint32_t i) {
                             return Frame(kHeaders, kEndHeaders, Stream(i), Call(kWatch));
                           }));
     }},
    {"EmptyData", "100,000 empty frames of data",
     [] {
       return absl::StrCat(Begin(), Frame(kHeaders, kEndHeaders, 1, Call(kGet)),
                           Times(100'000, [](uint32_t) { return Frame(kData, 0, 1, ""); }));
     }},
    {"MessageOf4GB", "a message that says it has 4 GB",
     [] {
       return absl::StrCat(Begin(), Frame(kHeaders, kEndHeaders, 1, Call(kGet)),
                           Frame(kData, kEndStream, 1, Number(0, 1) + Number(0xffffffff) + "abc"));
     }},
    {"CompressedMessage", "a message that says it is compressed",
     [] {
       return absl::StrCat(Begin(), Frame(kHeaders, kEndHeaders, 1, Call(kGet)),
                           Frame(kData, kEndStream, 1, Number(1, 1) + Number(3) + "abc"));
     }},
    {"ManyMethods", "1,000 calls of methods that are not",
     [] {
       return absl::StrCat(Begin(), Times(1'000, [](uint32_t i) {
                             return Frame(kHeaders, kEndHeaders | kEndStream, Stream(i),
                                          Call(absl::StrCat("/none/", i)));
                           }));
     }},
    {"MethodWithEscapes", "a method with escapes",
     [] {
       return absl::StrCat(Begin(),
                           Frame(kHeaders, kEndHeaders | kEndStream, 1, Call("/\x1b[2J/\x07")));
     }},
    {"GoAwayAndMore", "calls after the end of the connection",
     [] {
       return absl::StrCat(Begin(), Frame(kGoAway, 0, 0, Number(0) + Number(0)),
                           Frame(kHeaders, kEndHeaders | kEndStream, 1, Call(kGet)));
     }},
};
class Http2 : public HostileTest, public testing::WithParamInterface<Bytes> {};
TEST_P(Http2, HarmsNobody) {
  Try(absl::StrCat(GetParam().tried, ", on 4 connections of HTTP/2 whose answers are not read"));
  const std::string bytes = GetParam().bytes();
  {
    std::vector<FileDescriptor> open;
    for (int i = 0; i < 4; ++i) {
      open.push_back(Dial(cluster_.grpc_port_));
      Send(open.back(), bytes);
    }
    Saw(absl::StrCat(cluster_.CoordinatorBytes() >> 20, " MiB meanwhile"));
  }
}
INSTANTIATE_TEST_SUITE_P(Network, Http2, testing::ValuesIn(kFrames),
                         NameOf<testing::TestParamInfo<Bytes>>);

// ---- connections and streams

class Connections : public HostileTest {};

TEST_F(Connections, WithoutAByte) {
  Try("as many idle TCP connections as descriptors, before any handshake");
  rlimit before = {};
  ASSERT_EQ(prlimit(cluster_.coordinator().pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit few = {.rlim_cur = 256, .rlim_max = before.rlim_max};
  ASSERT_EQ(prlimit(cluster_.coordinator().pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  {
    std::vector<FileDescriptor> flood;
    for (int i = 0; i < 600; ++i) flood.push_back(Dial(cluster_.grpc_port_));
    absl::SleepFor(absl::Seconds(2));
    const absl::Time now = absl::Now();
    EXPECT_TRUE(
        absl::StartsWith(cluster_.Fetch(cluster_.metrics_port_, "/healthz"), "HTTP/1.1 200"));
    EXPECT_LT(absl::Now() - now, absl::Seconds(1));
  }
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(Eventually([&] { return cluster_.Run({"job", "get", "kept"}).code == 0; }));
  Saw(absl::StrCat("answers ", absl::ToInt64Seconds(absl::Now() - begin), " s afterwards"));
  ASSERT_EQ(prlimit(cluster_.coordinator().pid(), RLIMIT_NOFILE, &before, nullptr), 0);
}

TEST_F(Connections, SilentOnesAreClosed) {
  Try("silent connections, and half a handshake");
  const FileDescriptor silent = Dial(cluster_.grpc_port_), half = Dial(cluster_.grpc_port_);
  Send(half, absl::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
  const absl::Time before = absl::Now();
  EXPECT_TRUE(IsClosedWithin(silent, absl::Seconds(15)));
  EXPECT_TRUE(IsClosedWithin(half, absl::Seconds(15)));
  Saw(absl::StrCat("closed after ", absl::ToInt64Seconds(absl::Now() - before), " s"));
}

TEST_F(Connections, ThatComeAndGo) {
  Try("5,000 connections to each port, closed at once");
  for (const std::string& port :
       {cluster_.grpc_port_, cluster_.metrics_port_, cluster_.worker_ports_["node-a"]}) {
    for (int i = 0; i < 5'000; ++i) {
      const FileDescriptor fd = Dial(port);
      const linger reset = {.l_onoff = 1, .l_linger = 0};
      setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
  }
  Saw("accepted and forgotten");
}

TEST_F(Connections, SlowHttpRequests) {
  Try("64 HTTP requests to each metrics port, a byte a second");
  std::vector<FileDescriptor> slow;
  const std::string ports[] = {cluster_.metrics_port_, cluster_.worker_ports_["node-a"]};
  for (int i = 0; i < 128; ++i) slow.push_back(Dial(ports[i % 2]));
  absl::Duration longest;
  for (const char byte : std::string("GET /h")) {
    for (const FileDescriptor& fd : slow) Send(fd, absl::string_view(&byte, 1));
    for (const std::string& port : ports) {
      const absl::Time before = absl::Now();
      EXPECT_TRUE(absl::StartsWith(cluster_.Fetch(port, "/healthz"), "HTTP/1.1 200"));
      longest = std::max(longest, absl::Now() - before);
    }
    absl::SleepFor(absl::Seconds(1));
  }
  EXPECT_LT(longest, absl::Seconds(1));
  Saw(absl::StrCat("probes answered within ", absl::FormatDuration(longest)));
}

TEST_F(Connections, ScrapesThatNobodyReads) {
  Try("200 scrapes of each daemon whose answer is never read");
  std::vector<FileDescriptor> open;
  for (const std::string& port : {cluster_.metrics_port_, cluster_.worker_ports_["node-a"]}) {
    for (int i = 0; i < 200; ++i) {
      open.push_back(Dial(port));
      Send(open.back(), "GET /metrics HTTP/1.1\r\n\r\n");
    }
    const absl::Time before = absl::Now();
    EXPECT_TRUE(absl::StartsWith(cluster_.Fetch(port, "/healthz"), "HTTP/1.1 200"));
    EXPECT_LT(absl::Now() - before, absl::Seconds(1));
  }
  Saw("probes are answered meanwhile");
}

class Streams : public HostileTest {
 protected:
  // Opens them over 10 connections and reads none; ends them.
  template <class Response, class Open>
  void OpenMany(int count, const Open& open) {
    struct Call {
      grpc::ClientContext context;
      std::unique_ptr<grpc::ClientReader<Response>> reader;
    };
    std::vector<std::unique_ptr<v1alpha1::JobService::Stub>> stubs;
    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < 10; ++i) stubs.push_back(v1alpha1::JobService::NewStub(cluster_.Channel()));
    for (int i = 0; i < count; ++i) {
      Call& call = *calls.emplace_back(std::make_unique<Call>());
      call.reader = open(*stubs[static_cast<size_t>(i) % stubs.size()], &call.context);
    }
    absl::SleepFor(absl::Seconds(3));  // so that much would wait for them
    Saw(absl::StrCat(cluster_.CoordinatorBytes() >> 20, " MiB meanwhile"));
    EXPECT_LT(cluster_.CoordinatorBytes(), int64_t{512} << 20);
    for (auto& call : calls) call->context.TryCancel();
  }
};

TEST_F(Streams, WatchesThatNobodyReads) {
  Try("9,000 watches that are never read, over 10 connections");
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/victim");
  OpenMany<v1alpha1::WatchJobResponse>(
      9'000, [&](auto& stub, auto* context) { return stub.WatchJob(context, request); });
}

TEST_F(Streams, LogsThatNobodyReads) {
  Try("2,500 logs that are followed and never read");
  v1alpha1::StreamJobLogsRequest request;
  request.set_name("jobs/victim");
  request.set_follow(true);
  OpenMany<v1alpha1::StreamJobLogsResponse>(
      2'500, [&](auto& stub, auto* context) { return stub.StreamJobLogs(context, request); });
}

TEST_F(Streams, TracesThatNobodyReads) {
  Try("1,000 traces that are never read");
  v1alpha1::StreamJobTraceRequest request;
  request.set_name("jobs/victim");
  OpenMany<v1alpha1::StreamJobTraceResponse>(
      1'000, [&](auto& stub, auto* context) { return stub.StreamJobTrace(context, request); });
}

}  // namespace
}  // namespace stretto::integration
