#include "sweep/arrivals.h"

#include <cmath>
#include <string>
#include <string_view>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"

namespace autotrain {
namespace {

constexpr size_t kFewest = 10, kMost = 1'000'000;  // arrivals
constexpr double kMostAtOnce = 1e6;                // a second, in the mean

class ArrivalFile {
 public:
  explicit ArrivalFile(const std::filesystem::path& file) : file_(file) {}

  void add_line(std::string_view line) {
    ++line_;
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) return;
    double seconds = 0;
    if (!parse_real(line, seconds) || seconds < 0) fail(quote(line) + " is no time in seconds");
    if (!times_.empty() && seconds < times_.back())
      fail(cat(quote(line), " is before the ", shortest(times_.back()), " above it"));
    times_.push_back(seconds);
  }

  // From the first on.
  std::vector<double> arrivals() const {
    const auto whole = [&](const std::string& what) {
      return Error(ExitCode::kBadData, file_.string(), what, "record more requests, a time on each line");
    };
    if (times_.size() < kFewest)
      throw whole(cat("has ", times_.size(), " arrivals, and fewer than ", kFewest, " tell nothing"));
    if (times_.front() == times_.back()) throw whole("has all its arrivals at one time");
    if (times_.size() > kMost)
      throw Error(ExitCode::kBadData, file_.string(),
                  cat("has ", format_count(std::ssize(times_)), " arrivals, more than memory holds well"),
                  cat("cut it to ", format_count(kMost)));
    if (rate_of(times_) > kMostAtOnce)
      throw Error(
          ExitCode::kBadData, file_.string(),
          cat("has more than ", format_count(static_cast<int64_t>(kMostAtOnce)), " arrivals a second"),
          "write times in seconds");
    std::vector<double> from_first;
    for (const double time : times_) from_first.push_back(time - times_.front());
    return from_first;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::kBadData, cat(file_.string(), ":", line_), what,
                "give one time of arrival in seconds a line, each no earlier than the one before");
  }

  const std::filesystem::path& file_;
  int64_t line_ = 0;
  std::vector<double> times_;
};

}  // namespace

std::vector<double> poisson_arrivals(double rate, int64_t requests, uint64_t seed) {
  constexpr uint64_t kArrivals = 0x6172726976616c73;  // a use of random numbers of its own
  Random random(derive_key(seed, kArrivals));
  std::vector<double> arrivals;
  double gaps = 0;  // one more than requests: the process goes on
  for (int64_t i = 0; i <= requests; ++i) {
    gaps -= std::log1p(-random.uniform());
    arrivals.push_back(gaps);
  }
  const double scale = static_cast<double>(requests + 1) / rate / gaps;
  arrivals.pop_back();
  for (double& arrival : arrivals) arrival *= scale;
  return arrivals;
}

std::vector<double> read_arrivals(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) {
    throw Error(ExitCode::kMissingFile, file.string(), "is no file",
                "give --trace a file with a time of arrival in seconds on each line");
  }
  ArrivalFile read(file);
  const std::string content = read_file(file);
  for (const std::string& line : split(without_byte_order_mark(content), '\n')) read.add_line(line);
  return read.arrivals();
}

double rate_of(const std::vector<double>& arrivals) {
  return static_cast<double>(arrivals.size() - 1) / (arrivals.back() - arrivals.front());
}

}  // namespace autotrain
