#include "data/detection_look.h"

#include <algorithm>
#include <map>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/text.h"
#include "base/units.h"
#include "data/shared_images.h"

namespace autotrain {
namespace {

void tell_boxes(const DetectionDataset& data, DataLook& look) {
  const LabelSummary& labels = data.images().summary;
  const std::vector<std::string>& names = data.images().classes;
  LookBars bars{.title = "boxes by class", .counts = labels.by_class};
  LookTable table{.title = "classes", .header = {"number", "class", "boxes", "share"}};
  const auto all = static_cast<double>(std::max<int64_t>(1, labels.boxes()));
  std::vector<std::string> empty;
  for (size_t i = 0; i < labels.by_class.size(); ++i) {
    bars.labels.push_back(names.empty() ? cat(i) : names[i]);
    const int64_t count = labels.by_class[i];
    table.rows.push_back(
        {static_cast<int64_t>(i), bars.labels.back(), count, static_cast<double>(count) / all});
    if (count == 0) empty.push_back(bars.labels.back());
  }
  if (!empty.empty()) look.facts.emplace_back("classes without a box", some_of(empty));
  look.tables.push_back(std::move(table));
  look.bars.push_back(std::move(bars));
  std::vector<int32_t> sorted = labels.boxes_of_images;
  std::ranges::sort(sorted);
  look.facts.emplace_back("boxes of an image", cat("least ", sorted.front(), ", median ",
                                                   sorted[sorted.size() / 2], ", most ", sorted.back()));
  look.facts.emplace_back("images without a box", cat(std::ranges::count(sorted, 0), labels.empty_words));
}

// Of two classes with one name a model can tell neither from the other. Single letters are
// what they are: a reader of plates has classes for "a" and "A".
void doubt_names(const std::vector<std::string>& names, DataLook& look) {
  std::map<std::string, size_t> by_sense;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string name(trim(names[i]));
    const auto [found, is_new] = by_sense.emplace(name.size() == 1 ? name : lower(name), i);
    if (is_new) continue;
    look.doubt("classes of one name", "give both one number in the labels, or each a name of its own",
               cat(found->second, ": ", names[found->second], ", and ", i, ": ", names[i]));
  }
}

// Objects that the model never saw as what they are.
void doubt_unknown_classes(const DetectionDataset& own, const DetectionDataset& training, DataLook& look) {
  const std::vector<int64_t>&counts = own.images().summary.by_class,
        &known = training.images().summary.by_class;
  const std::vector<std::string>& names = own.images().classes;
  for (size_t i = 0; i < counts.size() && i < known.size(); ++i) {
    if (counts[i] == 0 || known[i] > 0) continue;
    look.doubt(
        cat("classes of the ", word_of(look.role), " data that the training data lack"),
        "let both have every class, or leave such boxes out",
        cat("class ", i, i < names.size() ? ", " + names[i] : "", ": ", format_count(counts[i]), " boxes"));
  }
}

void doubt_turned(const std::vector<SeenImage>& seen, const ImageList& list, DataLook& look) {
  if (!list.reading.upright) return;
  for (const SeenImage& image : seen) {
    if (image.facts.orientation == 1) continue;
    look.doubt("images that are stored turned, and are turned upright, as their boxes are taken to be",
               "look at some; set upright: false where boxes were drawn on images as they are stored",
               list.path(image.index));
  }
}

// An image of another shape than its annotations say ends a run. Boxes are scaled by the size that these say,
// which is right where both were scaled, and wrong where they are in the pixels of the files.
void doubt_stated_sizes(const DetectionDataset& data, const std::vector<SeenImage>& seen,
                        const ImageList& list, DataLook& look) {
  const std::vector<ImageSize>& stated = data.images().stated;
  if (stated.empty()) return;
  for (const SeenImage& image : seen) {
    if (!image.fault.empty()) continue;
    const ImageSize &says = stated[static_cast<size_t>(image.index)], &stored = image.facts.size;
    const bool lies_down = list.reading.upright && image.facts.orientation >= 5;
    const ImageSize is = lies_down ? ImageSize{stored.width, stored.height} : stored;
    if (const std::optional<Error> fault = data.shape_fault(image.index, is, list.path(image.index))) {
      look.doubt("images of another shape than their annotations say", fault->hint(),
                 cat(fault->where(), ": ", fault->problem()))
          .stops = true;
      continue;
    }
    if (says == is) continue;
    look.doubt("images of another size than their annotations say, by which boxes are scaled",
               "look at some: boxes that are in the files' own pixels need the files' sizes there",
               cat(list.path(image.index), ": ", is.width, " × ", is.height, ", and ", says.width, " × ",
                   says.height, " there"));
  }
}

}  // namespace

void tell_boxes_at_start(const DetectionDataset& data, const std::string& where, bool skips_bad) {
  const LabelSummary& summary = data.images().summary;
  if (!summary.doubts.empty()) log::warn("data", cat(where, ": ", LabelSummary::words_of(summary.doubts)));
  if (summary.faults.empty()) return;
  int64_t faults = 0;
  for (const Doubt& kind : summary.faults) faults += kind.count;
  const std::string what =
      cat(faults, faults == 1 ? " fault" : " faults",
          summary.faulty_files > 0  // else of all of them together
              ? cat(" in ", summary.faulty_files, " of ", data.size(), " ", summary.files_are)
              : "",
          ": ", LabelSummary::words_of(summary.faults));
  if (skips_bad) return log::warn("data", cat(where, ": ", what));
  std::vector<std::string> cures;
  for (const Doubt& kind : summary.faults) {
    if (std::ranges::find(cures, kind.cure) == cures.end()) cures.push_back(kind.cure);
  }
  throw Error(ExitCode::kBadData, where, what, join(cures, "; "));
}

void look_at_boxes(const LookRequest& request, const std::string& from, DataLook& look) {
  const auto* const data = dynamic_cast<const DetectionDataset*>(&request.data);
  if (data == nullptr) return;
  const LabelSummary& labels = data->images().summary;
  look.what = cat(from, ": ", format_count(data->size()), " images with ", format_count(labels.boxes()),
                  " boxes of ", labels.by_class.size(), " classes");
  tell_boxes(*data, look);
  if (request.training == nullptr) doubt_names(data->images().classes, look);
  const ImageList list = data->list();
  const std::vector<SeenImage> seen = see_images(list, request.options);
  tell_images(seen, list, request.options, look);
  doubt_turned(seen, list, look);
  doubt_stated_sizes(*data, seen, list, look);
  if (const auto* const training = dynamic_cast<const DetectionDataset*>(request.training)) {
    const LabelledImages &own = data->images(), &theirs = training->images();
    doubt_unknown_classes(*data, *training, look);
    doubt_shared_images(seen, {own.folder, own.names}, {theirs.folder, theirs.names}, request.options, look);
  }
  if (request.options.depth != LookDepth::kWhole) return;  // said when it was opened
  look.doubts.insert(look.doubts.end(), labels.doubts.begin(), labels.doubts.end());
  look.doubts.insert(look.doubts.end(), labels.faults.begin(), labels.faults.end());
}

}  // namespace autotrain
