#include "report/found_boxes_section.h"

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;

std::optional<page::Section> found_boxes_section(const fs::path& run) {
  const fs::path folder = run / kFoundBoxesFolder;
  const nlohmann::ordered_json all = read_json(folder / kFoundBoxesFile);
  page::Section section{.title = "Found boxes"};
  for (const nlohmann::ordered_json& entry : part_in(all, "pictures")) {
    const fs::path file = folder / text_in(entry, "file");
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) continue;
    section.pictures.push_back({.caption = cat(text_in(entry, "image"), "\nthere: ", text_in(entry, "there"),
                                               "\nfound: ", text_in(entry, "found")),
                                .png = read_file(file)});
  }
  if (section.pictures.empty()) return std::nullopt;
  section.paragraphs.push_back(
      cat("Some validation images, as the run saw them after update ", brief(number_in(all, "update")),
          ". Solid lines are the boxes of the data, in "
          "a colour of their class; dashed ones, black and white, are found with a score from ",
          brief(number_in(all, "least_score")),
          " on. Their numbers stand in the captions, with class and score."));
  return section;
}

}  // namespace autotrain
