#include "report/trace_file.h"

#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/json.h"

namespace autotrain {

void TraceFile::add(const std::string& track, const std::string& name, double start, double end,
                    const std::map<std::string, int64_t>& details) {
  const std::lock_guard lock(mutex_);
  if (collecting_) spans_.push_back({track, name, start, end, details});
}

void TraceFile::advance(int64_t updates) {
  const std::lock_guard lock(mutex_);
  collecting_ = updates + 1 >= first_ && updates < last_;
  if (updates >= last_) write_now();
}

void TraceFile::write() {
  const std::lock_guard lock(mutex_);
  collecting_ = false;
  if (spans_.empty() && !written_)
    log::warn("trace", "the run ended before the updates that execution.trace names");
  write_now();
}

void TraceFile::write_now() {
  if (spans_.empty()) return;
  using Json = nlohmann::ordered_json;
  const double origin = std::ranges::min(spans_, {}, &Span::start).start;
  const auto microseconds = [&](double seconds) { return seconds * 1e6; };
  std::map<std::string, int> tracks;
  Json events = Json::array();
  for (const Span& span : spans_) {
    const auto [track, added] = tracks.emplace(span.track, static_cast<int>(tracks.size()) + 1);
    if (added) {
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", 1},
                        {"tid", track->second},
                        {"args", {{"name", span.track}}}});
    }
    events.push_back({{"name", span.name},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", track->second},
                      {"ts", microseconds(span.start - origin)},
                      {"dur", microseconds(span.end - span.start)},
                      {"args", span.details}});
  }
  spans_.clear();
  written_ = true;
  try {
    write_file_atomically(
        path_, text_of_json({{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}, kOneLine));
  } catch (const Error& error) {
    log::warn("trace", error.what());  // nothing of the run is at stake
  }
}

}  // namespace autotrain
