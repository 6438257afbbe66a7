#include "trainer/found_boxes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "data/box_drawing.h"
#include "data/detection_dataset.h"
#include "data/names.h"
#include "data/pictures.h"
#include "device/device_error.h"
#include "device/memory_phase.h"
#include "model/losses.h"
#include "model/models.h"
#include "model/yolo_metric.h"
#include "plan/scopes.h"
#include "report/figure_table.h"
#include "report/found_boxes_section.h"
#include "step/autocast.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kPictures = 8;
constexpr size_t kMostFound = 20;         // boxes of a picture, the best
constexpr int64_t kReadableSide = 192;    // pixels
constexpr BoxStyle kTrue = {.width = 3};  // below dashes of one pixel both are seen
constexpr BoxStyle kFound = {.dashed = true, .numbered = true};

// What the model says of images, [n, boxes, kFoundColumns] on the CPU.
torch::Tensor best_boxes_of(Workbench& bench, const Batch& batch) {
  const PhaseScope phase(MemoryPhase::kEvaluation);
  const BufferScope buffers(*bench.task);
  const EvaluationMode mode(bench.task->module());
  const torch::NoGradGuard no_gradients;
  const Batch there = bench.device->upload(batch);
  const AutocastScope autocast(there.inputs.device().type(), bench.precision);
  auto& network = dynamic_cast<Network&>(bench.task->module());
  return best_boxes(network.predict(there), kCandidateBoxes).to(torch::kCPU);
}

std::vector<Detection> sure_ones(const torch::Tensor& found) {
  std::vector<Detection> sure;
  for (const Detection& box : suppressed_boxes(found)) {
    if (box.score >= kSureScore && sure.size() < kMostFound) sure.push_back(box);
  }
  return sure;
}

// As rows of targets, which say parts of the image: [1, boxes, kBoxColumns].
torch::Tensor rows_of(const std::vector<Detection>& boxes, double height, double width) {
  torch::Tensor rows = torch::full({1, std::ssize(boxes), kBoxColumns}, -1, torch::kFloat64);
  auto row = rows.accessor<double, 3>()[0];
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Detection& box = boxes[i];
    const auto at = static_cast<int64_t>(i);
    row[at][0] = box.category;
    row[at][1] = (box.left + box.right) / 2 / width;
    row[at][2] = (box.top + box.bottom) / 2 / height;
    row[at][3] = (box.right - box.left) / width;
    row[at][4] = (box.bottom - box.top) / height;
  }
  return rows;
}

std::string in_words(const std::vector<Detection>& boxes, const std::vector<std::string>& classes) {
  std::vector<std::string> words;
  for (const Detection& box : boxes) {
    const auto number = static_cast<size_t>(box.category);
    words.push_back(cat(words.size() + 1, " ",
                        number < classes.size() ? classes[number] : cat("class ", number), " ",
                        fixed(box.score, 2)));
  }
  return words.empty() ? "nothing" : join(words, ", ");
}

// One picture's file and its entry.
nlohmann::ordered_json draw_one(const Batch& sample, const torch::Tensor& found, const std::string& name,
                                const std::vector<std::string>& classes, const fs::path& file) {
  const std::vector<Detection> boxes = sure_ones(found);
  Pictures pictures = pictures_of(sample.inputs, kReadableSide);
  draw_boxes(pictures.pixels, sample.targets, kTrue);
  draw_boxes(
      pictures.pixels,
      rows_of(boxes, static_cast<double>(sample.inputs.size(2)), static_cast<double>(sample.inputs.size(3))),
      kFound);
  write_file_atomically(file, png_of(pictures.pixels[0].permute({1, 2, 0}).contiguous()));
  return {{"file", file.filename().string()},
          {"image", name},
          {"there", boxes_in_words(sample.targets[0], classes)},
          {"found", in_words(boxes, classes)}};
}

void draw_found_boxes(Workbench& bench, int64_t at_once, int64_t update, const fs::path& run) {
  const Dataset& data = *bench.data.validation;
  const std::vector<std::string> classes = class_names_in(data);
  const fs::path folder = run / kFoundBoxesFolder;
  std::error_code ignored;
  fs::remove_all(folder, ignored);  // those of a shorter run that was resumed
  make_folders(folder);
  nlohmann::ordered_json entries = nlohmann::ordered_json::array();
  const int64_t count = std::min(kPictures, data.size());
  for (int64_t first = 0; first < count; first += at_once) {
    std::vector<int64_t> samples;
    for (int64_t i = first; i < std::min(first + at_once, count); ++i)
      samples.push_back(i * data.size() / count);
    const std::vector<int64_t> epochs(samples.size(), 0);
    const Batch batch = data.get(samples, SampleRandom(0, samples, epochs));
    const torch::Tensor found = best_boxes_of(bench, batch);
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      const Batch one{batch.inputs.narrow(0, row, 1), batch.targets.narrow(0, row, 1), 1};
      entries.push_back(draw_one(one, found[row], sample_name_in(data, samples[i]), classes,
                                 folder / cat(std::ssize(entries) + 1, ".png")));
    }
  }
  write_file_atomically(
      folder / kFoundBoxesFile,
      text_of_json({{"update", update}, {"least_score", kSureScore}, {"pictures", std::move(entries)}}));
}

}  // namespace

void write_class_names(const Dataset& data, const fs::path& run) {
  std::string lines;
  for (std::string name : class_names_in(data)) {
    std::ranges::replace(name, '\n', ' ');
    lines += name + "\n";
  }
  if (!lines.empty()) write_file_atomically(run / kClassesFile, lines);
}

bool finds_boxes(const Workbench& bench, const Recipe& recipe) {
  const Dataset* const data = bench.data.validation;
  return bench.data.from_recipe && data != nullptr &&
         dynamic_cast<const DetectionDataset*>(&itself(*data)) != nullptr &&
         dynamic_cast<const Network*>(&bench.task->module()) != nullptr &&
         find_loss(recipe.loss.name).finds_boxes;
}

void try_to_draw_boxes(Workbench& bench, int64_t at_once, int64_t update, const fs::path& run) {
  try {
    draw_found_boxes(bench, at_once, update, run);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& problem) {
    log::warn("report", cat("found boxes were not drawn: ", first_line(problem)));
  }
}

}  // namespace autotrain
