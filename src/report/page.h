#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

/// A page of plots and tables as plain values, and its HTML: one file that needs no network, with every
/// script and style inside. All texts are shown as they are: nothing in them is read as HTML.
namespace autotrain::page {

/// What the numbers of an axis are. The page shows bytes, seconds and fractions (kPercent) in a unit that
/// suits their size and adds it to title and label; of plain numbers these name the unit themselves.
enum class Format { kNumber, kBytes, kSeconds, kPercent };

struct Axis {
  std::string label = {};  ///< "updates", "time"
  bool log = false;        ///< logarithmic at first; the page has a switch
  Format format = Format::kNumber;
};

enum class Draw { kLine, kLineAndPoints, kPoints, kStep, kDashed };

/// Points in the order that lines join them in, by ascending x. A y that is not finite leaves a gap.
struct Series {
  std::string name = {};
  std::vector<std::vector<double>> x = {};  ///< one column for each of the chart's x axes, as long as `y`
  std::vector<double> y = {};
  std::vector<double> low = {}, high = {};  ///< a shaded band around y, as long as `y`; empty: none
  std::array<std::string, 2> band = {"least", "greatest"};  ///< what its edges are
  std::vector<std::string> labels = {};  ///< shown beside the numbers of each point; empty: none
  Draw draw = Draw::kLine;
  bool smoothable = false;            ///< the page's smoothing applies
  std::optional<size_t> colour = {};  ///< palette entry, for series that belong together; unset: its own
};

/// Something at one x, as a vertical line.
struct Mark {
  std::vector<double> x = {};  ///< one for each of the chart's x axes
  std::string text = {};
  std::optional<size_t> colour = {};  ///< palette entry of the series that it belongs to
};

/// A range of y worth knowing, shaded; `low` = `high` is a line.
struct Range {
  double low = 0, high = 0;
  std::string text = {};
};

struct Chart {
  std::string title = {};  ///< "loss (nats per sample)", "peak memory"
  std::vector<Axis> x =
      {};  ///< at least one; the page has a switch between them, the first is shown at first
  Axis y = {};
  std::vector<Series> series = {};
  std::vector<Mark> marks = {};
  std::vector<Range> ranges = {};
};

struct Table {
  std::string title = {};
  std::vector<std::string> header = {};  ///< empty: none, and the first cell of each row is its name
  std::vector<std::vector<std::string>> rows = {};

  /// How dark each cell's ground is, from 0 to 1, in the shape of `rows`; empty: none is.
  std::vector<std::vector<double>> shade = {};

  /// A bar behind each row's last cell, as a part of the longest, from 0 to 1; empty: none.
  std::vector<double> bars = {};
};

/// An image that the page holds.
struct Picture {
  std::string caption = {};
  std::string png = {};  ///< the file's bytes
};

/// Text in a fixed-width font: a command, a file.
struct Listing {
  std::string title = {};
  std::string text = {};
};

/// Shown in this order. One that is not open shows its title only, until it is opened or printed.
struct Section {
  std::string title = {};
  std::vector<std::string> paragraphs = {};
  std::vector<Chart> charts = {};
  std::vector<Picture> pictures = {};
  std::vector<Table> tables = {};
  std::vector<Listing> listings = {};
  bool open = true;
};

struct Page {
  std::string title = {};
  std::string subtitle = {};
  std::vector<Section> sections = {};
};

/// Points that a page holds of one series. Of more, each point of the page is the mean of equally many
/// neighbours, its band their least and greatest value, and the page says so.
inline constexpr size_t kMostPoints = 10'000;

/// The page as HTML. Every chart comes with its numbers as a table.
/// Precondition: the lengths above agree.
std::string render(const Page& page);

}  // namespace autotrain::page
