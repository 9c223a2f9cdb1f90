// SPDX-License-Identifier: Apache-2.0

// One thread: it looks, draws, and waits for the next look, for a key or for another size of the
// terminal. A call of the client ends early when the interrupt is raised, so Ctrl-C never waits.

#include "coordinator/cli/screen/live_view.h"

#include <poll.h>

#include <optional>
#include <vector>

#include "absl/strings/str_split.h"
#include "coordinator/cli/client/reconnector.h"
#include "coordinator/cli/screen/full_screen.h"
#include "coordinator/cli/screen/text_line.h"
#include "proto/base/clock.h"

namespace stretto::cli {
namespace {

constexpr char kKeys[] = "q quits";

// The picture and a last line, cut to the screen.
void Draw(const Invocation& invocation, const std::string& picture, const std::string& notice,
          FullScreen* screen) {
  const FullScreen::Size size = screen->size();
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(picture, '\n')) {
    if (static_cast<int>(lines.size()) >= size.height - 1) break;
    lines.push_back(TextLine(size.width, invocation.terminal.color).Add(line).text());
  }
  const bool lost = !notice.empty();
  lines.push_back(TextLine(size.width, invocation.terminal.color)
                      .Add(lost ? notice : kKeys, lost ? Ink::kYellow : Ink::kGray)
                      .text());
  screen->Draw(lines);
}

// Waits for the next look, and draws again when the terminal has another size.
void AwaitLook(const Invocation& invocation, const std::function<void()>& draw,
               FullScreen* screen) {
  const absl::Duration end = Clock::Real().Monotonic() + invocation.refresh;
  while (!invocation.interrupt.raised()) {
    const absl::Duration left = end - Clock::Real().Monotonic();
    if (left <= absl::ZeroDuration()) return;
    pollfd ready[] = {{invocation.interrupt.fd(), POLLIN, 0},
                      {screen->keys_fd(), POLLIN, 0},
                      {invocation.interrupt.resize_fd(), POLLIN, 0}};
    poll(ready, std::size(ready), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready[1].revents != 0 && screen->ReadQuit()) invocation.interrupt.Raise();
    if (ready[2].revents == 0) continue;
    FullScreen::Drain(invocation.interrupt.resize_fd());
    draw();
  }
}

}  // namespace

absl::Status LookUntilInterrupted(const Invocation& invocation, const LiveView& view) {
  if (absl::Status first = view.look(); !first.ok()) return first;
  std::optional<FullScreen> screen;
  const bool table = invocation.format == OutputFormat::kTable;
  if (invocation.terminal.screen && table) screen.emplace(invocation.terminal.out);
  std::string notice;
  const std::function<void(const std::string&)> on_notice = [&](const std::string& text) {
    if (screen) {
      notice = text;
    } else {
      invocation.terminal.err << text << "\n";
    }
  };
  Reconnector reconnector(invocation, "what runs continues", on_notice);
  reconnector.Connected();
  const auto draw = [&] { Draw(invocation, view.picture(), notice, &*screen); };
  absl::Status status;
  while (true) {
    if (status.ok() && !screen) view.tell();
    if (screen) draw();
    if (!status.ok()) {
      if (absl::Status wait = reconnector.Wait(status); !wait.ok()) return wait;
      if (screen) draw();
    } else if (screen) {
      AwaitLook(invocation, draw, &*screen);
    } else {
      invocation.interrupt.WaitFor(invocation.refresh);
    }
    if (invocation.interrupt.raised()) return absl::OkStatus();
    status = view.look();
    if (invocation.interrupt.raised()) return absl::OkStatus();
    if (status.ok()) {
      notice.clear();
      reconnector.Connected();
    } else if (!IsTransient(status)) {
      return status;
    }
  }
}

}  // namespace stretto::cli
