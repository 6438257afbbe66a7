#include "sweep/sweep_files.h"

#include "autotrain/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace autotrain {
namespace fs = std::filesystem;

std::vector<fs::path> write_sweep_files(const fs::path& folder, const std::string& name,
                                        const nlohmann::ordered_json& json, const std::string& csv,
                                        const page::Page& page) {
  const std::vector<fs::path> files = {folder / (name + ".json"), folder / (name + ".csv"),
                                       folder / "report.html"};
  write_file_atomically(files[0], text_of_json(json));
  write_file_atomically(files[1], csv);
  write_file_atomically(files[2], render(page));
  return files;
}

std::vector<fs::path> draw_again(
    const fs::path& file, const std::string& what, const std::string& command,
    const std::function<std::vector<fs::path>(const nlohmann::ordered_json&)>& draw) {
  try {
    return draw(nlohmann::ordered_json::parse(read_file(file)));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitCode::kBadData, file.string(), cat("is no ", what, ": ", error.what()),
                cat("run ", command, " with this --output again: what it measured is kept in results/"));
  }
}

}  // namespace autotrain
