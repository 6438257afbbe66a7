#include "data/coco_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/text.h"
#include "data/box_table.h"
#include "data/coco_json.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Annotation = CocoJson::Annotation;

constexpr double kMostPixels = 1 << 20;  // of a side; more, or less than one, is no size
constexpr double kWellOutside = 0.02;    // parts of the image: more than rounding
constexpr const char* kFormOfBox = "a bbox is [x, y, width, height] in pixels";

[[noreturn]] void fail_coco(const fs::path& file, const std::string& what, const std::string& cure) {
  throw Error(ExitCode::kBadData, file.string(), what, cure);
}

// Ids of categories that annotations name.
std::set<int64_t> used_categories(const CocoJson& json) {
  std::set<int64_t> used;
  for (const Annotation& each : json.annotations) used.insert(each.category);
  return used;
}

// Some tools list the group of all categories among them, under a name of its own or one of theirs.
bool is_group(const CocoJson::Category& one, const std::vector<CocoJson::Category>& all,
              const std::set<int64_t>& used) {
  return !used.contains(one.id) && std::ranges::any_of(all, [&](const CocoJson::Category& other) {
    return other.id != one.id && (other.name == one.name || other.group == one.name);
  });
}

// Those that are classes, sorted by id; names are what classes are known by.
std::vector<CocoJson::Category> classes_among(const fs::path& file, const CocoJson& json,
                                              const std::set<int64_t>& used) {
  std::vector<CocoJson::Category> all;
  for (const CocoJson::Category& each : json.categories)
    if (!is_group(each, json.categories, used)) all.push_back(each);
  if (all.empty()) fail_coco(file, "has no categories", "list them: id and name of each");
  std::ranges::stable_sort(all, {}, &CocoJson::Category::id);
  std::set<std::string> names;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i].id == all[i - 1].id)
      fail_coco(file,
                cat("gives the id ", all[i].id, " to categories ", quote(all[i - 1].name), " and ",
                    quote(all[i].name)),
                "give each an id of its own");
    if (!names.insert(all[i].name).second)
      fail_coco(file, cat("has two categories named ", quote(all[i].name)), "give each a name of its own");
  }
  return all;
}

CocoClasses classes_of(const std::vector<CocoJson::Category>& categories) {
  CocoClasses classes;
  for (const CocoJson::Category& each : categories) {
    classes.names.push_back(each.name);
    classes.ids.push_back(each.id);
  }
  return classes;
}

// The number of each category's class, by its id.
using ClassNumbers = std::map<int64_t, int64_t>;

ClassNumbers numbers_of_classes(const fs::path& file, const std::vector<CocoJson::Category>& categories,
                                const std::vector<std::string>& classes, const std::set<int64_t>& used) {
  ClassNumbers numbers;
  std::vector<std::string> unknown;
  for (const CocoJson::Category& each : categories) {
    const auto found = std::ranges::find(classes, each.name);
    if (found != classes.end()) {
      numbers[each.id] = found - classes.begin();
    } else if (used.contains(each.id)) {
      unknown.push_back(each.name);
    }
  }
  if (unknown.empty()) return numbers;
  fail_coco(file,
            cat("has categories that the training data have not: ", some_of(unknown), "; these have ",
                some_of(classes)),
            "name categories alike in both files");
}

ImageSize size_of_file(const fs::path& path, bool upright) {
  const std::string bytes = read_file(path);
  return read_image_size({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path.string(),
                         upright);
}

// The images of the file that are used, and where each stands by its id.
struct CocoImages {
  std::vector<CocoJson::Image> images;
  std::unordered_map<int64_t, int64_t> by_id;  // all of them, also those beyond the limit

  CocoImages(const fs::path& file, std::vector<CocoJson::Image> all, const CocoReading& reading)
      : images(std::move(all)) {
    if (images.empty())
      fail_coco(file, "has no images", "list them: id, file_name, width and height of each");
    for (const CocoJson::Image& image : images) {
      if (!by_id.emplace(image.id, std::ssize(by_id)).second)
        fail_coco(file, cat("gives the id ", image.id, " to two images; the second is ", quote(image.name)),
                  "give each image an id of its own; ids of joined files must be numbered anew");
    }
    if (reading.limit && *reading.limit < std::ssize(images))
      images.resize(static_cast<size_t>(*reading.limit));
    check_files(file, reading);
  }

 private:
  void check_files(const fs::path& file, const CocoReading& reading) {
    const fs::path& folder = reading.images;
    std::vector<std::string> missing;
    std::set<std::string> names;
    for (CocoJson::Image& image : images) {
      std::error_code error;
      bool there = fs::is_regular_file(folder / image.name, error);
      if (!there) {
        image.name = with_slashes(image.name);
        there = fs::is_regular_file(folder / image.name, error);
      }
      if (!names.insert(fs::path(image.name).lexically_normal().string()).second)
        fail_coco(file, cat("has the image ", quote(image.name), " under two ids"),
                  "join their annotations under one");
      if (!there) {
        missing.push_back(image.name);
      } else if (!(image.width >= 1 && image.height >= 1 && image.width <= kMostPixels &&
                   image.height <= kMostPixels)) {
        const ImageSize size = size_of_file(folder / image.name, reading.upright);
        image.width = static_cast<double>(size.width), image.height = static_cast<double>(size.height);
      }
    }
    if (missing.empty()) return;
    throw Error(ExitCode::kMissingFile, (folder / missing[0]).string(),
                cat("is not there, of ", missing.size(), " of the ", images.size(), " images that ",
                    file.string(), " names"),
                "name as images the folder that file_name is below");
  }
};

// What of a box lies in its image, as parts of it.
LabelledBox box_in_image(const Annotation& a, const CocoJson::Image& image, int64_t category) {
  const double left = std::clamp(a.x, 0.0, image.width), right = std::clamp(a.x + a.width, 0.0, image.width);
  const double top = std::clamp(a.y, 0.0, image.height),
               bottom = std::clamp(a.y + a.height, 0.0, image.height);
  return {.category = category,
          .centre_x = (left + right) / 2 / image.width,
          .centre_y = (top + bottom) / 2 / image.height,
          .width = (right - left) / image.width,
          .height = (bottom - top) / image.height,
          .crowd = a.crowd,
          .area = a.area};
}

// Sorts annotations to their images and says what is wrong with them.
class CocoSorter {
 public:
  CocoSorter(const fs::path& file, const CocoImages& images, const ClassNumbers& numbers,
             const CocoReading& reading)
      : file_(file.string()),
        images_(images),
        numbers_(numbers),
        reading_(reading),
        boxes_(images.images.size()) {}

  void add(const Annotation& a) {
    const auto place = images_.by_id.find(a.image);
    if (place == images_.by_id.end())
      return fault(-1, a, "annotations of images that there are not", cat("its image_id is ", a.image),
                   "remove them, or add their images");
    if (place->second >= std::ssize(boxes_)) return;  // beyond the limit
    const auto number = numbers_.find(a.category);
    if (number == numbers_.end())
      return fault(place->second, a, "annotations of categories that there are not",
                   cat("its category_id is ", a.category),
                   "add the categories, with the ids that annotations name");
    if (const char* const wrong = wrong_with(a); wrong != nullptr)
      return fault(place->second, a, wrong, words_of_box(a), kFormOfBox);
    if (a.width == 0 || a.height == 0) return leave_out(a);
    take(place->second, a, number->second);
  }

  CocoAnnotations finish() {
    check_all();
    CocoAnnotations out{.crowds = crowds_};
    LabelSummary& summary = out.boxes.summary;
    summary.by_class.resize(reading_.classes.names.size());
    summary.files_are = "images";
    for (size_t i = 0; i < boxes_.size(); ++i) {
      const CocoJson::Image& image = images_.images[i];
      out.images.add(image.name);
      out.image_ids.push_back(image.id);
      out.sizes.push_back({static_cast<int64_t>(image.height), static_cast<int64_t>(image.width)});
      out.boxes.boxes.add(boxes_[i]);
      summary.boxes_of_images.push_back(static_cast<int32_t>(boxes_[i].size()));
      out.unlabelled += boxes_[i].empty() ? 1 : 0;
      for (const LabelledBox& box : boxes_[i]) ++summary.by_class[static_cast<size_t>(box.category)];
    }
    out.boxes.faulty = std::move(faulty_);
    summary.faulty_files = std::ssize(out.boxes.faulty);
    summary.faults = std::move(faults_.doubts);
    summary.doubts = std::move(doubts_.doubts);
    return out;
  }

 private:
  std::string where(const Annotation& a) const {
    return cat(file_, ": annotation ", a.number, " (id ", a.id, ")");
  }

  static std::string words_of_box(const Annotation& a) {
    if (a.numbers != 4) return cat("its bbox has ", a.numbers, " numbers");
    return cat("its bbox is [", brief(a.x), ", ", brief(a.y), ", ", brief(a.width), ", ", brief(a.height),
               "]");
  }

  static const char* wrong_with(const Annotation& a) {
    if (a.numbers != 4)
      return a.numbers == 0 ? "annotations without a bbox" : "boxes that are not four numbers";
    const bool finite =
        std::isfinite(a.x) && std::isfinite(a.y) && std::isfinite(a.width) && std::isfinite(a.height);
    if (!finite) return "boxes that are not finite";
    return a.width < 0 || a.height < 0 ? "boxes of a width or height below 0" : nullptr;
  }

  void fault(int64_t image, const Annotation& a, const char* kind, const std::string& what,
             const char* cure) {
    faults_.doubt(kind, cure, cat(where(a), ": ", what)).stops = true;
    if (image >= 0 && image < std::ssize(boxes_))
      faulty_.emplace(image, Error(ExitCode::kBadData, where(a), what, cure));
  }

  // It shows nothing, as two of COCO's own training boxes do not.
  void leave_out(const Annotation& a) {
    ++without_area_;
    doubts_.doubt("boxes without an area, which are left out", "remove them",
                  cat(where(a), ": ", words_of_box(a)));
  }

  void take(int64_t image, const Annotation& a, int64_t category) {
    const CocoJson::Image& of = images_.images[static_cast<size_t>(image)];
    const LabelledBox box = box_in_image(a, of, category);
    parts_ += a.x <= 1 && a.y <= 1 && a.width <= 1 && a.height <= 1 ? 1 : 0;
    shapes_.count(a.width > a.x && a.height > a.y);
    if (box.width <= 0 || box.height <= 0) {
      shapes_.count_outside([&] { return where(a); });
      return fault(image, a, "boxes outside of their images",
                   cat(words_of_box(a), " of an image of ", brief(of.width), " × ", brief(of.height)),
                   "look whether images have the sizes that the file says");
    }
    if (a.x < -kWellOutside * of.width || a.y < -kWellOutside * of.height ||
        a.x + a.width > (1 + kWellOutside) * of.width || a.y + a.height > (1 + kWellOutside) * of.height) {
      shapes_.count_outside([&] { return cat(where(a), ": ", words_of_box(a)); });
      doubts_.doubt("boxes that reach outside of their images, which are cut",
                    "look whether bbox is [x, y, width, height]", where(a));
    }
    if (box.crowd && !reading_.keeps_crowds) {
      ++crowds_;
      return;
    }
    crowds_ += box.crowd ? 1 : 0;
    std::vector<LabelledBox>& boxes = boxes_[static_cast<size_t>(image)];
    if (std::ranges::find(boxes, box) != boxes.end()) {
      doubts_.doubt("boxes that are there twice, which count once", "remove them", where(a));
      return;
    }
    doubt_tiny(
        box, reading_.size, [&] { return where(a); }, doubts_);
    boxes.push_back(box);
  }

  // Finds what only all boxes together show.
  void check_all() {
    const int64_t counted = shapes_.boxes();
    if (without_area_ > counted)
      faults_.doubt("boxes most of which have no area", kFormOfBox, file_).stops = true;
    if (counted > 0 && crowds_ == counted && !reading_.keeps_crowds)
      faults_
          .doubt("boxes that are all crowds (iscrowd: 1), of which nothing is learned",
                 "set iscrowd to 0 for single objects", file_)
          .stops = true;
    else if (2 * crowds_ > counted && !reading_.keeps_crowds)
      doubts_.doubt("boxes most of which are crowds (iscrowd: 1), of which nothing is learned",
                    "set iscrowd to 0 for single objects", file_);
    if (!shapes_.enough()) return;
    if (parts_ == counted)
      faults_.doubt("boxes that seem to be parts of their images", "write bbox in pixels", file_).stops =
          true;
    else if (shapes_.seem_corners())
      faults_
          .doubt("boxes that seem to be corners [x1, y1, x2, y2]", "write bbox as [x, y, width, height]",
                 shapes_.first_outside())
          .stops = true;
  }

  const std::string file_;
  const CocoImages& images_;
  const ClassNumbers& numbers_;
  const CocoReading& reading_;
  std::vector<std::vector<LabelledBox>> boxes_;
  std::map<int64_t, Error> faulty_;
  BoxShapes shapes_;
  int64_t parts_ = 0;         // boxes whose numbers are all at most 1
  int64_t crowds_ = 0;        // those of objects that nobody told apart
  int64_t without_area_ = 0;  // those that are left out
  DataLook faults_, doubts_;
};

}  // namespace

CocoAnnotations read_coco(const fs::path& file, const CocoReading& reading) {
  CocoJson json = read_coco_json(file);
  const std::set<int64_t> used = used_categories(json);
  const std::vector<CocoJson::Category> categories = classes_among(file, json, used);
  CocoReading read = reading;
  if (read.classes.names.empty()) read.classes = classes_of(categories);
  const ClassNumbers numbers = numbers_of_classes(file, categories, read.classes.names, used);
  const CocoImages images(file, std::move(json.images), read);
  if (json.annotations.empty())
    fail_coco(file, "has no annotations",
              "take a file that has some: instances_….json, not image_info_….json");
  CocoSorter sorter(file, images, numbers, read);
  for (const Annotation& each : json.annotations) sorter.add(each);
  CocoAnnotations all = sorter.finish();
  all.category_ids = std::move(read.classes.ids);
  for (int64_t& id : all.category_ids) {
    if (std::ranges::find(categories, id, &CocoJson::Category::id) != categories.end()) id = kNoCategoryId;
  }
  for (const auto& [id, number] : numbers) all.category_ids[static_cast<size_t>(number)] = id;
  all.classes = std::move(read.classes.names);
  return all;
}

CocoClasses read_coco_classes(const fs::path& file) {
  const CocoJson json = read_coco_json(file);
  return classes_of(classes_among(file, json, used_categories(json)));
}

}  // namespace autotrain
