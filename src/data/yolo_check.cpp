#include "data/yolo_check.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "data/file_sequence.h"
#include "data/preload.h"
#include "device/cores.h"

namespace autotrain {
namespace {

constexpr double kFarOutside = 0.1;  // parts of the image
constexpr double kOutside = 0.02;    // more than rounding
constexpr const char* kFormOfLine = "write \"class cx cy w h\": centre and size as parts of the image";

// What is kept of a file until all are read.
struct ReadFile {
  LabelFile labels;
  bool empty = false;
};

ReadFile read_file_of(const std::string& path, const LabelReading& reading) {
  FileSequence sequence({{path}});
  const std::span<const uint8_t> bytes = sequence.next(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {read_label_file(text, reading), trim(text).empty()};
}

class LabelTally {
 public:
  LabelTally(LabelSummary& summary, const ImageSize& size) : summary_(summary), size_(size) {}

  void add(const ReadFile& file, const std::string& path) {
    for (const LabelFault& fault : file.labels.faults) {
      faults_.doubt(fault.kind, fault.cure, cat(path, ":", fault.line, ": ", fault.what)).stops = true;
    }
    summary_.faulty_files += file.labels.faults.empty() ? 0 : 1;
    summary_.empty_files += file.empty ? 1 : 0;
    summary_.boxes_of_images.push_back(static_cast<int32_t>(file.labels.boxes.size()));
    for (const size_t line : file.labels.clipped)
      doubts_.doubt("values a little outside of 0 to 1, which are made 0 or 1", "round them",
                    cat(path, ":", line));
    for (const size_t line : file.labels.doubled)
      doubts_.doubt("lines that are there twice, which count once", "remove them", cat(path, ":", line));
    for (const size_t line : file.labels.without_area) leave_out(cat(path, ":", line));
    for (const LabelledBox& box : file.labels.boxes) add(box, path);
  }

  void finish() {
    if (without_area_ > shapes_.boxes()) {
      faults_.doubt("lines most of which are boxes without an area", kFormOfLine, first_without_area_).stops =
          true;
    }
    if (shapes_.seem_corners()) {
      faults_
          .doubt("lines that seem to be \"class x1 y1 x2 y2\", corners", kFormOfLine, shapes_.first_outside())
          .stops = true;
    }
    summary_.faults = std::move(faults_.doubts);
    summary_.doubts = std::move(doubts_.doubts);
  }

 private:
  void leave_out(const std::string& place) {
    if (without_area_++ == 0) first_without_area_ = place;
    doubts_.doubt("boxes without an area, which are left out", "remove them", place);
  }

  void add(const LabelledBox& box, const std::string& path) {
    ++summary_.by_class[static_cast<size_t>(box.category)];
    const auto words = [&] { return cat(path, ": ", brief(box.width), " × ", brief(box.height)); };
    doubt_tiny(box, size_, words, doubts_);
    const auto outside = [&](double by) {
      const auto reaches = [by](double centre, double length) {
        return centre - length / 2 < -by || centre + length / 2 > 1 + by;
      };
      return reaches(box.centre_x, box.width) || reaches(box.centre_y, box.height);
    };
    shapes_.count(box.width > box.centre_x && box.height > box.centre_y);
    if (outside(kOutside)) shapes_.count_outside(words);
    if (outside(kFarOutside)) {
      doubts_.doubt("boxes that reach far outside of their image",
                    "look whether lines are \"class cx cy w h\", not corners", words());
    }
  }

  LabelSummary& summary_;
  const ImageSize& size_;
  BoxShapes shapes_;
  int64_t without_area_ = 0;
  std::string first_without_area_;
  DataLook faults_, doubts_;
};

}  // namespace

int64_t LabelSummary::boxes() const {
  return std::accumulate(by_class.begin(), by_class.end(), int64_t{0});
}

std::string LabelSummary::words_of(const std::vector<Doubt>& doubts) {
  std::vector<std::string> kinds;
  for (const Doubt& doubt : doubts) {
    const std::string more = doubt.count > std::ssize(doubt.places)
                                 ? cat(" · and ", doubt.count - std::ssize(doubt.places), " more")
                                 : "";
    kinds.push_back(cat(doubt.kind, " (", doubt.count, "): ", join(doubt.places, " · "), more));
  }
  return join(kinds, "; ");
}

void doubt_tiny(const LabelledBox& box, const ImageSize& sample, const std::function<std::string()>& words,
                DataLook& look) {
  constexpr double kFewPixels = 2;  // too few to show an object
  if (box.width * static_cast<double>(sample.width) < kFewPixels ||
      box.height * static_cast<double>(sample.height) < kFewPixels)
    look.doubt("boxes of less than two pixels of a sample", "set a larger size, or remove them", words());
}

ReadLabels read_labels(const LabelledFiles& files, const LabelReading& reading, const ImageSize& size) {
  ReadLabels all;
  all.summary.by_class.resize(static_cast<size_t>(reading.classes));
  LabelTally tally(all.summary, size);
  constexpr int64_t kPart = 4096;  // files that are held at once as they were read
  const PreloadWork work{.threads = usable_cores().count};
  std::vector<ReadFile> read;
  for (int64_t first = 0; first < files.names.size(); first += kPart) {
    const int64_t count = std::min(kPart, files.names.size() - first);
    read.assign(static_cast<size_t>(count), {});
    visit_all(count, work, [&](int64_t i) {
      if (!files.labelled[static_cast<size_t>(first + i)]) return;
      read[static_cast<size_t>(i)] = read_file_of(files.label_path(first + i).string(), reading);
    });
    for (int64_t i = 0; i < count; ++i) {
      const ReadFile& file = read[static_cast<size_t>(i)];
      const std::string path = files.label_path(first + i).string();
      tally.add(file, path);
      all.boxes.add(file.labels.boxes);
      if (!file.labels.faults.empty()) all.faulty.emplace(first + i, first_fault(file.labels, path));
    }
  }
  tally.finish();
  all.summary.empty_words = cat(": ", all.summary.empty_files, " with an empty label file, ",
                                std::ranges::count(files.labelled, false), " without one");
  return all;
}

}  // namespace autotrain
