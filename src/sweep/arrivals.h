#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace autotrain {

/// When requests arrive that do not know of each other: a Poisson process, whose gaps are exponential; of
/// all its draws those that bring exactly so many requests in their time, so that few have the rate too, and
/// queues are a little shorter than of all draws. Each in seconds from the start, ascending. With one seed,
/// another rate has the same gaps, only longer or shorter.
/// @param rate requests a second, above 0.
std::vector<double> poisson_arrivals(double rate, int64_t requests, uint64_t seed);

/// A file with a time of arrival in seconds on each line, ascending; from the first of them on. Empty lines
/// and what follows a # do not count.
/// @throws Error(kMissingFile), Error(kBadData) with the line that is no such time, or where there are fewer
/// than ten or all at once.
std::vector<double> read_arrivals(const std::filesystem::path& file);

/// Requests a second between the first and the last. Precondition: they are not all at once.
double rate_of(const std::vector<double>& arrivals);

}  // namespace autotrain
