// SPDX-License-Identifier: Apache-2.0

// One thread accepts connections and reads all requests, each within a deadline, so that a slow
// client costs a descriptor and no thread. Whole requests go to threads that call the pages: one for
// probes, some for scrapes, whose answers are long and may wait for a disk, and two for pages of
// people. A connection has one request and one answer.

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
void Send(int fd, const Answer& answer, bool head) {
  std::string text =
      absl::StrCat("HTTP/1.1 ", answer.code, " ", TextOf(answer.code),
                   "\r\nContent-Type: ", answer.type, "\r\nContent-Length: ", answer.body.size(),
                   "\r\nCache-Control: no-store\r\nConnection: close\r\n", answer.headers, "\r\n");
  if (!head) text += answer.body;
  const absl::Duration deadline = Clock::Real().Monotonic() + kDeadline;
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      sent += static_cast<size_t>(n);
      continue;
    }
    const absl::Duration left = deadline - Clock::Real().Monotonic();
    if ((n < 0 && errno != EAGAIN && errno != EINTR) || left <= absl::ZeroDuration()) return;
    pollfd entry = {.fd = fd, .events = POLLOUT, .revents = 0};
    poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  }
  shutdown(fd, SHUT_WR);
}

}  // namespace

class MonitoringServer::Impl {
 public:
  Impl(std::vector<FileDescriptor> listeners, FileDescriptor wake, int port, Pages pages)
      : listeners_(std::move(listeners)),
        wake_(std::move(wake)),
        port_(port),
        pages_(std::move(pages)) {
    threads_.emplace_back([this] { Read(); });
    threads_.emplace_back([this] { Work(probes_); });
    for (int64_t i = 0; i < limits::kScrapes.value; ++i) {
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
  struct Client {
    FileDescriptor fd;
    absl::Duration deadline;
    std::string request;
  };
  struct Asked {
    FileDescriptor fd;
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
  void Accept(int listener);
  // Returns false once the client is done with.
  bool Receive(Client& client);
  void Dispatch(FileDescriptor fd, const std::string& request);
  Queue& QueueOf(const std::string& path);
  void Work(Queue& queue);
  Answer Call(const Request& request);

  const std::vector<FileDescriptor> listeners_;
  const FileDescriptor wake_;
  const int port_;
  const Pages pages_;

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
      entries.push_back({.fd = client.fd.get(), .events = POLLIN, .revents = 0});
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
      if (entries[i + 1].revents != 0) Accept(listeners_[i].get());
    }
  }
}

void MonitoringServer::Impl::Accept(int listener) {
  FileDescriptor fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const absl::Duration now = Clock::Real().Monotonic();
  if (!fd.valid()) {
    if (IsOutOfDescriptors(errno)) paused_until_ = now + kPause;
    return;
  }
  // Whoever has sent nothing for longest is the least likely to be a probe.
  if (static_cast<int64_t>(clients_.size()) >= limits::kHttpClients.value) clients_.pop_front();
  clients_.push_back({.fd = std::move(fd), .deadline = now + kDeadline, .request = {}});
}

bool MonitoringServer::Impl::Receive(Client& client) {
  char part[4096];
  const ssize_t n = recv(client.fd.get(), part, sizeof part, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) return false;
  client.request.append(part, static_cast<size_t>(n));
  if (static_cast<int64_t>(client.request.size()) > limits::kHttpHeaderBytes.value) {
    Send(client.fd.get(), {.code = 431, .body = "the header is too long\n"}, /*head=*/false);
    return false;
  }
  if (!absl::StrContains(client.request, "\r\n\r\n")) return true;
  Dispatch(std::move(client.fd), client.request);
  return false;
}

void MonitoringServer::Impl::Dispatch(FileDescriptor fd, const std::string& request) {
  const std::vector<std::string> line =
      absl::StrSplit(request.substr(0, request.find("\r\n")), ' ');
  if (line.size() != 3 || !absl::StartsWith(line[2], "HTTP/1.")) {
    return Send(fd.get(), {.code = 400, .body = "expected METHOD PATH HTTP/1.1\n"}, false);
  }
  const bool head = line[0] == "HEAD";
  if (line[0] != "GET" && !head) {
    return Send(fd.get(), {.code = 405, .body = "expected GET or HEAD\n"}, false);
  }
  const size_t mark = line[1].find('?');
  Asked asked = {.fd = FileDescriptor(),
                 .request = {.path = line[1].substr(0, mark),
                             .query = mark == std::string::npos ? "" : line[1].substr(mark + 1),
                             .host = HeaderOf(request, "host:"),
                             .authorization = HeaderOf(request, "authorization:")},
                 .head = head};
  Queue& queue = QueueOf(asked.request.path);
  if (&queue == &views_ && !pages_.page) {
    return Send(fd.get(), {.code = 404, .body = "expected /metrics, /healthz or /readyz\n"}, head);
  }
  {
    const MutexLock lock(mu_);
    if (queue.busy + static_cast<int64_t>(queue.waiting.size()) < queue.most) {
      asked.fd = std::move(fd);
      queue.waiting.push_back(std::move(asked));
      changed_.NotifyAll();
      return;
    }
  }
  Send(fd.get(),
       {.code = 503,
        .body =
            absl::StrCat(queue.most, " ", queue.what, " are waiting for their answer already\n")},
       head);
}

MonitoringServer::Impl::Queue& MonitoringServer::Impl::QueueOf(const std::string& path) {
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
    Send(asked.fd.get(), Call(asked.request), asked.head);
    asked.fd = FileDescriptor();
    lock.Lock();
    --queue.busy;
  }
}

Answer MonitoringServer::Impl::Call(const Request& request) {
  if (request.path == "/metrics") return {.type = kMetricsType, .body = pages_.metrics()};
  if (request.path == "/readyz") return Of(pages_.ready());
  if (request.path == "/healthz") return Of(pages_.healthy ? pages_.healthy() : absl::OkStatus());
  return pages_.page(request);
}

MonitoringServer::MonitoringServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<MonitoringServer>> MonitoringServer::Start(
    const std::string& address, Pages pages) {
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("metrics: ", parsed.status().message()));
  }
  const auto failed = [&] {
    return absl::UnavailableError(
        absl::StrCat("metrics: cannot listen on ", address, ": in use, or not an address of ours"));
  };
  const auto addresses = Resolve(parsed->host, parsed->port);
  if (!addresses.ok()) return failed();
  absl::StatusOr<FileDescriptor> listener = ListenAt(addresses->front());
  if (!listener.ok()) return failed();
  ASSIGN_OR_RETURN(const SocketAddress own, LocalAddressOf(listener->get()));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoStatus(errno, "metrics: eventfd");
  std::vector<FileDescriptor> listeners;
  listeners.push_back(*std::move(listener));
  return std::unique_ptr<MonitoringServer>(new MonitoringServer(
      std::make_unique<Impl>(std::move(listeners), std::move(wake), own.port(), std::move(pages))));
}

MonitoringServer::~MonitoringServer() = default;

int MonitoringServer::port() const { return impl_->port(); }

}  // namespace stretto::monitoring
