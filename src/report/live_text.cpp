#include "report/live_text.h"

#include "base/text.h"
#include "report/progress.h"

namespace autotrain {
namespace {

constexpr double kTextRedrawSeconds = 0.2;

}  // namespace

LiveText::LiveText(std::FILE* out) : out_(out), terminal_(is_terminal(out)) {}

LiveText::~LiveText() {
  clear();
}

bool LiveText::due() const {
  return terminal_ && (lines_ == 0 || since_shown_.seconds() >= kTextRedrawSeconds);
}

void LiveText::show(const std::string& text) {
  if (!terminal_) return;
  clear();
  for (const std::string& line : split(trim(text), '\n')) {
    std::fprintf(out_, "%s\n", cut_to(line, terminal_width(out_) - 1).c_str());
    ++lines_;
  }
  std::fflush(out_);
  since_shown_.restart();
}

void LiveText::clear() {
  if (lines_ > 0) std::fprintf(out_, "\x1b[%zuA\x1b[J", lines_);  // up, and erase what is below
  std::fflush(out_);
  lines_ = 0;
}

}  // namespace autotrain
