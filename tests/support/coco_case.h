#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "model/coco_evaluation.h"

namespace autotrain::test {

inline CocoBox coco_box(const nlohmann::json& four) {
  return {four[0], four[1], four[2], four[3]};
}

/// Objects and found boxes as fixtures/make_coco.py writes them.
inline std::vector<CocoImage> coco_images(const nlohmann::json& one) {
  std::vector<CocoImage> images(one.at("images").get<size_t>());
  for (const nlohmann::json& t : one.at("truth")) {
    images[t.at("image").get<size_t>()].truth.push_back(
        {coco_box(t.at("box")), t.at("category"), t.at("area"), t.at("crowd")});
  }
  for (const nlohmann::json& f : one.at("found")) {
    const CocoBox box = coco_box(f.at("box"));
    images[f.at("image").get<size_t>()].found.push_back(
        {box, f.at("category"), box.width * box.height, f.at("score")});
  }
  return images;
}

}  // namespace autotrain::test
