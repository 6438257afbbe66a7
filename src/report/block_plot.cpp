#include "report/block_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/text.h"
#include "report/live_text.h"

namespace autotrain {
namespace {

constexpr std::array kMarks = {"●", "▲", "■", "◆", "○", "△", "□", "◇"};
constexpr std::array kColours = {34, 33, 32, 35, 36, 31};

// One axis: where values stand between the least and the greatest.
class Scale {
 public:
  explicit Scale(bool log) : log_(log) {}

  bool shows(double value) const { return std::isfinite(value) && (!log_ || value > 0); }
  void cover(double value) { low_ = std::min(low_, value), high_ = std::max(high_, value); }
  double low() const { return low_; }
  double high() const { return high_; }

  /// The cell of `cells` in which a shown value stands.
  size_t cell(double value, size_t cells) const {
    const double from = on_axis(low_), to = on_axis(high_);
    const double share = to > from ? (on_axis(value) - from) / (to - from) : 0.5;
    return static_cast<size_t>(std::lround(share * static_cast<double>(cells - 1)));
  }

 private:
  double on_axis(double value) const { return log_ ? std::log(value) : value; }

  bool log_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
};

std::string mark_of(size_t series, bool colour) {
  const std::string mark = kMarks[series % kMarks.size()];
  return colour ? cat("\x1b[", kColours[series % kColours.size()], "m", mark, "\x1b[0m") : mark;
}

std::string number_text(const std::function<std::string(double)>& text, double value) {
  return text ? text(value) : brief(value);
}

std::string padded(const std::string& text, size_t width) {
  return std::string(width - std::min(width, display_width(text)), ' ') + text;
}

}  // namespace

std::string BlockPlot::text() const {
  Scale across(log_x), up(log_y);
  const auto for_each_point = [&](const auto& use) {
    for (size_t s = 0; s < series.size(); ++s) {
      for (size_t i = 0; i < series[s].y.size(); ++i) {
        if (across.shows(series[s].x[i]) && up.shows(series[s].y[i])) use(s, series[s].x[i], series[s].y[i]);
      }
    }
  };
  bool any = false;
  for_each_point([&](size_t, double x, double y) { across.cover(x), up.cover(y), any = true; });
  if (!any) return title + "\n  nothing to draw\n";

  std::vector<std::vector<std::string>> grid(height, std::vector<std::string>(width, " "));
  for_each_point([&](size_t s, double x, double y) {
    grid[height - 1 - up.cell(y, height)][across.cell(x, width)] = mark_of(s, colour);
  });
  const std::string top = number_text(y_text, up.high()), bottom = number_text(y_text, up.low());
  const size_t margin = std::max(display_width(top), display_width(bottom));
  std::string out = title + "\n";
  for (size_t row = 0; row < height; ++row) {
    const std::string label = row == 0 ? top : row == height - 1 ? bottom : "";
    out += padded(label, margin) + " │" + join(grid[row], "") + "\n";
  }
  const std::string left = number_text(x_text, across.low()), right = number_text(x_text, across.high());
  const size_t used = display_width(left);
  std::string rule;
  for (size_t i = 0; i < width; ++i) rule += "─";
  out += padded("", margin) + " └" + rule + "\n";
  out += padded("", margin + 2) + left + padded(right, width - std::min(width, used)) + "\n";
  for (size_t s = 0; s < series.size() && series.size() > 1; ++s) {
    out += padded("", margin + 2) + mark_of(s, colour) + " " + series[s].name + "\n";
  }
  return out;
}

bool wants_colour(std::FILE* out) {
  const char* const asked_not_to = std::getenv("NO_COLOR");
  return is_terminal(out) && (asked_not_to == nullptr || *asked_not_to == '\0');
}

}  // namespace autotrain
