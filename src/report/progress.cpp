#include "report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace autotrain {
namespace {

constexpr double kRedrawSeconds = 0.1;
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

ProgressLine::ProgressLine(std::FILE* out) : out_(out), terminal_(is_terminal(out)) {}

ProgressLine::~ProgressLine() {
  clear();
}

bool ProgressLine::due() const {
  return !shown_ || since_shown_.seconds() >= (terminal_ ? kRedrawSeconds : kPlainLineSeconds);
}

void ProgressLine::show(const std::string& text) {
  if (terminal_) {
    std::fprintf(out_, "\r\x1b[2K%s", cut_to(text, terminal_width(out_) - 1).c_str());
  } else {
    std::fprintf(out_, "%s\n", text.c_str());
  }
  std::fflush(out_);
  drawn_ = terminal_;
  shown_ = true;
  since_shown_.restart();
}

void ProgressLine::clear() {
  if (!drawn_) return;
  std::fprintf(out_, "\r\x1b[2K");
  std::fflush(out_);
  drawn_ = false;
}

}  // namespace autotrain
