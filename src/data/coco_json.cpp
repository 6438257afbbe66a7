#include "data/coco_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "autotrain/error.h"
#include "base/files.h"
#include "base/mapped_file.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

constexpr const char* kCocoFormat =
    "a file of annotations is an object with lists images (id, file_name, width, height), annotations "
    "(image_id, "
    "category_id, bbox [x, y, width, height] in pixels) and categories (id, name)";

// Takes the events of a JSON reader. Entries are objects of the three lists of the outermost object; of an
// entry's own objects and lists, only the box is looked into.
class CocoEvents {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  explicit CocoEvents(const fs::path& file) : file_(file.string()) {}

  CocoJson take() && {
    if (!has_images_ || !has_categories_ || !has_annotations_) {
      std::vector<std::string> missing;
      if (!has_images_) missing.emplace_back("images");
      if (!has_annotations_) missing.emplace_back("annotations");
      if (!has_categories_) missing.emplace_back("categories");
      throw Error(ExitCode::kBadData, file_, cat("has no ", join(missing, " and no ")), kCocoFormat);
    }
    return std::move(all_);
  }

  bool null() { return true; }
  bool boolean(bool value) { return number(value ? 1 : 0); }
  bool number_integer(number_integer_t value) { return integer(value); }
  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max())) {
      if (depth_ == kEntry && is_id()) text_id_ = std::to_string(value);
      return number(static_cast<double>(value));
    }
    return integer(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) { return number(value); }
  bool binary(binary_t&) { return true; }

  bool string(string_t& value) {
    if (depth_ == kEntry && take_name(value)) return true;
    if (int64_t whole = 0; parse_integer(value, whole)) return integer(whole);
    if (double real = 0; parse_real(value, real)) return number(real);
    if (depth_ == kEntry && is_id()) text_id_ = value;
    return true;
  }

  bool start_object(size_t) {
    if (++depth_ == kEntry) begin_entry();
    // {x: …, y: …}, whose order says nothing: no four numbers.
    if (depth_ == kBox && section_ == Section::kAnnotations && field_ == "bbox") annotation_.numbers = kNoBox;
    return true;
  }
  bool end_object() {
    if (depth_-- == kEntry) end_entry();
    return true;
  }
  bool start_array(size_t) {
    if (depth_ == 0)
      throw Error(ExitCode::kBadData, file_, "is a list, as results of a detector are, and no annotations",
                  kCocoFormat);
    ++depth_;
    return true;
  }
  bool end_array() {
    --depth_;
    return true;
  }
  bool key(string_t& name) {
    if (depth_ == 1) choose_section(name);
    if (depth_ == kEntry) field_ = name;
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) {
    std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: …"
    const size_t at = what.find("parse error at ");
    throw Error(ExitCode::kBadData, file_,
                cat("is no JSON: ", at == std::string::npos ? what : what.substr(at + 12)),
                cat(kCocoFormat, "; JSON has no NaN or Infinity"));
  }

 private:
  enum class Section { kOther, kImages, kCategories, kAnnotations };
  static constexpr int kEntry = 3;  // depth within an object of a list of the outermost object
  static constexpr int kBox = 4;
  static constexpr int kNoBox = 5;  // more numbers than a box has

  void choose_section(const std::string& name) {
    section_ = name == "images"        ? Section::kImages
               : name == "categories"  ? Section::kCategories
               : name == "annotations" ? Section::kAnnotations
                                       : Section::kOther;
    has_images_ = has_images_ || section_ == Section::kImages;
    has_categories_ = has_categories_ || section_ == Section::kCategories;
    has_annotations_ = has_annotations_ || section_ == Section::kAnnotations;
  }

  // Some tools write names that are numbers without quotes.
  bool take_name(const std::string& text) {
    std::string* const place = section_ == Section::kImages && field_ == "file_name"  ? &image_.name
                               : section_ == Section::kCategories && field_ == "name" ? &category_.name
                               : section_ == Section::kCategories && field_ == "supercategory"
                                   ? &category_.group
                                   : nullptr;
    if (place != nullptr) *place = text;
    return place != nullptr;
  }

  bool is_id() const {
    return field_ == "id" ||
           (section_ == Section::kAnnotations && (field_ == "image_id" || field_ == "category_id"));
  }

  void begin_entry() {
    field_.clear();
    image_ = {}, category_ = {}, annotation_ = {};
    has_id_ = false, has_image_ = false, has_category_ = false;
    text_id_.clear();
  }

  void end_entry() {
    switch (section_) {
      case Section::kOther: return;
      case Section::kImages:
        ++images_seen_;
        require(has_id_, "image", images_seen_, "id");
        require(!image_.name.empty(), "image", images_seen_, "file_name");
        return all_.images.push_back(std::move(image_));
      case Section::kCategories:
        ++categories_seen_;
        require(has_id_, "category", categories_seen_, "id");
        require(!category_.name.empty(), "category", categories_seen_, "name");
        return all_.categories.push_back(std::move(category_));
      case Section::kAnnotations:
        annotation_.number = ++annotations_seen_;
        require(has_image_, "annotation", annotations_seen_, "image_id");
        require(has_category_, "annotation", annotations_seen_, "category_id");
        return all_.annotations.push_back(annotation_);
    }
  }

  void require(bool there, const char* entry, int64_t number, const char* field) const {
    if (there) return;
    if (!text_id_.empty())
      throw Error(ExitCode::kBadData, file_,
                  cat(entry, " ", number, ": ", quote(text_id_), " is no whole number below 2^63, and ",
                      field, " is one"),
                  "number images, annotations and categories");
    throw Error(ExitCode::kBadData, file_, cat(entry, " ", number, " has no ", field), kCocoFormat);
  }

  bool integer(int64_t value) {
    if (depth_ == kEntry && (take_id(value) || take_name(std::to_string(value)))) return true;
    return number(static_cast<double>(value));
  }

  bool take_id(int64_t value) {
    if (field_ == "id") {
      image_.id = category_.id = annotation_.id = value;
      return has_id_ = true;
    }
    if (section_ == Section::kAnnotations && field_ == "image_id") {
      annotation_.image = value;
      return has_image_ = true;
    }
    if (section_ == Section::kAnnotations && field_ == "category_id") {
      annotation_.category = value;
      return has_category_ = true;
    }
    return false;
  }

  bool number(double value) {
    if (depth_ == kEntry) return take_number(value);
    if (depth_ == kBox && section_ == Section::kAnnotations && field_ == "bbox") take_of_box(value);
    return true;
  }

  bool take_number(double value) {
    constexpr double kMost = 9e15;  // whole numbers up to there are exact
    if (value == std::floor(value) && std::abs(value) < kMost && take_id(static_cast<int64_t>(value)))
      return true;
    if (section_ == Section::kImages && field_ == "width") image_.width = value;
    if (section_ == Section::kImages && field_ == "height") image_.height = value;
    if (section_ == Section::kAnnotations && field_ == "area") annotation_.area = value;
    if (section_ == Section::kAnnotations && field_ == "iscrowd") annotation_.crowd = value != 0;
    return true;
  }

  void take_of_box(double value) {
    double* const places[] = {&annotation_.x, &annotation_.y, &annotation_.width, &annotation_.height};
    if (annotation_.numbers < 4) *places[annotation_.numbers] = value;
    ++annotation_.numbers;
  }

  const std::string file_;
  CocoJson all_;
  int depth_ = 0;
  Section section_ = Section::kOther;
  std::string field_;
  std::string text_id_;  // of this entry, that is no number
  CocoJson::Image image_;
  CocoJson::Category category_;
  CocoJson::Annotation annotation_;
  bool has_id_ = false, has_image_ = false, has_category_ = false;
  bool has_images_ = false, has_categories_ = false, has_annotations_ = false;
  int64_t images_seen_ = 0, categories_seen_ = 0, annotations_seen_ = 0;
};

}  // namespace

CocoJson read_coco_json(const fs::path& file) {
  const InputFile readable(file);  // says why it is not
  std::error_code unknown;
  if (fs::file_size(file, unknown) == 0)
    throw Error(ExitCode::kBadData, file.string(), "is no JSON: it is empty", kCocoFormat);
  const MappedFile mapped(file);
  CocoEvents events(file);
  Json::sax_parse(mapped.bytes().begin(), mapped.bytes().end(), &events);
  return std::move(events).take();
}

}  // namespace autotrain
