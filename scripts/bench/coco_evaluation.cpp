// How long COCO's figures take here, of objects and found boxes in a file.
#include "model/coco_evaluation.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "programs.h"
#include "support/coco_case.h"

namespace autotrain::bench {

int coco_evaluation(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(
        stderr,
        "usage: autotrain_bench coco_evaluation FILE, as tests/fixtures/make_coco.py writes a case\n");
    return 64;
  }
  std::ifstream file(argv[1]);
  const nlohmann::json one = nlohmann::json::parse(file);
  const std::vector<CocoImage> images = test::coco_images(one);
  const auto start = std::chrono::steady_clock::now();
  const CocoEvaluation found = evaluate_coco(images, one.at("classes"));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("{\"seconds\": %.6f, \"map\": %.12f, \"recall100\": %.12f}\n", seconds.count(),
              found.all.precision, found.all.recall[2]);
  return 0;
}

}  // namespace autotrain::bench
