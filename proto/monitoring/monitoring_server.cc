// SPDX-License-Identifier: Apache-2.0

// One thread accepts connections and reads all requests, each within a deadline, so that a slow
// client costs a descriptor and no thread. Whole requests go to threads that call the pages: one
// for probes, some for scrapes, whose answers are long and may wait for a disk, and two for pages
// of people. A connection has one request and one answer.

#include "proto/monitoring/monitoring_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "proto/base/address.h"
#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "proto/base/limits.h"
#include "proto/base/sockets.h"
#include "proto/base/status_macros.h"

namespace stretto::monitoring {
namespace {

const absl::Duration kDeadline = absl::Seconds(limits::kHttpSeconds.value);
constexpr absl::Duration kPause = absl::Milliseconds(100);  // while no descriptor is left
constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr int kPageThreads = 2;  // one may wait for a worker, and the other still shows pages

const char* TextOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 431:
      return "Request Header Fields Too Large";
    default:  // 503: no page has another
      return "Service Unavailable";
  }
}

Answer Of(const absl::Status& status) {
  if (status.ok()) return {.body = "ok\n"};
  return {.code = 503, .body = absl::StrCat(status.message(), "\n")};
}

// `header`: with its colon.
std::string HeaderOf(const std::string& request, absl::string_view header) {
  for (absl::string_view line : absl::StrSplit(request, "\r\n")) {
    if (!absl::StartsWithIgnoreCase(line, header)) continue;
    line.remove_prefix(header.size());
    return std::string(absl::StripAsciiWhitespace(line));
  }
  return "";
}

// Gives up on a client that does not read.
void Send(Connection& client, const Answer& answer, bool head) {
  std::string text =
      absl::StrCat("HTTP/1.1 ", answer.code, " ", TextOf(answer.code),
                   "\r\nContent-Type: ", answer.type, "\r\nContent-Length: ", answer.body.size(),
                   "\r\nCache-Control: no-store\r\nConnection: close\r\n", answer.headers, "\r\n");
  if (!head) text += answer.body;
  const absl::Duration deadline = Clock::Real().Monotonic() + kDeadline;
  for (size_t sent = 0; sent < text.size();) {
    const Moved moved = client.Send(text.data() + sent, text.size() - sent);
    if (moved.bytes > 0) {
      sent += moved.bytes;
      continue;
    }
    const absl::Duration left = deadline - Clock::Real().Monotonic();
    if (moved.wait_for == 0 || left <= absl::ZeroDuration()) return;
    pollfd entry = {.fd = client.fd(), .events = moved.wait_for, .revents = 0};
    poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  }
  client.EndSending();
}

}  // namespace

class MonitoringServer::Impl {
 public:
  Impl(std::vector<FileDescriptor> listeners, FileDescriptor wake, int port, Pages pages,
       Accept accept)
      : listeners_(std::move(listeners)),
        wake_(std::move(wake)),
        port_(port),
        pages_(std::move(pages)),
        accept_(std::move(accept)) {
    threads_.emplace_back([this] { Read(); });
    if (pages_.metrics) threads_.emplace_back([this] { Work(probes_); });
    for (int64_t i = 0; i < limits::kScrapes.value && pages_.metrics; ++i) {
      threads_.emplace_back([this] { Work(scrapes_); });
    }
    for (int i = 0; i < kPageThreads && pages_.page; ++i) {
      threads_.emplace_back([this] { Work(views_); });
    }
  }
  ~Impl() {
    {
      const MutexLock lock(mu_);
      stop_ = true;
    }
    changed_.NotifyAll();
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
    for (std::thread& thread : threads_) thread.join();
  }

  int port() const { return port_; }

 private:
  using ConnectionPointer = std::unique_ptr<Connection>;
  struct Client {
    ConnectionPointer connection;
    absl::Duration deadline;
    std::string request;
    short wait_for = POLLIN;
  };
  struct Asked {
    ConnectionPointer connection;
    Request request;
    bool head = false;
  };
  struct Queue {
    const int64_t most;
    const char* what;  // is refused beyond that
    std::deque<Asked> waiting = {};
    int64_t busy = 0;  // with `waiting`, the requests that have no answer yet
  };

  void Read();
  void AcceptAt(int listener);
  // Returns false once the client is done with.
  bool Receive(Client& client);
  void Dispatch(ConnectionPointer connection, const std::string& request);
  Queue& QueueOf(const std::string& path);
  void Work(Queue& queue);
  Answer Call(const Request& request);

  const std::vector<FileDescriptor> listeners_;
  const FileDescriptor wake_;
  const int port_;
  const Pages pages_;
  const Accept accept_;

  std::deque<Client> clients_;  // of the reading thread; oldest first
  absl::Duration paused_until_;

  Mutex mu_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mu_) = false;
  // Of mu_; Work has a reference to one.
  Queue probes_{limits::kHttpClients.value, "probes"};
  Queue scrapes_{limits::kScrapes.value, "scrapes"};
  Queue views_{limits::kPageRequests.value, "requests for pages"};
  std::vector<std::thread> threads_;
};

void MonitoringServer::Impl::Read() {
  while (true) {
    const absl::Duration now = Clock::Real().Monotonic();
    const bool paused = now < paused_until_;
    std::vector<pollfd> entries = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    for (const FileDescriptor& listener : listeners_) {
      entries.push_back({.fd = paused ? -1 : listener.get(), .events = POLLIN, .revents = 0});
    }
    const size_t first = entries.size();
    for (const Client& client : clients_) {
      entries.push_back({.fd = client.connection->fd(), .events = client.wait_for, .revents = 0});
    }
    absl::Duration wait = paused ? kPause : absl::Seconds(3600);
    if (!clients_.empty()) wait = std::min(wait, clients_.front().deadline - now);
    poll(entries.data(), entries.size(),
         static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(wait))) + 1);
    if (entries[0].revents != 0) return;
    std::deque<Client> stay;
    for (size_t i = 0; i < clients_.size(); ++i) {
      if (entries[first + i].revents == 0 || Receive(clients_[i])) {
        stay.push_back(std::move(clients_[i]));
      }
    }
    clients_ = std::move(stay);
    while (!clients_.empty() && clients_.front().deadline <= Clock::Real().Monotonic()) {
      clients_.pop_front();
    }
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (entries[i + 1].revents != 0) AcceptAt(listeners_[i].get());
    }
  }
}

void MonitoringServer::Impl::AcceptAt(int listener) {
  FileDescriptor fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const absl::Duration now = Clock::Real().Monotonic();
  if (!fd.valid()) {
    if (IsOutOfDescriptors(errno)) paused_until_ = now + kPause;
    return;
  }
  // Whoever has sent nothing for longest is the least likely to be a probe.
  if (static_cast<int64_t>(clients_.size()) >= limits::kHttpClients.value) clients_.pop_front();
  ConnectionPointer connection = accept_(std::move(fd));
  if (connection == nullptr) return;
  clients_.push_back(
      {.connection = std::move(connection), .deadline = now + kDeadline, .request = {}});
}

bool MonitoringServer::Impl::Receive(Client& client) {
  char part[4096];
  // Until it would wait: bytes that are decrypted already wake no poll().
  while (true) {
    const Moved moved = client.connection->Receive(part, sizeof part);
    if (moved.bytes == 0) {
      client.wait_for = moved.wait_for;
      return moved.wait_for != 0;
    }
    client.request.append(part, moved.bytes);
    if (static_cast<int64_t>(client.request.size()) > limits::kHttpHeaderBytes.value) {
      Send(*client.connection, {.code = 431, .body = "the header is too long\n"}, /*head=*/false);
      return false;
    }
    if (absl::StrContains(client.request, "\r\n\r\n")) {
      Dispatch(std::move(client.connection), client.request);
      return false;
    }
  }
}

void MonitoringServer::Impl::Dispatch(ConnectionPointer connection, const std::string& request) {
  const std::vector<std::string> line =
      absl::StrSplit(request.substr(0, request.find("\r\n")), ' ');
  if (line.size() != 3 || !absl::StartsWith(line[2], "HTTP/1.")) {
    return Send(*connection, {.code = 400, .body = "expected METHOD PATH HTTP/1.1\n"}, false);
  }
  const bool head = line[0] == "HEAD";
  if (line[0] != "GET" && !head) {
    return Send(*connection, {.code = 405, .body = "expected GET or HEAD\n"}, false);
  }
  const size_t mark = line[1].find('?');
  Asked asked = {.connection = nullptr,
                 .request = {.path = line[1].substr(0, mark),
                             .query = mark == std::string::npos ? "" : line[1].substr(mark + 1),
                             .host = HeaderOf(request, "host:"),
                             .authorization = HeaderOf(request, "authorization:"),
                             .stretto_page = HeaderOf(request, "stretto-page:"),
                             .certificate = connection->PeerCertificate()},
                 .head = head};
  Queue& queue = QueueOf(asked.request.path);
  if (&queue == &views_ && !pages_.page) {
    return Send(*connection, {.code = 404, .body = "expected /metrics, /healthz or /readyz\n"},
                head);
  }
  {
    const MutexLock lock(mu_);
    if (queue.busy + static_cast<int64_t>(queue.waiting.size()) < queue.most) {
      asked.connection = std::move(connection);
      queue.waiting.push_back(std::move(asked));
      changed_.NotifyAll();
      return;
    }
  }
  Send(*connection,
       {.code = 503,
        .body =
            absl::StrCat(queue.most, " ", queue.what, " are waiting for their answer already\n")},
       head);
}

MonitoringServer::Impl::Queue& MonitoringServer::Impl::QueueOf(const std::string& path) {
  if (!pages_.metrics) return views_;
  if (path == "/metrics") return scrapes_;
  return path == "/healthz" || path == "/readyz" ? probes_ : views_;
}

void MonitoringServer::Impl::Work(Queue& queue) {
  MutexLock lock(mu_);
  while (true) {
    changed_.Wait(mu_, [&]() REQUIRES(mu_) { return stop_ || !queue.waiting.empty(); });
    if (stop_) return;
    Asked asked = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.busy;
    lock.Unlock();
    Send(*asked.connection, Call(asked.request), asked.head);
    asked.connection = nullptr;
    lock.Lock();
    --queue.busy;
  }
}

Answer MonitoringServer::Impl::Call(const Request& request) {
  if (!pages_.metrics) return pages_.page(request);
  if (request.path == "/metrics") return {.type = kMetricsType, .body = pages_.metrics()};
  if (request.path == "/readyz") return Of(pages_.ready());
  if (request.path == "/healthz") return Of(pages_.healthy ? pages_.healthy() : absl::OkStatus());
  return pages_.page(request);
}

MonitoringServer::MonitoringServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<MonitoringServer>> MonitoringServer::Start(
    const std::string& address, Pages pages, Accept accept, const std::string& what) {
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", parsed.status().message()));
  }
  const auto failed = [&] {
    return absl::UnavailableError(
        absl::StrCat(what, ": cannot listen on ", address, ": in use, or not an address of ours"));
  };
  const auto addresses = Resolve(parsed->host, parsed->port);
  if (!addresses.ok()) return failed();
  absl::StatusOr<FileDescriptor> listener = ListenAt(addresses->front());
  if (!listener.ok()) return failed();
  ASSIGN_OR_RETURN(const SocketAddress own, LocalAddressOf(listener->get()));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoStatus(errno, absl::StrCat(what, ": eventfd"));
  std::vector<FileDescriptor> listeners;
  listeners.push_back(*std::move(listener));
  return std::unique_ptr<MonitoringServer>(new MonitoringServer(std::make_unique<Impl>(
      std::move(listeners), std::move(wake), own.port(), std::move(pages), std::move(accept))));
}

MonitoringServer::~MonitoringServer() = default;

int MonitoringServer::port() const { return impl_->port(); }

}  // namespace stretto::monitoring
