#include "report/live_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

namespace autotrain {
namespace {

constexpr double kRedrawSeconds = 0.15;
constexpr double kPlainLineSeconds = 5;

}  // namespace

std::string cut_to(const std::string& text, size_t width) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (++characters > width) return text.substr(0, i);
  }
  return text;
}

bool is_terminal(std::FILE* out) {
  return ::isatty(::fileno(out)) != 0;
}

size_t terminal_width(std::FILE* out) {
  winsize size{};
  const bool known = ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 100;
}

LiveText::LiveText(std::FILE* out, Elsewhere elsewhere)
    : out_(out), terminal_(is_terminal(out)), elsewhere_(elsewhere) {}

LiveText::~LiveText() {
  clear();
}

bool LiveText::due() const {
  const std::lock_guard lock(mutex_);
  if (shows_nothing()) return false;
  return !shown_ || since_shown_.seconds() >= (terminal_ ? kRedrawSeconds : kPlainLineSeconds);
}

void LiveText::show(const std::string& text) {
  if (shows_nothing()) return;
  const std::lock_guard lock(mutex_);
  erase();
  for (const std::string& line : split(trim(text), '\n')) {
    const std::string shown = terminal_ ? cut_to(line, terminal_width(out_) - 1) : line;
    std::fprintf(out_, "%s\n", shown.c_str());
    if (terminal_) ++lines_;
  }
  std::fflush(out_);
  shown_ = true;
  since_shown_.restart();
}

void LiveText::clear() {
  const std::lock_guard lock(mutex_);
  erase();
}

void LiveText::above(const std::function<void()>& write) {
  const std::lock_guard lock(mutex_);
  erase();
  write();
}

void LiveText::erase() {
  if (lines_ == 0) return;
  std::fprintf(out_, "\x1b[%zuA\x1b[J", lines_);  // up, and erase what is below
  std::fflush(out_);
  lines_ = 0;
}

log::Sink terminal_sink_above(LiveText& live) {
  return
      [&live, show = log::terminal_sink()](const log::Record& record) { live.above([&] { show(record); }); };
}

}  // namespace autotrain
