#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace autotrain {

/// What stands in a file of annotations, before anything is made of it.
struct CocoJson {
  struct Image {
    int64_t id = 0;
    std::string name = {};         ///< file_name
    double width = 0, height = 0;  ///< in pixels; 0: it does not say
  };
  struct Category {
    int64_t id = 0;
    std::string name = {};
    std::string group = {};  ///< supercategory
  };
  struct Annotation {
    int64_t number = 0;  ///< its place in the list, from 1
    int64_t id = 0;
    int64_t image = 0, category = 0;  ///< ids
    double x = 0, y = 0, width = 0, height = 0;
    int numbers = 0;  ///< of the box: 4, or it is none
    double area = 0;
    bool crowd = false;
  };

  std::vector<Image> images = {};
  std::vector<Category> categories = {};
  std::vector<Annotation> annotations = {};
};

/// @throws Error(kMissingFile); Error(kBadData) when it is no JSON, or an entry lacks what it is known by.
CocoJson read_coco_json(const std::filesystem::path& file);

}  // namespace autotrain
