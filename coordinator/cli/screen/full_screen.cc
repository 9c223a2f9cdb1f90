// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/screen/full_screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace stretto::cli {
namespace {

// xterm's private modes, which all common terminals support: alternate screen, cursor.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr char kLeave[] = "\x1b[0m\x1b[?25h\x1b[?1049l";

}  // namespace

FullScreen::FullScreen(std::ostream& out) : out_(out) {
  if (tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios keys = before_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    // Ctrl-C is still a signal. Stopping or dumping core would not restore the screen, so their
    // keys are disabled.
    keys.c_cc[VSUSP] = _POSIX_VDISABLE;
    keys.c_cc[VQUIT] = _POSIX_VDISABLE;
    restore_ = tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
  }
  out_ << kEnter << std::flush;
}

FullScreen::~FullScreen() {
  out_ << kLeave << std::flush;
  // Discards unread keys, which would otherwise go to the shell.
  if (restore_) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

FullScreen::Size FullScreen::size() const {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

void FullScreen::Draw(const std::vector<std::string>& lines) {
  std::string frame = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    // The line is erased first: after a full line the cursor is still on its last column.
    absl::StrAppend(&frame, i == 0 ? "" : "\r\n", "\x1b[K", lines[i]);
  }
  out_ << frame << "\x1b[J" << std::flush;
}

int FullScreen::keys_fd() const { return STDIN_FILENO; }

std::string FullScreen::ReadKeys() {
  char keys[64];
  const ssize_t count = read(STDIN_FILENO, keys, sizeof keys);
  if (count > 0) return std::string(keys, count);
  const bool later = count < 0 && (errno == EAGAIN || errno == EINTR);
  return later ? "" : kEndOfKeys;
}

bool FullScreen::ReadQuit() {
  return ReadKeys().find_first_of(std::string("qQ") + kEndOfKeys) != std::string::npos;
}

void FullScreen::Drain(int event_fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = read(event_fd, &count, sizeof count);
}

}  // namespace stretto::cli
