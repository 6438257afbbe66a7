#include "report/tensorboard_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <chrono>
#include <protozero/pbf_writer.hpp>
#include <utility>
#include <vector>

#include "base/text.h"
#include "report/run_columns.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Values = std::vector<std::pair<std::string, double>>;

constexpr double kEventFlushSeconds = 0.5;
constexpr const char* kPrefix = "events.out.tfevents.";

// Fields of tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto.
enum EventField : uint32_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField : uint32_t { kValue = 1 };
enum ValueField : uint32_t { kTag = 1, kSimpleValue = 2 };
enum SessionField : uint32_t { kStatus = 1 };
constexpr int kSessionStart = 1;

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard reads the files of a folder in the order of their names: a later one needs a later time.
fs::path next_file(const fs::path& folder) {
  int64_t stamp = static_cast<int64_t>(wall_seconds());
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    int64_t earlier = 0;
    if (!name.starts_with(kPrefix)) continue;
    const std::string rest = name.substr(std::string_view(kPrefix).size());
    if (parse_integer(rest.substr(0, rest.find('.')), earlier)) stamp = std::max(stamp, earlier + 1);
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return folder / cat(kPrefix, stamp, ".", host.data(), ".", ::getpid(), ".0");
}

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(Number); ++i) bytes += static_cast<char>(number >> (8 * i) & 0xff);
  return bytes;
}

// CRC-32C, rotated and shifted as in tensorflow/core/lib/hash/crc32c.h, so that a checksum of data that
// holds checksums stays a good one.
std::string masked_checksum(const std::string& bytes) {
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const uint32_t sum = crc.checksum();
  return little_endian<uint32_t>(((sum >> 15) | (sum << 17)) + 0xa282ead8U);
}

// A record of a TFRecord file.
std::string framed(const std::string& event) {
  const std::string length = little_endian<uint64_t>(event.size());
  return length + masked_checksum(length) + event + masked_checksum(event);
}

// An event with its time and step; `fill` adds what it says.
template <class Fill>
std::string make_event(int64_t step, Fill fill) {
  std::string bytes;
  protozero::pbf_writer event(bytes);
  event.add_double(kWallTime, wall_seconds());
  event.add_int64(kStep, step);
  fill(event);
  return bytes;
}

std::string version_event() {
  return make_event(0, [](protozero::pbf_writer& event) { event.add_string(kFileVersion, "brain.Event:2"); });
}

// TensorBoard drops what it has read of this step and later ones.
std::string start_event(int64_t first_step) {
  return make_event(first_step, [](protozero::pbf_writer& event) {
    protozero::pbf_writer session(event, kSessionLog);
    session.add_enum(kStatus, kSessionStart);
  });
}

std::string scalars_event(int64_t step, const Values& values) {
  return make_event(step, [&](protozero::pbf_writer& event) {
    protozero::pbf_writer summary(event, kSummary);
    for (const auto& [tag, number] : values) {
      protozero::pbf_writer value(summary, kValue);
      value.add_string(kTag, tag);
      value.add_float(kSimpleValue, static_cast<float>(number));
    }
  });
}

}  // namespace

TensorBoardFile::TensorBoardFile(const fs::path& folder, int64_t update)
    : file_(next_file(folder), OutputFile::Mode::kTruncate) {
  append(version_event());
  restart(update);
  flush();
}

void TensorBoardFile::append(const std::string& event) {
  buffer_ += framed(event);
  if (since_flush_.seconds() >= kEventFlushSeconds) flush();
}

void TensorBoardFile::flush() {
  if (!buffer_.empty()) file_.write(buffer_);
  buffer_.clear();
  since_flush_.restart();
}

void TensorBoardFile::restart(int64_t update) {
  append(start_event(update + 1));
}

void TensorBoardFile::write(const UpdateRecord& r) {
  Values values;
  for (const Column<UpdateRecord>& column : update_columns()) {
    const auto value = column.value(r);
    if (value.is_number() && column.name != "update")
      values.emplace_back("train/" + column.name, number_of(value));
  }
  for (const auto& [name, value] : r.loss_parts) values.emplace_back("train/loss." + name, value);
  const auto add_scale = [&](const char* tag, const std::optional<GradientNoise>& noise) {
    if (noise && noise->scale && noise->scale->samples) values.emplace_back(tag, *noise->scale->samples);
  };
  add_scale("train/noise_scale", r.noise);
  add_scale("train/preconditioned_noise_scale", r.preconditioned_noise);
  append(scalars_event(r.update, values));
}

void TensorBoardFile::write(const EvaluationRecord& r) {
  Values values;
  for (const auto& [name, figure] : r.figures) values.emplace_back(cat(r.split, "/", name), figure);
  append(scalars_event(r.update, values));
}

}  // namespace autotrain
